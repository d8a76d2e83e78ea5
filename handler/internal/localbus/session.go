package localbus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// Session is one holder's time with one session of a subscription. When the
// lock has expired or the session is closed, everything but Close answers
// ErrSessionLockLost.
type Session struct {
	receiver

	queue *queue
	lane  *lane
	until atomic.Int64 // Unix nanoseconds
	lost  chan struct{}
}

// AcceptSession locks the named session, with or without messages in it.
// ErrSessionLocked when another holder has it.
func (b *Bus) AcceptSession(ctx context.Context, topic, subscription, sessionID string) (*Session, error) {
	q, err := b.queue(topic, subscription)
	if err != nil {
		return nil, fmt.Errorf("accept session %q: %w", sessionID, err)
	}
	var s *Session
	err = b.do(ctx, func() error {
		if sessionID == "" {
			return ErrSessionRequired
		}
		l := q.lane(sessionID)
		if l.holder != nil {
			return ErrSessionLocked
		}
		s = b.hold(q, l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("accept session %q of subscription %q: %w", sessionID, subscription, err)
	}
	return s, nil
}

// AcceptNextSession locks the unlocked session whose first message is the
// oldest, and waits for one as long as ctx lasts. Who has waited longest is
// served first.
func (b *Bus) AcceptNextSession(ctx context.Context, topic, subscription string) (*Session, error) {
	q, err := b.queue(topic, subscription)
	if err != nil {
		return nil, fmt.Errorf("accept next session: %w", err)
	}
	granted := make(chan *Session, 1)
	err = b.do(ctx, func() error {
		q.accepting = append(q.accepting, granted)
		b.grant(q)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("accept next session of subscription %q: %w", subscription, err)
	}
	select {
	case s := <-granted:
		return s, nil
	case <-b.stopped:
		err = ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
		_ = b.do(context.WithoutCancel(ctx), func() error { // fails only when the bus, and every lock, is gone
			if !q.withdraw(granted) {
				b.letGo(<-granted)
				b.grant(q)
			}
			return nil
		})
	}
	return nil, fmt.Errorf("accept next session of subscription %q: %w", subscription, err)
}

// ID is the SessionID of the session's messages.
func (s *Session) ID() string {
	return s.lane.session
}

// LockedUntil is when the lock expires unless it is renewed.
func (s *Session) LockedUntil() time.Time {
	return time.Unix(0, s.until.Load()).UTC()
}

// Lost is closed when the lock is lost or the session or the bus is closed.
func (s *Session) Lost() <-chan struct{} {
	return s.lost
}

// Renew locks the session for another LockDuration from now.
func (s *Session) Renew(ctx context.Context) error {
	err := s.bus.do(ctx, func() error {
		if err := s.check(); err != nil {
			return err
		}
		s.extend()
		return nil
	})
	if err != nil {
		return fmt.Errorf("renew lock of %s: %w", s.name, err)
	}
	return nil
}

// Receive takes the session's next message, and waits for one as long as ctx
// lasts. It does not wait for earlier messages to be settled; who wants one at
// a time settles it first. Who has waited longest is served first.
func (s *Session) Receive(ctx context.Context) (*Message, error) {
	return s.receive(ctx)
}

// ReceiveDeferred takes deferred messages of the session by their numbers.
// ErrNotFound, and no message is taken, when one of them is not deferred, is in
// delivery already or has expired; the expired ones are then dead letters.
func (s *Session) ReceiveDeferred(ctx context.Context, sequences ...int64) ([]*Message, error) {
	return s.receiveDeferred(ctx, sequences)
}

// Close gives the session back. Messages not settled become available again,
// in their places and with their counts unchanged. Closing a session that is
// closed or lost does nothing.
//
//nolint:contextcheck // giving back is not given up
func (s *Session) Close() error {
	err := s.bus.do(context.Background(), func() error {
		s.bus.letGo(s)
		s.bus.grant(s.queue)
		return nil
	})
	if err != nil {
		return fmt.Errorf("close %s: %w", s.name, err)
	}
	return nil
}

// The rest runs in the loop.

// hold gives an unlocked lane to a new holder.
func (b *Bus) hold(q *queue, l *lane) *Session {
	s := &Session{queue: q, lane: l, lost: make(chan struct{})}
	s.receiver = receiver{locks: s, bus: b, line: &l.line, name: fmt.Sprintf("session %q", l.session)}
	q.lock(l, s)
	b.held[s] = struct{}{}
	s.extend()
	return s
}

func (s *Session) extend() {
	until := s.bus.now().Add(s.queue.LockDuration)
	s.until.Store(until.UnixNano())
	s.bus.wakeBy(until)
}

func (s *Session) expired(now time.Time) bool {
	return !now.Before(s.LockedUntil())
}

func (s *Session) check() error {
	if s.lane.holder != s || s.expired(s.bus.now()) {
		return ErrSessionLockLost
	}
	return nil
}

// lock is the session's own.
func (s *Session) lock(*outstanding) time.Time {
	return s.LockedUntil()
}

// lose tells whoever listens that the session is lost.
func (s *Session) lose() {
	select {
	case <-s.lost:
	default:
		close(s.lost)
	}
}

// letGo ends the holder's time. The session is ready for the next grant.
func (b *Bus) letGo(s *Session) {
	if s.lane.holder != s {
		return
	}
	s.leave(ErrSessionLockLost)
	s.lose()
	delete(b.held, s)
	s.queue.unlock(s.lane)
}

// grant brings waiting callers and ready sessions together.
func (b *Bus) grant(q *queue) {
	for len(q.accepting) > 0 && len(q.ready) > 0 {
		waiter := q.accepting[0]
		q.accepting = q.accepting[1:]
		waiter <- b.hold(q, q.ready[0])
	}
}

// expiry ends an expired lock. Messages in delivery count as failed.
func (s *Session) expiry() *request {
	return s.failing(slices.Collect(maps.Values(s.line.out)), func() { s.bus.letGo(s) })
}
