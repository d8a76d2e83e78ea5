// The function app, its plan, and the storage account of its host.

@description('The Azure region.')
param location string

@description('Tags of every resource.')
param tags object

@description('What makes the names unique.')
param token string

@description('The resource ID of the app\'s identity.')
param identityId string

@description('The object ID of the app\'s identity.')
param principalId string

@description('The client ID of the app\'s identity.')
param clientId string

@description('What the app runs on; FC1 is Flex Consumption.')
param planSku string

@description('Flex Consumption: the memory of an instance in MB.')
param instanceMemoryMB int

@description('The instances at most.')
param maximumInstanceCount int

@description('Flex Consumption: instances that never go away, by function.')
param alwaysReady array

@description('Where Application Insights takes telemetry.')
param insightsConnection string

@description('The Service Bus namespace as clients dial it.')
param serviceBusNamespace string

@description('The SQL server as clients dial it.')
param sqlServer string

@description('The name of the database.')
param sqlDatabase string

@description('App settings that come after all others.')
param settings object

var flex = planSku == 'FC1'
var elastic = startsWith(planSku, 'EP')
var package = 'orderflow.zip'

// Blobs: the host's keys, the timers' leases and the package. Tables: the audit,
// and what the host writes about its own start. No function needs a queue.
var roles = {
  'Storage Blob Data Owner': 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  'Storage Table Data Contributor': '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
}

resource storage 'Microsoft.Storage/storageAccounts@2024-01-01' = {
  name: 'storder${token}'
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' }
  properties: {
    allowSharedKeyAccess: false
    allowBlobPublicAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2024-01-01' = {
  parent: storage
  name: 'default'
}

resource packages 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'packages'
}

resource grants 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in items(roles): {
  name: guid(storage.id, principalId, role.value)
  scope: storage
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
  }
}]

// Orderflow's own settings: those with fixed values, and those that connect it.
var fixed = toObject(filter(items(loadJsonContent('settings.json')), s => !empty(s.value)), s => s.key, s => s.value)
var connections = {
  SqlConnection: 'sqlserver://${sqlServer}?database=${sqlDatabase}&fedauth=ActiveDirectoryManagedIdentity&user+id=${clientId}'
  ServiceBusConnection__fullyQualifiedNamespace: serviceBusNamespace
  ServiceBusConnection__clientId: clientId
  ServiceBusConnection__credential: 'managedidentity' // for the host
  AuditStorage__tableServiceUri: storage.properties.primaryEndpoints.table
  AuditStorage__clientId: clientId
}

var host = {
  AzureWebJobsStorage__accountName: storage.name
  AzureWebJobsStorage__clientId: clientId
  AzureWebJobsStorage__credential: 'managedidentity'
  APPLICATIONINSIGHTS_CONNECTION_STRING: insightsConnection
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${clientId};Authorization=AAD'
}

// Flex Consumption is told these in functionAppConfig and refuses the settings.
var otherPlans = {
  FUNCTIONS_EXTENSION_VERSION: '~4'
  FUNCTIONS_WORKER_RUNTIME: 'custom'
  WEBSITE_RUN_FROM_PACKAGE: '${storage.properties.primaryEndpoints.blob}${packages.name}/${package}'
  WEBSITE_RUN_FROM_PACKAGE_BLOB_MI_RESOURCE_ID: identityId
}

var all = union(fixed, connections, host, flex ? {} : otherPlans, settings)

resource plan 'Microsoft.Web/serverfarms@2024-04-01' = {
  name: 'plan-orderflow-${token}'
  location: location
  tags: tags
  kind: elastic ? 'elastic' : flex ? 'functionapp' : 'linux'
  sku: {
    name: planSku
    tier: flex ? 'FlexConsumption' : null
  }
  properties: {
    reserved: true // Linux
    maximumElasticWorkerCount: elastic ? maximumInstanceCount : null
  }
}

resource app 'Microsoft.Web/sites@2024-04-01' = {
  name: 'func-orderflow-${token}'
  location: location
  tags: union(tags, { 'azd-service-name': 'orderflow' })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identityId}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    siteConfig: {
      alwaysOn: !flex && !elastic
      ftpsState: 'Disabled'
      minTlsVersion: '1.2'
      appSettings: map(items(all), setting => { name: setting.key, value: setting.value })
    }
    functionAppConfig: flex ? {
      runtime: {
        name: 'custom'
        version: '1.0'
      }
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${storage.properties.primaryEndpoints.blob}${packages.name}'
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identityId
          }
        }
      }
      scaleAndConcurrency: {
        instanceMemoryMB: instanceMemoryMB
        maximumInstanceCount: maximumInstanceCount
        alwaysReady: alwaysReady
      }
    } : null
  }
  dependsOn: [
    grants
  ]
}

// Whoever deploys signs in as a person or a pipeline, not with the app's password.
resource passwords 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-04-01' = [for way in ['ftp', 'scm']: {
  parent: app
  name: way
  properties: {
    allow: false
  }
}]

@description('The name of the function app.')
output name string = app.name

@description('The address of the API.')
output address string = 'https://${app.properties.defaultHostName}'

@description('The name of the storage account.')
output storageAccount string = storage.name
