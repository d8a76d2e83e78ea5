package busserver

import (
	"strings"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

const (
	cbsNode        = "$cbs"
	managementNode = "/$management"
	deadLetters    = "/$deadletterqueue"
	subscriptions  = "/subscriptions/"
)

// address is what a link is attached to. Names are as they were declared.
type address struct {
	topic        string
	subscription string // empty: the topic itself
	deadLetters  bool   // the subscription's dead letters
	management   bool   // the entity's $management node
	cbs          bool   // the connection's $cbs node, and nothing else
}

// entity is the address without the management node.
func (a address) entity() address {
	a.management = false
	return a
}

func (a address) String() string {
	if a.cbs {
		return cbsNode
	}
	s := a.topic
	if a.subscription != "" {
		s += "/Subscriptions/" + a.subscription
	}
	if a.deadLetters {
		s += "/$DeadLetterQueue"
	}
	if a.management {
		s += managementNode
	}
	return s
}

// path is the address as path gives it.
func (a address) path() string { return strings.ToLower(a.String()) }

// path is an address as it is compared: without scheme and host, which some
// clients send, and in lower case.
func path(raw string) string {
	if _, rest, absolute := strings.Cut(raw, "://"); absolute {
		_, raw, _ = strings.Cut(rest, "/")
	}
	return strings.ToLower(strings.Trim(raw, "/"))
}

// resolve finds what an address names.
func (s *Server) resolve(raw string) (address, *amqp.Error) {
	var a address
	rest := path(raw)
	if rest == cbsNode {
		return address{cbs: true}, nil
	}
	rest, a.management = strings.CutSuffix(rest, managementNode)
	rest, a.deadLetters = strings.CutSuffix(rest, deadLetters)
	name, subscription, subscribed := strings.Cut(rest, subscriptions)
	topic, ok := s.topics[name]
	if ok && subscribed {
		a.subscription, ok = named(topic, subscription)
	}
	if !ok || a.deadLetters && !subscribed {
		return address{}, amqp.Errorf(amqp.NotFound, "The messaging entity '%s' could not be found.", raw)
	}
	a.topic = topic.Name
	return a, nil
}

// named is the subscription's name as it was declared.
func named(t localbus.Topic, subscription string) (string, bool) {
	for _, s := range t.Subscriptions {
		if strings.EqualFold(s.Name, subscription) {
			return s.Name, true
		}
	}
	return "", false
}
