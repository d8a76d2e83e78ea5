package store

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// stepsIn has something happen once, between the look at who is first in a line
// and the decision about him.
func stepsIn(w *spy, do func() error) {
	done := false
	w.step("SELECT o.revision, j.message_id", nil, func() error {
		if done {
			return nil
		}
		done = true
		return do()
	})
}

// waiting is a store, watched, with an order in whose line one message waits and
// which nothing blocks; and another process's store, which fails at it.
func waiting(t *testing.T) (s *Store, w *spy, fails *Store) {
	t.Helper()
	s, w = watched(t, Options{})
	fails = &Store{engine: s.engine, text: s.text, options: Options{
		Now: s.options.Now, Apply: func(workflow.Order, workflow.Message, []workflow.Message) workflow.Result { panic("no luck") },
	}}
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	_, err = s.Hold(t.Context(), reserved(t, "order-42"), "no luck")
	require.NoError(t, err)
	_, err = file(s).db.ExecContext(t.Context(), "UPDATE orders SET blocked_by = NULL")
	require.NoError(t, err)
	return s, w, fails
}

func TestAMessageThatBlocksAnewWhileAnotherProcessIsAboutToHandleItStaysBlocked(t *testing.T) {
	t.Parallel()
	s, spy, fails := waiting(t)
	stepsIn(spy, func() error {
		_, _, err := fails.replay(context.Background(), "order-42", 1)
		return err
	})
	n, more, err := s.replay(t.Context(), "order-42", replayMost)
	require.NoError(t, err)
	require.Zero(t, n)
	require.False(t, more)
	story, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, reserved(t, "order-42").ID, story.BlockedBy)
	require.Len(t, story.Line, 1)
	require.Equal(t, workflow.AwaitingInventory, story.Order.Status)
}

func TestAMessageThatAnotherProcessHandlesMeanwhileIsNotHandledAgain(t *testing.T) {
	t.Parallel()
	s, spy, _ := waiting(t)
	stepsIn(spy, func() error {
		n, _, err := s.replay(context.Background(), "order-42", 1)
		if n != 1 {
			return errors.New("it was not handled")
		}
		return err
	})
	n, _, err := s.replay(t.Context(), "order-42", replayMost)
	require.NoError(t, err)
	require.Zero(t, n)
	story, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.EqualValues(t, 3, story.Revision)
	require.Equal(t, workflow.AwaitingPayment, story.Order.Status)
}

func TestALineThatOthersAreAlwaysFasterAtIsLeftToTheSweep(t *testing.T) {
	t.Parallel()
	s, spy, _ := waiting(t)
	movedOn(t, s, spy, 2*maxTries) // both looks at the order are such
	_, more, err := s.replay(t.Context(), "order-42", replayMost)
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.True(t, more)
	swept, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, swept.Replayed)
}

func TestWhatAMessageOfALineCosts(t *testing.T) {
	t.Parallel()
	s, spy, _ := waiting(t)
	ran, _ := spy.during(func() {
		_, _, err := s.replay(t.Context(), "order-42", 1)
		require.NoError(t, err)
	})
	require.Equal(t, []string{"load", "load", "BEGIN", "UPDATE orders", "UPDATE journal", "UPDATE outbox", "INSERT outbox", "COMMIT"}, words(ran))
}

func TestADatabaseThatFailsForAMomentBlocksNothing(t *testing.T) {
	t.Parallel()
	s, spy, _ := waiting(t)
	failed := false
	once := func() error {
		if failed {
			return nil
		}
		failed = true
		return errors.New("the disk is away")
	}
	spy.step("INSERT INTO journal", once, nil)
	_, err := s.Handle(t.Context(), placed(t, "order-43"))
	require.ErrorIs(t, err, workflow.ErrTransient)
	failed = false
	spy.step("UPDATE journal", once, nil)
	_, more, err := s.replay(t.Context(), "order-42", 1)
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.True(t, more)
	backlog, err := s.Backlog(t.Context())
	require.NoError(t, err)
	require.Zero(t, backlog.Blocked)
	_, err = s.Story(t.Context(), "order-43")
	require.ErrorIs(t, err, workflow.ErrNoOrder)
	n, _, err := s.replay(t.Context(), "order-42", 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestAnOrderIsTouchedOnlyAtTheRevisionThatWasLoaded(t *testing.T) {
	t.Parallel()
	s, _, _ := waiting(t)
	for revision, err := range map[int64]error{1: errConflict, 2: nil, 4: errConflict} { // 2, then 3
		require.ErrorIs(t, s.engine.write(t.Context(), batch{s.touch(&found{revision: revision}, "order-42")}), err)
	}
}

func TestALineIsNotGoneOnWithForACallerWhoIsGone(t *testing.T) {
	t.Parallel()
	s, _, _ := waiting(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, more, err := s.replay(ctx, "order-42", replayMost)
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.Zero(t, n)
	require.True(t, more)
}
