// The Service Bus namespace with the entities of topics.json, which is made
// from the Go table that subscribes to them.

@description('The Azure region.')
param location string

@description('Tags of every resource.')
param tags object

@description('What makes the names unique.')
param token string

@description('The object ID of the app\'s identity.')
param principalId string

@description('The tier.')
@allowed(['Standard', 'Premium'])
param sku string

@description('Gives the app Azure Service Bus Data Owner of the namespace.')
param manage bool

var roles = {
  'Azure Service Bus Data Owner': '090c5cfd-751d-490a-894a-3ce6f1109419'
}

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' = {
  name: 'sb-orderflow-${token}'
  location: location
  tags: tags
  sku: {
    name: sku
    tier: sku
  }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
  }
}

module topics 'topic.bicep' = [for topic in loadJsonContent('topics.json').topics: {
  name: 'topic-${topic.name}-${token}'
  params: {
    namespaceName: namespace.name
    topic: topic
    principalId: principalId
  }
}]

resource owner 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in items(roles): if (manage) {
  name: guid(namespace.id, principalId, role.value)
  scope: namespace
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
  }
}]

@description('The name of the namespace as clients dial it.')
output fullyQualifiedNamespace string = '${namespace.name}.servicebus.windows.net'
