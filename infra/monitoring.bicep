// Where the host's log and telemetry go, by identity only.

@description('The Azure region.')
param location string

@description('Tags of every resource.')
param tags object

@description('What makes the names unique.')
param token string

@description('The object ID of the app\'s identity.')
param principalId string

@description('How many days logs and telemetry are kept.')
param retentionDays int

var roles = {
  'Monitoring Metrics Publisher': '3913510d-42f4-4e42-8a64-420c390055eb'
}

resource workspace 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: 'log-orderflow-${token}'
  location: location
  tags: tags
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: retentionDays
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: 'appi-orderflow-${token}'
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    DisableLocalAuth: true
  }
}

resource grants 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in items(roles): {
  name: guid(insights.id, principalId, role.value)
  scope: insights
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
  }
}]

@description('Says where telemetry goes. Local authentication is off, so it lets nobody in.')
output insightsConnection string = insights.properties.ConnectionString
