package localbus

import (
	"context"
	"time"
)

const (
	// maxGroup bounds how many requests share one commit, and with it how
	// long the first of them waits.
	maxGroup = 256
	// sweepRetry is how long the bus waits before it tries again to write
	// what an expired lock or a due message asks for.
	sweepRetry = time.Second
)

// request is one caller's wish, carried out by the loop.
type request struct {
	// write checks the wish and changes the file, within a transaction that
	// it may share with others. An error must mean that it changed nothing;
	// errors of the database are the transaction's own to keep. Nil when the
	// wish is about memory alone.
	write func(*tx) error
	// apply changes the memory, once the file is committed.
	apply func() error
	// done takes the outcome and never blocks the loop.
	done chan error
}

func newRequest(write func(*tx) error, apply func() error) *request {
	return &request{write: write, apply: apply, done: make(chan error, 1)}
}

// do hands the loop a wish about memory alone.
func (b *Bus) do(ctx context.Context, apply func() error) error {
	return b.submit(ctx, newRequest(nil, apply))
}

// update hands the loop a wish about the file. An error of ctx means that
// nothing was done: what the loop has begun it finishes.
func (b *Bus) update(ctx context.Context, write func(*tx) error, apply func()) error {
	return b.submit(ctx, newRequest(write, func() error { apply(); return nil }))
}

func (b *Bus) submit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case b.requests <- r:
		return <-r.done
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closing:
		return ErrClosed
	}
}

// loop serves requests and the alarm until the bus is closed.
func (b *Bus) loop() {
	defer func() {
		for s := range b.held {
			s.lose()
		}
		close(b.stopped)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if b.alarm.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(b.alarm.Sub(b.now()))
		}
		select {
		case <-b.closing:
			return
		case <-timer.C:
			b.sweep()
		case r := <-b.requests:
			b.sweep()
			b.serve(r)
		}
	}
}

// serve carries out first and whatever else is waiting at this moment. Those
// requests are concurrent, so their order is free: the ones about memory go
// first, the others share one commit. A lone request never waits for company.
func (b *Bus) serve(first *request) {
	var group []*request
	for r, n := first, 1; r != nil; n++ {
		if r.write == nil {
			r.done <- r.apply()
		} else {
			group = append(group, r)
		}
		if r = nil; n < maxGroup {
			r = b.waiting()
		}
	}
	_ = b.commit(group) // each request has its outcome
}

func (b *Bus) waiting() *request {
	select {
	case r := <-b.requests:
		return r
	default:
		return nil
	}
}

// commit carries out the group in one transaction: all of it reaches the file,
// save for requests that are refused, or none of it when the database fails.
// It returns the database's error.
func (b *Bus) commit(group []*request) error {
	if len(group) == 0 {
		return nil
	}
	refused := make([]error, len(group))
	failed := b.store.transact(func(t *tx) {
		for i, r := range group {
			refused[i] = r.write(t)
			if t.err != nil {
				return
			}
		}
	})
	for i, r := range group {
		switch {
		case failed != nil:
			r.done <- failed
		case refused[i] != nil:
			r.done <- refused[i]
		default:
			r.done <- r.apply()
		}
	}
	return failed
}

// sweep does what has become due by itself, if anything has: it ends expired
// locks, activates scheduled messages and buries expired ones.
func (b *Bus) sweep() {
	now := b.now()
	if b.alarm.IsZero() || now.Before(b.alarm) {
		return
	}
	// In two commits: a message whose lock has ended may have expired as well.
	err := b.commit(b.overdue(now))
	if err == nil {
		err = b.commit(b.expired(now))
	}
	if err != nil {
		b.alarm = now.Add(sweepRetry)
		return
	}

	b.alarm = time.Time{}
	for s := range b.held {
		b.wakeBy(s.LockedUntil())
	}
	for _, t := range b.topics {
		b.wakeBy(t.due)
		for _, q := range t.queues {
			b.wakeBy(q.expires)
			for _, o := range q.dead.out {
				b.wakeBy(o.until)
			}
			b.grant(q)
		}
	}
}

// overdue ends expired locks and activates scheduled messages.
func (b *Bus) overdue(now time.Time) (group []*request) {
	for s := range b.held {
		if s.expired(now) {
			s.lose()
			group = append(group, s.expiry())
		}
	}
	for _, t := range b.topics {
		if reached(t.due, now) {
			group = append(group, b.activation(t, now))
		}
		for _, q := range t.queues {
			group = append(group, q.lostDeadLetters(now)...)
		}
	}
	return group
}

// expired ends messages that have outlived their TimeToLive.
func (b *Bus) expired(now time.Time) (group []*request) {
	for _, t := range b.topics {
		for _, q := range t.queues {
			if reached(q.expires, now) {
				group = append(group, b.expiration(q, now))
			}
		}
	}
	return group
}

// reached says whether a moment, of which zero means never, has come.
func reached(at, now time.Time) bool {
	return !at.IsZero() && !now.Before(at)
}

// wakeBy moves the alarm forward to at. Zero means never.
func (b *Bus) wakeBy(at time.Time) {
	b.alarm = earlier(b.alarm, at)
}

// earlier is the earlier of two moments of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
