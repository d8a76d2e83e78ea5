package amqp

import (
	"context"
	"time"
)

const (
	// transferOverhead is the most that a frame header and a transfer take of
	// a frame.
	transferOverhead = 128
	// drainGrace is how long a drained client waits for what is at hand.
	drainGrace = 20 * time.Millisecond
)

// sending is the state of a link on which the client receives.
type sending struct {
	credit   uint32
	drain    bool               // the client wants credit used up now (2.6.7)
	changed  chan struct{}      // closed when the client's credit changes
	withdraw context.CancelFunc // ends what Credit has given
}

// sent is a delivery to the client that is not settled.
type sent struct {
	link *Link
	tag  []byte
	told bool // the client's outcome is known
}

// Outgoing is one message for the client.
type Outgoing struct {
	Tag     []byte // at most 32 bytes (2.8.7)
	Payload []byte // the encoded message
	// Settled says that no outcome is awaited.
	Settled bool
}

// Outcome is what the client has made of a delivery. State is nil when it has
// settled the delivery without saying.
type Outcome struct {
	Tag   []byte
	State State

	id uint32
}

// Credit waits until the client wants a delivery. The context it returns lasts
// as long as that holds: it ends when the client takes its credit back or
// drains it. Who then has nothing to send calls Drained and Credit again. Only
// one goroutine may wait for credit.
func (l *Link) Credit(ctx context.Context) (context.Context, error) {
	for {
		var wanted context.Context
		var changed chan struct{}
		err := l.do(func() {
			changed = l.changed
			if l.credit > 0 {
				wanted = l.want(ctx)
			}
		})
		if err != nil || wanted != nil {
			return wanted, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Drained says that there is nothing to send now. If the client drains, its
// credit is used up.
func (l *Link) Drained() error {
	return l.do(func() {
		if l.drain {
			l.useUp()
		}
	})
}

// Send delivers a message and returns when it is on its way. It needs credit:
// ErrNoCredit when the client has taken that back.
func (l *Link) Send(ctx context.Context, o Outgoing) error {
	out := make(chan struct{})
	var err error
	if gone := l.do(func() { err = l.send(o, out) }); gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	select {
	case <-out:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// NextOutcome is the client's next word on a delivery. What has come is given
// even when ctx has ended.
func (l *Link) NextOutcome(ctx context.Context) (Outcome, error) {
	return l.outcomes.get(ctx)
}

// Settle answers an outcome and so ends the delivery. The client is told only
// if it waits for it, as it does in receiver settle mode second (2.8.3).
func (l *Link) Settle(o Outcome, s State) error {
	return l.do(func() {
		if l.session.unsettled[o.id] != nil {
			delete(l.session.unsettled, o.id)
			l.session.write(disposition{Role: RoleSender, First: o.id, Settled: true, State: s})
		}
	})
}

// The rest runs in the loop.

// want is a context for as long as the client wants a delivery.
func (l *Link) want(ctx context.Context) context.Context {
	if l.withdraw != nil {
		l.withdraw()
	}
	var wanted context.Context
	if l.drain {
		wanted, l.withdraw = context.WithTimeout(ctx, drainGrace)
	} else {
		wanted, l.withdraw = context.WithCancel(ctx)
	}
	return wanted
}

// flow takes the state of the client's end of the link. Credit counts from the
// delivery-count that the client knew (2.6.7).
func (l *Link) flow(f flow) {
	if l.detached || l.peerDetached {
		return
	}
	if l.attach.Role == RoleReceiver && f.LinkCredit != nil {
		var known uint32
		if f.DeliveryCount != nil {
			known = *f.DeliveryCount
		}
		onTheWay := int64(int32(l.deliveryCount - known))
		l.credit = uint32(max(int64(*f.LinkCredit)-onTheWay, 0))
		l.drain = f.Drain
		if l.withdraw != nil && (l.drain || l.credit == 0) {
			l.withdraw()
		}
		close(l.changed)
		l.changed = make(chan struct{})
		if l.drain && l.credit == 0 {
			l.useUp()
			return
		}
	}
	if f.Echo {
		l.writeFlow(false)
	}
}

// useUp ends a drain: the rest of the credit counts as used (2.6.7).
func (l *Link) useUp() {
	l.deliveryCount += l.credit
	l.credit, l.drain = 0, false
	l.writeFlow(true)
}

// send queues a message in as many frames as it takes. A delivery-id counts
// deliveries, not frames, and is said once (2.7.5).
func (l *Link) send(o Outgoing, out chan struct{}) error {
	s := l.session
	switch {
	case l.credit == 0:
		return ErrNoCredit
	case l.attach.MaxMessageSize > 0 && uint64(len(o.Payload)) > l.attach.MaxMessageSize:
		return Errorf(MessageSizeExceeded, "%d bytes are more than the client takes", len(o.Payload))
	}
	l.credit--
	l.deliveryCount++
	id, format := s.nextDeliveryID, uint32(0)
	s.nextDeliveryID++
	if !o.Settled {
		s.unsettled[id] = &sent{link: l, tag: o.Tag}
	}
	t := transfer{DeliveryID: &id, DeliveryTag: o.Tag, MessageFormat: &format, Settled: &o.Settled}
	rest := o.Payload
	for t.More = true; t.More; {
		n := min(len(rest), int(s.conn.maxFrame-transferOverhead))
		t.Handle, t.More = l.attach.handle, n < len(rest)
		q := queuedTransfer{transfer: t, payload: rest[:n]}
		if !t.More {
			q.out = out
		}
		s.queue = append(s.queue, q)
		rest = rest[n:]
		t = transfer{More: t.More}
	}
	s.sendQueued()
	return nil
}

// outcome takes the client's word on a delivery. The first that decides counts.
func (s *session) outcome(id uint32, state State, settled bool) {
	d := s.unsettled[id]
	if settled {
		delete(s.unsettled, id)
	}
	if _, undecided := state.(received); d.told || !settled && (undecided || state == nil) {
		return
	}
	d.told = true
	d.link.outcomes.put(Outcome{Tag: d.tag, State: state, id: id})
}
