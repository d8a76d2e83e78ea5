package localbus

import (
	"context"
	"fmt"
)

const (
	// The service's own values of DeadLetterReason.
	maxDeliveryCountExceeded = "MaxDeliveryCountExceeded"
	ttlExpired               = "TTLExpiredException"
)

// Complete removes the message: it is done.
//
// Like the other ways to settle it knows the message by its LockToken alone.
// Errors: ErrSessionLockLost, ErrMessageLockLost when the message is not in
// delivery to this session's holder, ErrClosed.
func (s *Session) Complete(ctx context.Context, m *Message) error {
	return s.complete(ctx, m)
}

// Abandon counts the delivery as failed. The message is at once available
// again, at its place in the session's order, until its failed deliveries reach
// MaxDeliveryCount; then it goes to the dead letters and the session goes on.
// A deferred message stays deferred instead.
func (s *Session) Abandon(ctx context.Context, m *Message) error {
	return s.abandon(ctx, m)
}

// Release is Abandon without counting the delivery.
func (s *Session) Release(ctx context.Context, m *Message) error {
	return s.release(ctx, m)
}

// Defer sets the message aside: it is received by its number only, with
// ReceiveDeferred. The delivery is not counted.
func (s *Session) Defer(ctx context.Context, m *Message) error {
	return s.setAside(ctx, m)
}

// DeadLetter puts the message among the dead letters and the session goes on.
func (s *Session) DeadLetter(ctx context.Context, m *Message, reason, description string) error {
	return s.settle(ctx, "dead-letter", m, func(x *tx, o *outstanding) (fate, bool) {
		return buried, x.bury(s.queue, o.sequence, o.failed, reason, description)
	})
}

func (r *receiver) complete(ctx context.Context, m *Message) error {
	return r.settle(ctx, "complete", m, func(x *tx, o *outstanding) (fate, bool) {
		return removed, x.complete(r.line.queue, o.sequence)
	})
}

func (r *receiver) abandon(ctx context.Context, m *Message) error {
	return r.settle(ctx, "abandon", m, r.fail)
}

func (r *receiver) setAside(ctx context.Context, m *Message) error {
	return r.settle(ctx, "defer", m, func(x *tx, o *outstanding) (fate, bool) {
		return setAside, x.setAside(r.line.queue, o.sequence)
	})
}

// release needs no file: there the message is as it was.
func (r *receiver) release(ctx context.Context, m *Message) error {
	token := m.LockToken
	return r.settled("release", m, r.bus.do(ctx, func() error {
		o, err := r.find(token)
		r.giveBack(o)
		return err
	}))
}

func (r *receiver) settle(ctx context.Context, verb string, m *Message, write settlement) error {
	return r.settled(verb, m, r.bus.submit(ctx, r.settling(m.LockToken, write)))
}

func (r *receiver) settled(verb string, m *Message, err error) error {
	if err != nil {
		return fmt.Errorf("%s message %q of %s: %w", verb, m.MessageID, r.name, err)
	}
	return nil
}

// settlement writes what becomes of a message in delivery and says whether the
// file had it.
type settlement func(*tx, *outstanding) (fate, bool)

// settling ends the delivery with this token.
func (r *receiver) settling(token string, write settlement) *request {
	var o *outstanding
	var f fate
	return newRequest(func(x *tx) (err error) {
		if o, err = r.find(token); err != nil {
			return err
		}
		var ok bool
		if !x.claim(o) {
			return ErrMessageLockLost
		}
		if f, ok = write(x, o); !ok {
			return ErrMessageLockLost
		}
		return nil
	}, func() error {
		r.bus.end(r.line, o, f)
		r.bus.deliver(r.line)
		return nil
	})
}

// fail counts the delivery as failed. What is dead does not die again.
func (r *receiver) fail(x *tx, o *outstanding) (fate, bool) {
	q, failed := r.line.queue, o.failed+1
	if r.line.dead || failed < q.MaxDeliveryCount {
		return returned, x.retry(q, o.sequence, failed)
	}
	description := fmt.Sprintf("Message could not be consumed after %d delivery attempts.", failed)
	return buried, x.bury(q, o.sequence, failed, maxDeliveryCountExceeded, description)
}

// failing counts the deliveries as failed and then does the rest.
func (r *receiver) failing(lost []*outstanding, rest func()) *request {
	fates := make([]fate, len(lost))
	return newRequest(func(x *tx) error {
		for i, o := range lost {
			fates[i], _ = r.fail(x, o) // the file has it: nobody else settles what is held
		}
		return nil
	}, func() error {
		for i, o := range lost {
			r.bus.end(r.line, o, fates[i])
		}
		rest()
		return nil
	})
}
