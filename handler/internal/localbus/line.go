package localbus

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// line is messages that are received one after the other: those of a session,
// or the dead letters of a subscription. The loop owns it.
type line struct {
	queue   *queue
	session string // empty for dead letters
	dead    bool
	// pending are the active messages that are not in delivery, by sequence
	// number.
	pending []entry
	// out are the messages in delivery, by lock token.
	out map[string]*outstanding
	// calling are the callers that wait for a message, first come first.
	calling []*call
}

// entry is a message in a subscription.
type entry struct {
	sequence int64
	expires  int64 // a stamp
}

func (e entry) expired(now time.Time) bool {
	return e.expires != 0 && e.expires <= now.UnixMicro()
}

// outstanding is a message in delivery.
type outstanding struct {
	entry

	by       *receiver
	token    string
	failed   int // deliveries before this one
	deferred bool
	until    time.Time // when its own lock expires; zero when it has none
}

// lost says whether the message's own lock has expired.
func (o *outstanding) lost(now time.Time) bool {
	return !o.until.IsZero() && !now.Before(o.until)
}

// call is one caller that waits for a message.
type call struct {
	by     *receiver
	answer chan delivery // never blocks the loop
}

type delivery struct {
	message *Message
	err     error
}

func newLine(q *queue, session string, dead bool) line {
	return line{queue: q, session: session, dead: dead, out: map[string]*outstanding{}}
}

// put gives a message its place.
func (l *line) put(e entry) {
	i, _ := l.find(e.sequence)
	l.pending = slices.Insert(l.pending, i, e)
}

// entry is the message's. Time to live ends with death.
func (l *line) entry(m *Message) entry {
	e := entry{sequence: m.SequenceNumber}
	if !l.dead {
		e.expires = expiry(m.EnqueuedAt, m.TimeToLive)
	}
	return e
}

// find says where the message is or would be, and whether it is there.
func (l *line) find(sequence int64) (int, bool) {
	if n := len(l.pending); n == 0 || l.pending[n-1].sequence < sequence {
		return n, false
	}
	return slices.BinarySearchFunc(l.pending, sequence, func(e entry, sequence int64) int {
		return cmp.Compare(e.sequence, sequence)
	})
}

func (l *line) remove(i int) {
	if i == 0 {
		l.pending = l.pending[1:] // the usual one, and nothing moves
		return
	}
	l.pending = slices.Delete(l.pending, i, i+1)
}

// inDelivery says whether somebody holds the message.
func (l *line) inDelivery(sequence int64) bool {
	for _, o := range l.out {
		if o.sequence == sequence {
			return true
		}
	}
	return false
}

// withdraw takes a caller from those that wait and says whether it was there.
func (l *line) withdraw(c *call) bool {
	i := slices.Index(l.calling, c)
	if i < 0 {
		return false
	}
	l.calling = slices.Delete(l.calling, i, i+1)
	return true
}

// deliver brings waiting callers and messages together. A message that has
// expired is left to the sweep.
//
//nolint:contextcheck // it may serve another than the caller
func (b *Bus) deliver(l *line) {
	for len(l.calling) > 0 {
		now := b.now()
		next := slices.IndexFunc(l.pending, func(e entry) bool { return !e.expired(now) })
		c := l.calling[0]
		if next < 0 || c.by.check() != nil {
			return
		}
		e := l.pending[next]
		m, err := b.store.message(context.Background(), l, e.sequence, StateActive)
		if err == nil {
			l.remove(next)
			c.by.take(m, e)
		}
		l.calling = l.calling[1:]
		c.answer <- delivery{message: m, err: err}
	}
}

// take puts the message in delivery. Its DeliveryCount is that of the failed
// deliveries before.
func (r *receiver) take(m *Message, e entry) {
	o := &outstanding{
		entry: e, by: r, token: uuid.NewString(), failed: m.DeliveryCount, deferred: m.State == StateDeferred,
	}
	r.line.out[o.token] = o
	m.DeliveryCount++
	m.LockToken = o.token
	m.LockedUntil = r.lock(o)
}

// fate is what becomes of a message whose delivery ends.
type fate int

const (
	returned fate = iota // waits again as it did before
	removed
	setAside
	buried
)

// end ends a delivery in memory, as the file has it already.
func (b *Bus) end(l *line, o *outstanding, f fate) {
	delete(l.out, o.token)
	switch f {
	case returned:
		if !o.deferred {
			l.put(o.entry)
			b.expireBy(l.queue, o.expires)
		}
	case buried:
		b.bury(l.queue, o.sequence)
	case removed, setAside: // waits no more
	}
}

// bury lets a dead letter be received.
func (b *Bus) bury(q *queue, sequence int64) {
	q.dead.put(entry{sequence: sequence})
	b.deliver(&q.dead)
}
