// One topic with its subscriptions, and the app's rights to it.

@description('The name of the namespace.')
param namespaceName string

@description('The topic as topics.json has it.')
param topic object

@description('The object ID of the app\'s identity.')
param principalId string

// The app sends to both topics and listens to the one of the orders.
var roles = union(
  { 'Azure Service Bus Data Sender': '69a216fc-b8fb-44d8-bc22-1f3c2cd27a39' },
  topic.setting == 'OrdersTopic' ? { 'Azure Service Bus Data Receiver': '4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0' } : {}
)

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: namespaceName
}

resource entity 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = {
  parent: namespace
  name: topic.name
  properties: {
    requiresDuplicateDetection: true
    duplicateDetectionHistoryTimeWindow: topic.duplicateDetection
    supportOrdering: true // into each subscription in the order of sending; off by default
    enablePartitioning: false
    maxSizeInMegabytes: 5120
  }
}

// One after the other: what is made at once under one topic may be refused as a
// conflict (409, subcode 40901).
@batchSize(1)
module subscriptions 'subscription.bicep' = [for subscription in topic.subscriptions: {
  name: '${topic.name}-${subscription.name}-${uniqueString(namespaceName)}'
  params: {
    namespaceName: namespaceName
    topicName: entity.name
    subscription: subscription
  }
}]

resource grants 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in items(roles): {
  name: guid(entity.id, principalId, role.value)
  scope: entity
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
  }
}]
