package localbus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Session is one holder's time with one session of a subscription. When the
// lock has expired or the session is closed, everything but Close answers
// ErrSessionLockLost.
type Session struct {
	bus   *Bus
	queue *queue
	lane  *lane
	until atomic.Int64 // Unix nanoseconds

	// Owned by the loop.

	out      *outstanding
	receiver chan delivery // who waits in Receive; nil for nobody
}

// outstanding is the message in delivery.
type outstanding struct {
	sequence int64
	failed   int // deliveries before this one
	token    string
}

type delivery struct {
	message *Message
	err     error
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
		s = b.lock(q, l)
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
				b.release(<-granted)
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
		return fmt.Errorf("renew lock of session %q: %w", s.ID(), err)
	}
	return nil
}

// Receive takes the session's next message, and waits for one as long as ctx
// lasts. The message must be settled before the next: ErrOutstanding while it
// is not, or while another Receive waits.
func (s *Session) Receive(ctx context.Context) (*Message, error) {
	delivered := make(chan delivery, 1)
	err := s.bus.do(ctx, func() error {
		if err := s.check(); err != nil {
			return err
		}
		if s.out != nil || s.receiver != nil {
			return ErrOutstanding
		}
		s.receiver = delivered
		s.bus.deliver(s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("receive from session %q: %w", s.ID(), err)
	}
	select {
	case d := <-delivered:
		if err = d.err; err == nil {
			return d.message, nil
		}
	case <-s.bus.stopped:
		err = ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
		_ = s.bus.do(context.WithoutCancel(ctx), func() error { // fails only when the bus, and every lock, is gone
			if s.receiver == delivered {
				s.receiver = nil
			} else if d := <-delivered; d.message != nil {
				s.out = nil
			}
			return nil
		})
	}
	return nil, fmt.Errorf("receive from session %q: %w", s.ID(), err)
}

// Close gives the session back. A message not settled becomes available again,
// in its place and with its count unchanged. Closing a session that is closed
// or lost does nothing.
//
//nolint:contextcheck // giving back is not given up
func (s *Session) Close() error {
	err := s.bus.do(context.Background(), func() error {
		s.bus.release(s)
		s.bus.grant(s.queue)
		return nil
	})
	if err != nil {
		return fmt.Errorf("close session %q: %w", s.ID(), err)
	}
	return nil
}

// The rest runs in the loop.

// lock gives an unlocked lane to a new holder.
func (b *Bus) lock(q *queue, l *lane) *Session {
	s := &Session{bus: b, queue: q, lane: l}
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

// release ends the holder's time. The session is ready for the next grant.
func (b *Bus) release(s *Session) {
	if s.lane.holder != s {
		return
	}
	if s.receiver != nil {
		s.receiver <- delivery{err: ErrSessionLockLost}
	}
	s.receiver, s.out = nil, nil
	delete(b.held, s)
	s.queue.unlock(s.lane)
}

// grant brings waiting callers and ready sessions together.
func (b *Bus) grant(q *queue) {
	for len(q.accepting) > 0 && len(q.ready) > 0 {
		waiter := q.accepting[0]
		q.accepting = q.accepting[1:]
		waiter <- b.lock(q, q.ready[0])
	}
}

// deliver gives the session's first message to who waits for it, if both are
// there.
//
//nolint:contextcheck // it may serve another than the caller
func (b *Bus) deliver(s *Session) {
	if s.receiver == nil || len(s.lane.pending) == 0 || s.check() != nil {
		return
	}
	sequence := s.lane.pending[0]
	m, err := b.store.active(context.Background(), s.queue, sequence)
	if err == nil {
		s.out = &outstanding{sequence: sequence, failed: m.DeliveryCount, token: uuid.NewString()}
		m.DeliveryCount++
		m.LockToken = s.out.token
	}
	s.receiver <- delivery{message: m, err: err}
	s.receiver = nil
}
