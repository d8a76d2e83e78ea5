package main

import (
	"time"

	"orderflow/functions"
	"orderflow/handler/internal/localbus"
	"orderflow/handler/internal/project"
	"orderflow/handler/internal/simulation"
	"orderflow/workflow"
)

// How each subscription is made.
const (
	deliveries   = 10 // then the broker gives a message up
	lockDuration = time.Minute
)

// topology is what Service Bus holds, locally and deployed: a subscription of the
// orders topic for each function, and one of the commands topic for each service.
func (s *settings) topology() (orders, commands project.Topic) {
	orders = project.Topic{Setting: "OrdersTopic", Name: s.OrdersTopic, DuplicateDetection: project.Span(s.DuplicateDetection)}
	for _, f := range functions.Subscriptions() {
		orders.Subscriptions = append(orders.Subscriptions, subscription(f.Name, f.Types))
	}
	commands = project.Topic{Setting: "CommandsTopic", Name: s.CommandsTopic, DuplicateDetection: project.Span(s.DuplicateDetection)}
	for _, service := range simulation.Subscriptions() {
		commands.Subscriptions = append(commands.Subscriptions, subscription(service.Name, service.Commands))
	}
	return orders, commands
}

// subscription takes the messages of some types.
func subscription(name string, types []workflow.MessageType) project.Subscription {
	s := project.Subscription{Name: name, RequiresSession: true, MaxDeliveryCount: deliveries, LockDuration: project.Span(lockDuration)}
	for _, t := range types {
		s.Subjects = append(s.Subjects, string(t))
	}
	return s
}

// topics is the topology for the bus of local mode.
func (l *localSystem) topics() []localbus.Topic {
	var all []localbus.Topic
	orders, commands := l.settings.topology()
	for _, t := range []project.Topic{orders, commands} {
		topic := localbus.Topic{Name: t.Name, DuplicateDetection: time.Duration(t.DuplicateDetection)}
		for _, s := range t.Subscriptions {
			topic.Subscriptions = append(topic.Subscriptions, localbus.Subscription{
				Name: s.Name, Subjects: s.Subjects, MaxDeliveryCount: s.MaxDeliveryCount, LockDuration: time.Duration(s.LockDuration),
			})
		}
		all = append(all, topic)
	}
	return all
}
