package busserver

import (
	"context"
	"net"
	"sync"
	"time"

	"orderflow/handler/internal/amqp"
)

// connection is what the links of one connection share.
type connection struct {
	server *Server
	net    net.Conn

	mu        sync.Mutex
	replies   map[replyKey]chan []byte // to links that take replies
	changed   chan struct{}            // closed when replies changes
	receivers map[*receiver]struct{}
	grants    map[string]time.Time // until when, by the path of the audience
}

func newConnection(s *Server, nc net.Conn) *connection {
	return &connection{
		server: s, net: nc,
		replies:   map[replyKey]chan []byte{},
		changed:   make(chan struct{}),
		receivers: map[*receiver]struct{}{},
		grants:    map[string]time.Time{},
	}
}

// ServeLink serves a link according to what it is attached to.
func (c *connection) ServeLink(ctx context.Context, l *amqp.Link) {
	a, refusal := c.admit(ctx, l)
	if refusal != nil {
		_ = l.Refuse(refusal) // fails only when the link is gone
		return
	}
	fromClient := l.Attach().Role == amqp.RoleSender
	switch {
	case a.cbs || a.management:
		if fromClient {
			c.serveRequests(ctx, l, a)
		} else {
			c.serveReplies(ctx, l, a)
		}
	case fromClient && a.subscription == "":
		c.serveSender(ctx, l, a)
	case fromClient:
		_ = l.Refuse(amqp.Errorf(amqp.NotAllowed, "Messages are sent to a topic, not to a subscription."))
	case a.subscription == "":
		_ = l.Refuse(amqp.Errorf(amqp.NotAllowed, "Messages are received from a subscription, not from a topic."))
	default:
		c.serveReceiver(ctx, l, a)
	}
}

// admit says what a link is attached to, or why it may not be.
func (c *connection) admit(ctx context.Context, l *amqp.Link) (address, *amqp.Error) {
	attach := l.Attach()
	var raw string
	var dynamic bool
	switch {
	case attach.Role == amqp.RoleSender && attach.Target != nil:
		raw, dynamic = attach.Target.Address, attach.Target.Dynamic
	case attach.Role == amqp.RoleReceiver && attach.Source != nil:
		raw, dynamic = attach.Source.Address, attach.Source.Dynamic
	default:
		return address{}, amqp.Errorf(amqp.NotImplemented, "A link needs an ordinary source or target.")
	}
	if dynamic {
		return address{}, amqp.Errorf(amqp.NotImplemented, "Dynamic nodes are not supported.")
	}
	a, refusal := c.server.resolve(raw)
	if refusal != nil || a.cbs {
		return a, refusal
	}
	if refusal := c.authorized(a); refusal != nil {
		return a, refusal
	}
	if attach.Role == amqp.RoleSender || !a.management {
		f := c.server.config.Faults.at(ctx, Event{Moment: Attaching, Address: a.String()})
		return a, c.refusal(f)
	}
	return a, nil
}
