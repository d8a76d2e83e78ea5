package localbus

import (
	"context"
	"fmt"
)

// Complete removes the message: it is done.
//
// Like the other ways to settle it knows the message by its LockToken alone.
// Errors: ErrSessionLockLost, ErrMessageLockLost when the message is not the
// one in delivery, ErrClosed.
func (s *Session) Complete(ctx context.Context, m *Message) error {
	err := s.settle(ctx, m, func(x *tx) (bool, bool) {
		return true, x.complete(s.queue, *s.out)
	})
	return s.settled("complete", m, err)
}

// Abandon counts the delivery as failed. The message is at once available
// again as the first of its session, until its failed deliveries reach
// MaxDeliveryCount; then it goes to the dead letters and the session goes on.
func (s *Session) Abandon(ctx context.Context, m *Message) error {
	err := s.settle(ctx, m, s.fail)
	return s.settled("abandon", m, err)
}

// DeadLetter puts the message among the dead letters and the session goes on.
func (s *Session) DeadLetter(ctx context.Context, m *Message, reason, description string) error {
	err := s.settle(ctx, m, func(x *tx) (bool, bool) {
		return true, x.bury(s.queue, *s.out, s.out.failed, reason, description)
	})
	return s.settled("dead-letter", m, err)
}

func (s *Session) settled(verb string, m *Message, err error) error {
	if err != nil {
		return fmt.Errorf("%s message %q of session %q: %w", verb, m.MessageID, s.ID(), err)
	}
	return nil
}

// settle ends a delivery. Write says whether the message has left the session
// and whether the file had it as it was delivered; it had not when a concurrent
// request of the same transaction has settled it already.
func (s *Session) settle(ctx context.Context, m *Message, write func(*tx) (leaves, ok bool)) error {
	token := m.LockToken
	var leaves bool
	return s.bus.update(ctx, func(x *tx) error {
		if err := s.check(); err != nil {
			return err
		}
		if s.out == nil || s.out.token != token {
			return ErrMessageLockLost
		}
		var ok bool
		if leaves, ok = write(x); !ok {
			return ErrMessageLockLost
		}
		return nil
	}, func() { s.putBack(leaves) })
}

// putBack ends the delivery in memory.
func (s *Session) putBack(leaves bool) {
	s.out = nil
	if leaves {
		s.lane.pending = s.lane.pending[1:]
	}
}

// fail counts the delivery as failed.
func (s *Session) fail(x *tx) (leaves, ok bool) {
	failed := s.out.failed + 1
	if failed < s.queue.MaxDeliveryCount {
		return false, x.retry(s.queue, *s.out, failed)
	}
	description := fmt.Sprintf("Message could not be consumed after %d delivery attempts.", failed)
	return true, x.bury(s.queue, *s.out, failed, maxDeliveryCountExceeded, description)
}

// expiry ends an expired lock. A message in delivery counts as failed.
func (s *Session) expiry() *request {
	var leaves bool
	write := func(x *tx) error {
		if s.out != nil {
			leaves, _ = s.fail(x)
		}
		return nil
	}
	return newRequest(write, func() error {
		s.putBack(leaves)
		s.bus.release(s)
		return nil
	})
}
