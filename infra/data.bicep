// Where the orders are kept: an Azure SQL database that knows no passwords.
// Who may do what in it is in sql/grant.sql, which is run by hand: a template
// cannot make users of a database.

@description('The Azure region.')
param location string

@description('Tags of every resource.')
param tags object

@description('What makes the names unique.')
param token string

@description('The size of the database.')
param sku string

@description('How many days it can be restored to a point in time.')
param restoreDays int

@description('The name of the administrator in Entra ID.')
param administratorName string

@description('The object ID of the administrator.')
param administratorObjectId string

@description('What the administrator is.')
@allowed(['Group', 'User', 'Application'])
param administratorType string

var serverless = startsWith(sku, 'GP_S_')
var vCores = serverless ? int(last(split(sku, '_'))) : 0

resource server 'Microsoft.Sql/servers@2023-08-01' = {
  name: 'sql-orderflow-${token}'
  location: location
  tags: tags
  properties: {
    minimalTlsVersion: '1.2'
    publicNetworkAccess: 'Enabled'
    administrators: {
      administratorType: 'ActiveDirectory'
      azureADOnlyAuthentication: true
      login: administratorName
      sid: administratorObjectId
      principalType: administratorType
      tenantId: tenant().tenantId
    }
  }
}

// 0.0.0.0 stands for "what runs in Azure", in any subscription; who comes in is
// decided by the login. A private endpoint takes the place of this rule.
resource fromAzure 'Microsoft.Sql/servers/firewallRules@2023-08-01' = {
  parent: server
  name: 'AllowAllWindowsAzureIps'
  properties: {
    startIpAddress: '0.0.0.0'
    endIpAddress: '0.0.0.0'
  }
}

resource database 'Microsoft.Sql/servers/databases@2023-08-01' = {
  parent: server
  name: 'orders'
  location: location
  tags: tags
  sku: { name: sku }
  properties: {
    requestedBackupStorageRedundancy: 'Geo'
    autoPauseDelay: serverless ? -1 : null
    // The least that its size allows: half a core, and of more than four an eighth.
    minCapacity: serverless ? json(vCores < 5 ? '0.5' : '${vCores / 8}.${vCores % 8 * 125}') : null
  }
}

resource restore 'Microsoft.Sql/servers/databases/backupShortTermRetentionPolicies@2023-08-01' = {
  parent: database
  name: 'default'
  properties: {
    retentionDays: restoreDays
  }
}

@description('The server as clients dial it.')
output server string = server.properties.fullyQualifiedDomainName

@description('The name of the database.')
output database string = database.name
