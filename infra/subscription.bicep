// One subscription, which gets the messages of its subjects and no others.

@description('The name of the namespace.')
param namespaceName string

@description('The name of the topic.')
param topicName string

@description('The subscription as topics.json has it.')
param subscription object

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: namespaceName
}

resource topic 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' existing = {
  parent: namespace
  name: topicName
}

resource entity 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2024-01-01' = {
  parent: topic
  name: subscription.name
  properties: {
    requiresSession: subscription.requiresSession
    maxDeliveryCount: subscription.maxDeliveryCount
    lockDuration: subscription.lockDuration
    deadLetteringOnMessageExpiration: true
  }
}

// A new subscription has a rule of this name that lets everything through. A
// template cannot delete it, and what else becomes of it is not documented, so it
// is made to let nothing through. It is not given to a subject instead: were it
// taken away when another rule is made, that subject's messages would be lost.
resource nothing 'Microsoft.ServiceBus/namespaces/topics/subscriptions/rules@2024-01-01' = {
  parent: entity
  name: '$Default'
  properties: {
    filterType: 'SqlFilter'
    sqlFilter: {
      sqlExpression: '1=0'
    }
  }
}

@batchSize(1)
resource subjects 'Microsoft.ServiceBus/namespaces/topics/subscriptions/rules@2024-01-01' = [for subject in subscription.subjects: {
  parent: entity
  name: subject
  properties: {
    filterType: 'CorrelationFilter'
    correlationFilter: {
      label: subject
    }
  }
  dependsOn: [
    nothing
  ]
}]
