package localbus

import (
	"context"
	"fmt"
	"time"
)

// DeadLetterReceiver takes dead letters of one subscription, whatever their
// sessions, in competition with other receivers. Each message has a lock of its
// own, which lasts for the subscription's LockDuration. However often a dead
// letter fails, it stays one.
type DeadLetterReceiver struct {
	receiver

	closed bool
}

// OpenDeadLetters opens a receiver of dead letters.
func (b *Bus) OpenDeadLetters(ctx context.Context, topic, subscription string) (*DeadLetterReceiver, error) {
	q, err := b.queue(topic, subscription)
	if err == nil {
		err = b.do(ctx, func() error { return nil }) // may be closed
	}
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	r := &DeadLetterReceiver{}
	r.receiver = receiver{locks: r, bus: b, line: &q.dead, name: fmt.Sprintf("dead letters of subscription %q", subscription)}
	return r, nil
}

// Receive takes the next dead letter, and waits for one as long as ctx lasts.
// Of all receivers who has waited longest is served first.
func (r *DeadLetterReceiver) Receive(ctx context.Context) (*Message, error) {
	return r.receive(ctx)
}

// ReceiveDeferred takes deferred dead letters by their numbers. ErrNotFound,
// and no message is taken, when one of them is not deferred or is in delivery
// already.
func (r *DeadLetterReceiver) ReceiveDeferred(ctx context.Context, sequences ...int64) ([]*Message, error) {
	return r.receiveDeferred(ctx, sequences)
}

// Complete removes the message for good.
//
// Like the other ways to settle it knows the message by its LockToken alone.
// Errors: ErrMessageLockLost when the lock has expired or the message is not in
// delivery to this receiver, ErrClosed.
func (r *DeadLetterReceiver) Complete(ctx context.Context, m *Message) error {
	return r.complete(ctx, m)
}

// Abandon counts the delivery as failed and makes the message available again,
// or leaves it deferred.
func (r *DeadLetterReceiver) Abandon(ctx context.Context, m *Message) error {
	return r.abandon(ctx, m)
}

// Release is Abandon without counting the delivery.
func (r *DeadLetterReceiver) Release(ctx context.Context, m *Message) error {
	return r.release(ctx, m)
}

// Defer sets the message aside: it is received by its number only, with
// ReceiveDeferred. The delivery is not counted.
func (r *DeadLetterReceiver) Defer(ctx context.Context, m *Message) error {
	return r.setAside(ctx, m)
}

// Renew locks the message for another LockDuration from now and says until
// when that is.
func (r *DeadLetterReceiver) Renew(ctx context.Context, m *Message) (time.Time, error) {
	token := m.LockToken
	var until time.Time
	err := r.bus.do(ctx, func() error {
		o, err := r.find(token)
		if err == nil {
			until = r.lock(o)
		}
		return err
	})
	return until, r.settled("renew lock of", m, err)
}

// Close ends the receiver. Messages not settled become available again, with
// their counts unchanged. Closing again does nothing.
//
//nolint:contextcheck // giving back is not given up
func (r *DeadLetterReceiver) Close() error {
	err := r.bus.do(context.Background(), func() error {
		r.closed = true
		r.leave(ErrClosed)
		return nil
	})
	if err != nil {
		return fmt.Errorf("close %s: %w", r.name, err)
	}
	return nil
}

// The rest runs in the loop.

func (r *DeadLetterReceiver) check() error {
	if r.closed {
		return ErrClosed
	}
	return nil
}

func (r *DeadLetterReceiver) lock(o *outstanding) time.Time {
	o.until = r.bus.now().Add(r.line.queue.LockDuration).UTC()
	r.bus.wakeBy(o.until)
	return o.until
}

// lostDeadLetters ends the locks of dead letters that have expired. Each is a
// failed delivery.
func (q *queue) lostDeadLetters(now time.Time) (group []*request) {
	for _, o := range q.dead.out {
		if o.lost(now) {
			group = append(group, o.by.failing([]*outstanding{o}, func() { o.by.bus.deliver(&q.dead) }))
		}
	}
	return group
}
