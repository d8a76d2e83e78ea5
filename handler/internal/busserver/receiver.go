package busserver

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// source is what a receiver takes messages from: a *localbus.Session or
// deadLetterSource.
type source interface {
	Receive(context.Context) (*localbus.Message, error)
	ReceiveDeferred(context.Context, ...int64) ([]*localbus.Message, error)
	Complete(context.Context, *localbus.Message) error
	Abandon(context.Context, *localbus.Message) error
	Release(context.Context, *localbus.Message) error
	Defer(context.Context, *localbus.Message) error
	DeadLetter(ctx context.Context, m *localbus.Message, reason, description string) error
	Close() error
}

// receiver is a link on which messages go to the client.
type receiver struct {
	connection *connection
	link       *amqp.Link
	name       string // the link's
	entity     address
	source     source
	session    *localbus.Session // nil for dead letters
	settled    bool              // receive and delete

	mu   sync.Mutex
	held map[uuid.UUID]*localbus.Message // by lock token
}

// serveReceiver serves a link on a subscription or its dead letters.
func (c *connection) serveReceiver(ctx context.Context, l *amqp.Link, a address) {
	r := &receiver{
		connection: c, link: l, name: l.Attach().Name, entity: a,
		settled: l.Attach().SndSettleMode == amqp.SenderSettled,
		held:    map[uuid.UUID]*localbus.Message{},
	}
	reply, err := r.open(ctx)
	if err != nil {
		_ = l.Refuse(linkError(err)) // fails only when the link is gone
		return
	}
	defer func() { _ = r.source.Close() }() // fails only when the bus, and every lock, is gone
	c.enlist(r)
	defer c.strike(r)
	if l.Accept(reply) == nil {
		r.run(ctx)
	}
}

func (c *connection) enlist(r *receiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receivers[r] = struct{}{}
}

func (c *connection) strike(r *receiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.receivers, r)
}

// open locks what the receiver takes from, and says how to answer the attach.
func (r *receiver) open(ctx context.Context) (amqp.Reply, error) {
	attach := r.link.Attach()
	filter, sessionful := attach.Source.Filter.Lookup(sessionFilter)
	switch {
	case r.entity.deadLetters && sessionful:
		return amqp.Reply{}, amqp.Errorf(amqp.NotAllowed, "A sessionful message receiver cannot be created on an entity that does not require sessions.")
	case r.entity.deadLetters:
		d, err := r.connection.server.bus.OpenDeadLetters(ctx, r.entity.topic, r.entity.subscription)
		if err != nil {
			return amqp.Reply{}, err
		}
		r.source = deadLetterSource{d}
		return amqp.Reply{}, nil
	case !sessionful:
		return amqp.Reply{}, amqp.Errorf(amqp.NotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.")
	}
	s, err := r.connection.server.acceptSession(ctx, r.entity, filter, attach.Properties)
	if err != nil {
		return amqp.Reply{}, err
	}
	r.source, r.session = s, s
	return amqp.Reply{
		Source:     attach.Source.WithFilter(grantedFilter(attach.Source.Filter, s.ID())),
		Properties: amqp.Map{{Key: amqp.Symbol("com.microsoft:locked-until-utc"), Value: ticks(s.LockedUntil())}},
	}, nil
}

// run delivers and settles until the link is gone or the lock is lost.
func (r *receiver) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var settling sync.WaitGroup
	settling.Go(func() { r.settleOutcomes(ctx) })
	if r.session != nil {
		settling.Go(func() {
			select {
			case <-r.session.Lost():
				_ = r.link.Detach(linkError(localbus.ErrSessionLockLost))
				stop()
			case <-ctx.Done():
			}
		})
	}
	if err := r.deliver(ctx); ctx.Err() == nil {
		_ = r.link.Detach(linkError(err)) // fails only when the link is gone
	}
	stop()
	settling.Wait()
}

// deliver hands messages to the client as it wants them, until it cannot go on.
// The link may then still be there.
func (r *receiver) deliver(ctx context.Context) error {
	for {
		wanted, err := r.link.Credit(ctx)
		if err != nil {
			return err
		}
		m, err := r.source.Receive(wanted)
		switch {
		case err == nil:
			err = r.send(ctx, m)
		case wanted.Err() != nil:
			err = r.link.Drained()
		}
		if err != nil {
			return err
		}
	}
}

// send delivers one message.
func (r *receiver) send(ctx context.Context, m *localbus.Message) error {
	token := lockToken(m)
	o := amqp.Outgoing{Tag: deliveryTag(token), Settled: r.settled}
	if r.settled {
		if err := r.source.Complete(ctx, m); err != nil {
			return err
		}
	}
	o.Payload = toWire(m).Append(nil)
	if !r.settled {
		r.hold(m)
	}
	err := r.link.Send(ctx, o)
	if errors.Is(err, amqp.ErrNoCredit) && !r.settled {
		return r.source.Release(ctx, r.drop(token))
	}
	return err
}

func (r *receiver) hold(m *localbus.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[lockToken(m)] = m
}

// holds is the message with the lock token; nil when there is none.
func (r *receiver) holds(token uuid.UUID) *localbus.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[token]
}

// drop is holds, and the message is held no more.
func (r *receiver) drop(token uuid.UUID) *localbus.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.held[token]
	delete(r.held, token)
	return m
}
