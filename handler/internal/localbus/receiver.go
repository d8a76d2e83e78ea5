package localbus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// receiver is what the two kinds of receiver share: it takes messages from a
// line and settles them.
type receiver struct {
	locks

	bus  *Bus
	line *line
	name string // for errors
}

// locks is what the two kinds of receiver differ in: how long a message is
// theirs. It belongs to the loop.
type locks interface {
	// check says why the receiver can no longer be used, if so.
	check() error
	// lock locks a message that is now in delivery and says until when.
	lock(*outstanding) time.Time
}

func (r *receiver) receive(ctx context.Context) (*Message, error) {
	m, err := r.next(ctx)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", r.name, err)
	}
	return m, nil
}

// next takes the line's next message, and waits for one as long as ctx lasts.
func (r *receiver) next(ctx context.Context) (*Message, error) {
	c := &call{by: r, answer: make(chan delivery, 1)}
	err := r.bus.do(ctx, func() error {
		if err := r.check(); err != nil {
			return err
		}
		r.line.calling = append(r.line.calling, c)
		r.bus.deliver(r.line)
		return nil
	})
	if err != nil {
		return nil, err
	}
	select {
	case d := <-c.answer:
		return d.message, d.err
	case <-r.bus.stopped:
		return nil, ErrClosed
	case <-ctx.Done():
		_ = r.bus.do(context.WithoutCancel(ctx), func() error { // fails only when the bus, and every lock, is gone
			if r.line.withdraw(c) {
				return nil
			}
			if d := <-c.answer; d.message != nil {
				r.giveBack(r.line.out[d.message.LockToken])
			}
			return nil
		})
		return nil, ctx.Err()
	}
}

// receiveDeferred takes deferred messages, all or none.
func (r *receiver) receiveDeferred(ctx context.Context, sequences []int64) ([]*Message, error) {
	messages := make([]*Message, len(sequences))
	var expired []int64
	err := r.bus.do(ctx, func() (err error) { //nolint:contextcheck // what the loop has begun it finishes
		if err := r.check(); err != nil {
			return err
		}
		for i, sequence := range sequences {
			if messages[i], err = r.deferred(sequence); err != nil {
				return fmt.Errorf("message %d: %w", sequence, err)
			}
			if slices.Contains(sequences[:i], sequence) {
				return fmt.Errorf("message %d, again: %w", sequence, ErrNotFound)
			}
			if r.line.entry(messages[i]).expired(r.bus.now()) {
				expired = append(expired, sequence)
			}
		}
		if len(expired) > 0 {
			return nil
		}
		for _, m := range messages {
			r.take(m, r.line.entry(m))
		}
		return nil
	})
	if err == nil && len(expired) > 0 {
		if err = r.bus.expireDeferred(ctx, r.line.queue, expired); err == nil {
			err = fmt.Errorf("messages %d have expired: %w", expired, ErrNotFound)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("receive deferred messages from %s: %w", r.name, err)
	}
	return messages, nil
}

// The rest runs in the loop.

// deferred reads a deferred message of the line that nobody holds.
func (r *receiver) deferred(sequence int64) (*Message, error) {
	m, err := r.bus.store.message(context.Background(), r.line, sequence, StateDeferred)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, err
	case !r.line.dead && m.SessionID != r.line.session, r.line.inDelivery(sequence):
		return nil, ErrNotFound
	}
	return m, nil
}

// find is the message in delivery to this receiver under the token.
func (r *receiver) find(token string) (*outstanding, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	o := r.line.out[token]
	if o == nil || o.by != r || o.lost(r.bus.now()) {
		return nil, ErrMessageLockLost
	}
	return o, nil
}

// giveBack ends a delivery uncounted. Nil stands for one that has ended.
func (r *receiver) giveBack(o *outstanding) {
	if o != nil {
		r.bus.end(r.line, o, returned)
		r.bus.deliver(r.line)
	}
}

// leave ends what the receiver has of the line: its callers get the error, its
// messages go back uncounted.
func (r *receiver) leave(err error) {
	r.line.calling = slices.DeleteFunc(r.line.calling, func(c *call) bool {
		if c.by == r {
			c.answer <- delivery{err: err}
		}
		return c.by == r
	})
	for _, o := range r.line.out {
		if o.by == r {
			r.bus.end(r.line, o, returned)
		}
	}
	r.bus.deliver(r.line)
}
