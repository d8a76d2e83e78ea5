package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// movedOn moves an order on, by hand, each time it was loaded.
func movedOn(t *testing.T, s *Store, w *spy, times int) {
	t.Helper()
	w.step("SELECT o.revision", nil, func() error {
		if times--; times < 0 {
			return nil
		}
		_, err := file(s).db.ExecContext(context.Background(), "UPDATE orders SET revision = revision + 1")
		return err
	})
}

func TestAMessageThatWasOvertakenIsDecidedAgain(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	movedOn(t, s, spy, maxTries-1)
	d, err := s.Handle(t.Context(), reserved(t, "order-42"))
	require.NoError(t, err)
	require.Equal(t, workflow.Applied, d.Outcome)
}

func TestAMessageThatIsOvertakenTooOftenIsLeftToItsNextDelivery(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	movedOn(t, s, spy, maxTries)
	_, err = s.Handle(t.Context(), reserved(t, "order-42"))
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.ErrorContains(t, err, "the order was changed by another message")
	story, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, workflow.AwaitingInventory, story.Order.Status)
	require.Len(t, story.Journal, 1)
	require.Len(t, story.Outbox, 2)
	d, err := s.Handle(t.Context(), reserved(t, "order-42"))
	require.NoError(t, err)
	require.Equal(t, workflow.Applied, d.Outcome)
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	movedOn(t, s, spy, maxTries)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Handle(ctx, reserved(t, "order-42"))
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
