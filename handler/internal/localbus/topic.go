package localbus

import (
	"context"
	"fmt"
	"time"
)

const (
	// keptSent is how many accepted sends per topic Sent can look back on.
	keptSent = 100_000
	// trimEvery is after how many accepted sends the older ones are removed.
	trimEvery = 1_000
	// maxActivated is how many due messages become active in one transaction.
	maxActivated = 500
)

// topic is one topic in memory. The loop owns what changes.
type topic struct {
	name               string
	duplicateDetection time.Duration
	queues             map[string]*queue

	sequence  int64     // the last number given out
	due       time.Time // no later than the first scheduled message; zero for none
	untrimmed int
}

// arrival is a message that has become active in one subscription.
type arrival struct {
	entry

	queue   *queue
	session string
}

// Send has the topic accept the messages, all or none, and returns the number
// that each was given. A message with a future ScheduledAt is kept until then.
// A MessageID seen within the topic's duplicate detection is accepted, dropped
// and answered with the number of the first. A message that no subscription
// takes is dropped.
//
// Errors: ErrNotFound, ErrSessionRequired, ErrMessageTooLarge,
// ErrInvalidMessage, ErrClosed.
func (b *Bus) Send(ctx context.Context, topic string, msgs ...Message) ([]int64, error) {
	t, err := b.topic(topic)
	if err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	parcels := make([]parcel, len(msgs))
	for i, m := range msgs {
		if parcels[i], err = pack(m); err != nil {
			return nil, fmt.Errorf("send message %q to topic %q: %w", m.MessageID, topic, err)
		}
	}
	if len(parcels) == 0 {
		return nil, nil
	}

	sequences := make([]int64, len(parcels))
	var arrived []arrival
	var due time.Time
	write := func(x *tx) error {
		now := b.now()
		for i, p := range parcels {
			var active []arrival
			sequences[i], active = t.accept(x, p, now)
			arrived = append(arrived, active...)
			if p.ScheduledAt.After(now) {
				due = earlier(due, moment(stamp(p.ScheduledAt)))
			}
		}
		x.setSequence(t.name, t.sequence)
		if t.untrimmed += len(parcels); t.untrimmed >= trimEvery {
			t.untrimmed = 0
			x.trim(t.name, keptSent, now.Add(-t.duplicateDetection))
		}
		return nil
	}
	apply := func() {
		t.due = earlier(t.due, due)
		b.wakeBy(due)
		b.arrive(arrived)
	}
	if err := b.update(ctx, write, apply); err != nil {
		return nil, fmt.Errorf("send to topic %q: %w", topic, err)
	}
	return sequences, nil
}

// CancelScheduled removes a scheduled message for good. ErrNotFound when no
// scheduled message has the number: it never had, is cancelled or is active.
func (b *Bus) CancelScheduled(ctx context.Context, topic string, sequence int64) error {
	t, err := b.topic(topic)
	if err != nil {
		return fmt.Errorf("cancel scheduled message: %w", err)
	}
	write := func(x *tx) error {
		if !x.unschedule(t.name, sequence) {
			return ErrNotFound
		}
		return nil
	}
	if err := b.update(ctx, write, func() {}); err != nil {
		return fmt.Errorf("cancel scheduled message %d of topic %q: %w", sequence, topic, err)
	}
	return nil
}

// accept writes one message and returns its number and where it became active.
func (t *topic) accept(x *tx, p parcel, now time.Time) (int64, []arrival) {
	ordinal := t.next()
	if t.duplicateDetection > 0 {
		if first := x.firstSent(t.name, p.MessageID, now.Add(-t.duplicateDetection)); first != 0 {
			x.record(t.name, ordinal, first, p, now)
			return first, nil
		}
	}
	x.record(t.name, ordinal, ordinal, p, now)
	if p.ScheduledAt.After(now) {
		x.schedule(t.name, ordinal, p.ScheduledAt)
		return ordinal, nil
	}
	return ordinal, t.route(x, routed{sent: ordinal, session: p.SessionID, subject: p.Subject, timeToLive: p.TimeToLive}, ordinal, now)
}

// routed is what a message's way depends on. Sent is the number under which it
// was accepted.
type routed struct {
	sent             int64
	session, subject string
	timeToLive       time.Duration
}

// route writes one copy of the message into each subscription that takes it.
func (t *topic) route(x *tx, m routed, sequence int64, now time.Time) []arrival {
	var arrived []arrival
	e := entry{sequence: sequence, expires: expiry(now, m.timeToLive)}
	for _, q := range t.queues {
		if q.takes(m.subject) {
			x.deliver(q, e, m.sent, now)
			arrived = append(arrived, arrival{entry: e, queue: q, session: m.session})
		}
	}
	return arrived
}

// next gives out a number. One whose transaction fails is never used.
func (t *topic) next() int64 {
	t.sequence++
	return t.sequence
}

// activation makes due messages active, in the order in which they were due.
// Each gets a new number, as in the real service.
func (b *Bus) activation(t *topic, now time.Time) *request {
	var arrived []arrival
	var next time.Time
	write := func(x *tx) error {
		for _, m := range x.due(t.name, now, maxActivated) {
			x.unschedule(t.name, m.sent)
			arrived = append(arrived, t.route(x, m, t.next(), now)...)
		}
		x.setSequence(t.name, t.sequence)
		next = x.nextDue(t.name)
		return nil
	}
	return newRequest(write, func() error {
		t.due = next
		b.arrive(arrived)
		return nil
	})
}

// arrive lets active messages be received.
func (b *Bus) arrive(arrived []arrival) {
	for _, a := range arrived {
		b.expireBy(a.queue, a.expires)
		if l := a.queue.add(a.session, a.entry); l.holder != nil {
			b.deliver(&l.line)
		} else {
			b.grant(a.queue)
		}
	}
}
