// Everything that Orderflow runs on, in one resource group, with no secret in
// it: every connection is by one user-assigned identity. How it is deployed is
// in docs/operating/deploy.md. It has been parsed, and never been deployed.
targetScope = 'resourceGroup'

@description('Tells one deployment from another: it is part of every name, so two may share a resource group.')
@minLength(1)
@maxLength(32)
param environmentName string

@description('The Azure region. Flex Consumption is not in all of them: az functionapp list-flexconsumption-locations.')
param location string = resourceGroup().location

@description('What the app runs on: FC1 is Flex Consumption, EP1 to EP3 are Elastic Premium, the others Dedicated.')
@allowed(['FC1', 'EP1', 'EP2', 'EP3', 'P0v3', 'P1v3', 'P2v3'])
param planSku string = 'FC1'

@description('Flex Consumption only: the memory of an instance in MB, which its share of processors follows.')
@allowed([512, 2048, 4096])
param instanceMemoryMB int = 2048

@description('The instances at most; on Flex Consumption those of each function, since each scales by itself. 64 sessions × 10 subscriptions × 7 instances stay below the 5,000 receives at once that a topic allows.')
@minValue(1)
@maxValue(1000)
param maximumInstanceCount int = 5

@description('Flex Consumption only: instances that never go away, as [{ name: \'function:order-placed\', instanceCount: 1 }]; the functions called over HTTP are one group, named http.')
param alwaysReady array = []

@description('The tier of the Service Bus namespace. Basic has no topics.')
@allowed(['Standard', 'Premium'])
param serviceBusSku string = 'Standard'

@description('Gives the app Azure Service Bus Data Owner of the namespace, so that the platform can read how many messages wait, by which it wakes and scales the app. The app could change and delete entities then; docs/operating/deploy.md says how it goes without.')
param scaleByMessageCount bool = true

@description('The size of the database. A serverless one (GP_S_…) is kept from pausing, since timers read it all day.')
param databaseSku string = 'GP_S_Gen5_2'

@description('How long the database can be restored to a point in time.')
@minValue(7)
@maxValue(35)
param databaseRestoreDays int = 14

@description('The name of who administers the database: of a group, a person or an application in Entra ID. There is no password.')
param databaseAdministratorName string

@description('The object ID of the same.')
param databaseAdministratorObjectId string

@description('What that is.')
@allowed(['Group', 'User', 'Application'])
param databaseAdministratorType string = 'Group'

@description('Own app settings that differ from infra/settings.json, such as { PaymentDeadline: \'48h\' }.')
param settings object = {}

@description('Where OpenTelemetry is sent over OTLP/HTTP; empty for nowhere.')
param otlpEndpoint string = ''

@description('How many days logs and telemetry are kept.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 30

@description('Tags of every resource.')
param tags object = {}

var token = uniqueString(resourceGroup().id, environmentName)
var allTags = union(tags, { 'azd-env-name': environmentName })

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: 'id-orderflow-${token}'
  location: location
  tags: allTags
}

module monitoring 'monitoring.bicep' = {
  name: 'monitoring-${token}'
  params: {
    location: location
    tags: allTags
    token: token
    principalId: identity.properties.principalId
    retentionDays: logRetentionDays
  }
}

module messaging 'messaging.bicep' = {
  name: 'messaging-${token}'
  params: {
    location: location
    tags: allTags
    token: token
    principalId: identity.properties.principalId
    sku: serviceBusSku
    manage: scaleByMessageCount
  }
}

module data 'data.bicep' = {
  name: 'data-${token}'
  params: {
    location: location
    tags: allTags
    token: token
    sku: databaseSku
    restoreDays: databaseRestoreDays
    administratorName: databaseAdministratorName
    administratorObjectId: databaseAdministratorObjectId
    administratorType: databaseAdministratorType
  }
}

module app 'app.bicep' = {
  name: 'app-${token}'
  params: {
    location: location
    tags: allTags
    token: token
    identityId: identity.id
    principalId: identity.properties.principalId
    clientId: identity.properties.clientId
    planSku: planSku
    instanceMemoryMB: instanceMemoryMB
    maximumInstanceCount: maximumInstanceCount
    alwaysReady: alwaysReady
    insightsConnection: monitoring.outputs.insightsConnection
    serviceBusNamespace: messaging.outputs.fullyQualifiedNamespace
    sqlServer: data.outputs.server
    sqlDatabase: data.outputs.database
    settings: union(settings, empty(otlpEndpoint) ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: otlpEndpoint })
  }
}

@description('The name of the function app.')
output functionApp string = app.outputs.name

@description('The address of the API.')
output address string = app.outputs.address

@description('The storage account of the host and of the audit.')
output storageAccount string = app.outputs.storageAccount

@description('The Service Bus namespace.')
output serviceBusNamespace string = messaging.outputs.fullyQualifiedNamespace

@description('The SQL server.')
output sqlServer string = data.outputs.server

@description('The database.')
output sqlDatabase string = data.outputs.database

@description('The name of the app\'s identity, which infra/sql/grant.sql makes a user of the database.')
output identityName string = identity.name
