package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"orderflow/handler/internal/project"
	"orderflow/handler/internal/servicebus"
)

// busLooks looks at the topics that are sent to, the subscriptions that are
// listened to, and how all of it was made. If the way there is cut, that is all
// there is to say.
func busLooks(ctx context.Context, s *settings) []look {
	looker, err := servicebus.NewLooker(s.serviceBus())
	if err != nil {
		return []look{wrong("Service Bus", err, "correct ServiceBusConnection")}
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = looker.Close(bye) // the broker notices in any case
	}()
	orders, commands := s.topology()
	first := looker.Topic(ctx, orders.Name)
	if first != nil && !errors.Is(first, servicebus.ErrForbidden) && !errors.Is(first, servicebus.ErrNotThere) {
		return []look{wrong("Service Bus", first, s.wayToBus())}
	}
	glances := []glance{
		{"topic " + orders.Name, func(context.Context) []look { return []look{topicLook(orders.Name, first)} }},
		{"topic " + commands.Name, func(ctx context.Context) []look {
			return []look{topicLook(commands.Name, looker.Topic(ctx, commands.Name))}
		}},
	}
	for _, sub := range orders.Subscriptions {
		name := "subscription " + orders.Name + "/" + sub.Name
		glances = append(glances, glance{name, func(ctx context.Context) []look {
			return []look{busLook(name, "has sessions and may be listened to", "Azure Service Bus Data Receiver", looker.Subscription(ctx, orders.Name, sub.Name))}
		}})
	}
	for _, t := range []project.Topic{orders, commands} {
		name := "how " + t.Name + " was made"
		glances = append(glances, glance{name, func(ctx context.Context) []look {
			if s.onEmulator() {
				return []look{{name, notLooked, "an emulator is not asked", ""}}
			}
			made, err := looker.Made(ctx, t.Name)
			return madeLooks(name, t, made, err)
		}})
	}
	return glanceAt(ctx, glances)
}

// wayToBus is what to see to when Service Bus is not reached.
func (s *settings) wayToBus() string {
	if s.onEmulator() {
		return "start the emulator, or correct ServiceBusConnection; it is looked for on port 5672 unless the Endpoint names another"
	}
	return "correct ServiceBusConnection, or see whether the network lets AMQP through, port 5671"
}

func topicLook(topic string, err error) look {
	return busLook("topic "+topic, "may be sent to", "Azure Service Bus Data Sender", err)
}

// onEmulator reports whether Service Bus is an emulator, or local mode's.
func (s *settings) onEmulator() bool {
	return strings.Contains(strings.ToLower(s.ServiceBus), "usedevelopmentemulator=true")
}

const asDeclared = "make it as infra/topics.json says"

func busLook(name, says, role string, err error) look {
	switch {
	case err == nil:
		return well(name, says)
	case errors.Is(err, servicebus.ErrForbidden):
		return wrong(name, err, "give the identity, or the key's policy, the right: "+role)
	case errors.Is(err, servicebus.ErrNotThere):
		return wrong(name, err, asDeclared)
	case errors.Is(err, servicebus.ErrNoSessions):
		return wrong(name, err, asDeclared+"; whether it has sessions cannot be changed, so delete it first")
	default:
		return wrong(name, err, "see whether the network holds")
	}
}

// madeLooks compares how a topic was made with how it is declared.
func madeLooks(name string, want project.Topic, made servicebus.MadeTopic, err error) (all []look) {
	switch {
	case errors.Is(err, servicebus.ErrForbidden):
		return []look{{name, notLooked, "only an identity or a key that may manage is told", ""}}
	case errors.Is(err, servicebus.ErrNotThere):
		return []look{wrong(name, err, asDeclared)}
	case err != nil:
		return []look{wrong(name, err, "see whether the network lets HTTPS through")}
	}
	got, odd := asTopic(want, made)
	for _, what := range odd {
		all = append(all, wrong(name, errors.New(what), asDeclared))
	}
	for _, f := range project.Differences("it", asDeclared, []project.Topic{got}, []project.Topic{want}) {
		all = append(all, wrong(name, errors.New(strings.TrimPrefix(f.Where, "it: ")+": "+f.What), f.Do))
	}
	if len(all) == 0 {
		all = []look{well(name, "as declared, subscriptions and rules too")}
	}
	return all
}

// asTopic is a topic that was made as one is declared, and what of it could not
// be declared. Of subscriptions that are not wanted nothing is odd.
func asTopic(want project.Topic, made servicebus.MadeTopic) (t project.Topic, odd []string) {
	span := func(text string) (s project.Span) {
		if err := s.UnmarshalText([]byte(text)); err != nil && text != "" {
			odd = append(odd, err.Error())
		}
		return s
	}
	t = project.Topic{Name: want.Name, DuplicateDetection: span(made.DuplicateDetection)}
	for _, m := range made.Subscriptions {
		if !slices.ContainsFunc(want.Subscriptions, func(s project.Subscription) bool { return s.Name == m.Name }) {
			continue
		}
		t.Subscriptions = append(t.Subscriptions, project.Subscription{
			Name: m.Name, RequiresSession: m.Sessions, MaxDeliveryCount: m.MaxDeliveryCount, LockDuration: span(m.LockDuration), Subjects: m.Subjects,
		})
		name := want.Name + "/" + m.Name
		if !m.DeadLetters {
			odd = append(odd, name+": a message that expires is dropped unseen")
		}
		if m.Status != "Active" {
			odd = append(odd, name+": it is "+m.Status)
		}
		if len(m.Others) > 0 {
			odd = append(odd, name+": it takes other messages too, by "+strings.Join(slices.Sorted(slices.Values(m.Others)), ", "))
		}
	}
	return t, odd
}
