package localbus

import (
	"context"
	"fmt"
)

// State is what the session's holders, past ones included, have kept with
// SetState; nil for nothing.
func (s *Session) State(ctx context.Context) (state []byte, err error) {
	err = s.bus.do(ctx, func() error { //nolint:contextcheck // what the loop has begun it finishes
		if err := s.check(); err != nil {
			return err
		}
		state, err = s.bus.store.sessionState(context.Background(), s.queue, s.ID())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read state of %s: %w", s.name, err)
	}
	return state, nil
}

// SetState keeps a few bytes with the session, for its next holders as well.
// Nil removes them. ErrMessageTooLarge when they are more than a message's.
func (s *Session) SetState(ctx context.Context, state []byte) error {
	err := s.bus.update(ctx, func(x *tx) error {
		if err := s.check(); err != nil {
			return err
		}
		if len(state) > maxMessageBytes {
			return ErrMessageTooLarge
		}
		x.setState(s.queue, s.ID(), state)
		return nil
	}, func() {})
	if err != nil {
		return fmt.Errorf("set state of %s: %w", s.name, err)
	}
	return nil
}
