package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// ended brings an order to its end, and its journal to so many rows; nothing of
// its outbox is open.
func ended(t *testing.T, s *Store, order string, rows int) {
	t.Helper()
	for _, m := range []workflow.Message{placed(t, order), said(t, order, order+":cancel", workflow.CancellationRequested, `,"reason":"r"`)} {
		_, err := s.Handle(t.Context(), m)
		require.NoError(t, err)
	}
	db := file(s).db
	_, err := db.ExecContext(t.Context(), `UPDATE outbox SET state = 'sent' WHERE state = 'waiting'`)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
INSERT INTO journal SELECT order_id, revision, n.i, message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent,
  fingerprint, 'Rejected', reason, from_status, to_status, version, emitted, function, delivery_count, received_at, decided_at, audit, body
FROM journal, n WHERE order_id = ?1 AND revision = 1`, order, rows-2)
	require.NoError(t, err)
}

func kept(t *testing.T, s *Store, order string) (n int) {
	t.Helper()
	require.NoError(t, file(s).db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM journal WHERE order_id = ?`, order).Scan(&n))
	return n
}

func TestAPurgeDeletesInSmallTransactionsAndGoesOnWhereItWasStopped(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	s, spy := watched(t, Options{Now: func() time.Time { return clock }})
	ended(t, s, "order-42", 3000)
	ended(t, s, "order-43", 3)
	clock = clock.Add(30 * 24 * time.Hour)

	ctx, cancel := context.WithCancel(t.Context())
	var left []int
	spy.step("BEGIN", func() error {
		if left = append(left, kept(t, s, "order-42")); len(left) == 4 { // the lost deadlines, and twice an order
			cancel()
		}
		return nil
	}, nil)
	done, err := s.Sweep(ctx)
	require.NoError(t, err)
	require.True(t, done.More)
	require.Equal(t, []int{3000, 3000, 2000, 2000}, left)
	// Of what it was told to stop in the middle of it may not know the end.
	require.Eventually(t, func() bool { return kept(t, s, "order-42") <= 2000 }, 5*time.Second, time.Millisecond)

	spy.step("BEGIN", func() error {
		left = append(left, kept(t, s, "order-42"))
		return nil
	}, nil)
	done, err = s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, workflow.Swept{Purged: 1}, done)
	for i := 1; i < len(left); i++ {
		require.LessOrEqual(t, left[i-1]-left[i], 1000)
	}
	require.Zero(t, kept(t, s, "order-42"))
	require.Zero(t, kept(t, s, "order-43"))
}

func TestWhatIsWrittenAfterAPurgePickedItsOrderStays(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	s, spy := watched(t, Options{Now: func() time.Time { return clock }})
	for _, order := range []string{"order-41", "order-42", "order-43"} {
		ended(t, s, order, 3)
	}
	clock = clock.Add(30 * 24 * time.Hour)
	late := said(t, "order-42", "late", workflow.PaymentCaptured, `,"paymentId":"p"`)
	once := true
	spy.step("SELECT o.order_id, o.revision FROM orders", nil, func() error {
		if once {
			once = false
			d, err := s.Handle(t.Context(), late)
			require.Equal(t, workflow.Compensating, d.To)
			return err
		}
		return nil
	})
	done, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, workflow.Swept{Purged: 2}, done, "the others all the same")
	require.Equal(t, 4, kept(t, s, "order-42"))
	story, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, "order-42:refund-payment:1", story.Outbox[3].ID)
	require.Equal(t, workflow.DispatchWaiting, story.Outbox[3].State)
}

func TestAnOrderThatStartsAfterItsEarlyMessagesWereFoundTooOldKeepsThem(t *testing.T) {
	t.Parallel()
	for _, early := range []struct {
		m       func(order string) workflow.Message
		becomes workflow.Status
		held    int
	}{
		{func(o string) workflow.Message { // taken up by the start
			return said(t, o, o+":cancel", workflow.CancellationRequested, `,"reason":"r"`)
		}, workflow.Cancelled, 0},
		{func(o string) workflow.Message { // still too early
			return said(t, o, o+":captured", workflow.PaymentCaptured, `,"paymentId":"p"`)
		}, workflow.AwaitingInventory, 1},
	} {
		clock := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
		s, spy := watched(t, Options{Now: func() time.Time { return clock }})
		for _, order := range []string{"order-42", "order-43"} {
			_, err := s.Handle(t.Context(), early.m(order))
			require.NoError(t, err)
		}
		clock = clock.Add(24 * time.Hour)
		once := true
		spy.step("SELECT j.order_id, o.revision", nil, func() error {
			if once {
				once = false
				d, err := s.Handle(t.Context(), placed(t, "order-42"))
				require.Equal(t, workflow.Applied, d.Outcome)
				return err
			}
			return nil
		})
		done, err := s.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, workflow.Swept{TooEarly: 1, More: true}, done, "of the one that moved it cannot tell")
		story, err := s.Story(t.Context(), "order-42")
		require.NoError(t, err)
		require.Equal(t, early.becomes, story.Order.Status)
		require.Len(t, story.Held, early.held)
		require.Empty(t, story.Rejected)
	}
}

func TestALostDeadlineThatIsSettledAfterItWasFoundIsNotSentAgain(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	s, spy := watched(t, Options{Now: func() time.Time { return clock }})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	clock = clock.Add(24 * time.Hour)
	claimed, err := s.Claim(t.Context(), "t", workflow.Want{Deadlines: true}, 1, time.Minute)
	require.NoError(t, err)
	require.NoError(t, s.Mark(t.Context(), "t", []workflow.Mark{{OrderID: "order-42", Seq: claimed[0].Seq, Sent: true, Sequence: 7}}))
	clock = clock.Add(time.Hour)
	once := true
	spy.step("SELECT o.order_id, o.seq FROM outbox", nil, func() error {
		if once {
			once = false
			_, err := s.Handle(t.Context(), reserved(t, "order-42"))
			return err
		}
		return nil
	})
	_, err = s.Sweep(t.Context())
	require.NoError(t, err)
	story, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, workflow.DispatchClosed, story.Outbox[1].State)
}

func TestALostDeadlineThatAnotherSweepHasSentAgainIsLeftAlone(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	s, spy := watched(t, Options{Now: func() time.Time { return clock }})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	sent := func(token string) error {
		claimed, err := s.Claim(t.Context(), token, workflow.Want{Deadlines: true}, 1, time.Minute)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		return s.Mark(t.Context(), token, []workflow.Mark{{OrderID: "order-42", Seq: claimed[0].Seq, Sent: true, Sequence: 7}})
	}
	clock = clock.Add(24 * time.Hour)
	require.NoError(t, sent("first"))
	clock = clock.Add(time.Hour)
	once := true
	spy.step("SELECT o.order_id, o.seq FROM outbox", nil, func() error {
		if once {
			once = false
			if _, err := s.Sweep(t.Context()); err != nil {
				return err
			}
			return sent("again")
		}
		return nil
	})
	_, err = s.Sweep(t.Context())
	require.NoError(t, err)
	story, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, workflow.DispatchSent, story.Outbox[1].State)
	require.Equal(t, 2, story.Outbox[1].Attempts)
}

func TestACommandThatDiesWhileItsOrderMovesIsToldToTheOrderAsItIsThen(t *testing.T) {
	t.Parallel()
	for _, moves := range []int{1, 5} {
		s, spy := watched(t, Options{})
		_, err := s.Handle(t.Context(), placed(t, "order-42"))
		require.NoError(t, err)
		claimed, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true}, 1, time.Minute)
		require.NoError(t, err)
		movedOn(t, s, spy, moves)
		require.NoError(t, s.Bury(t.Context(), "t", claimed[0], "refused"))
		story, err := s.Story(t.Context(), "order-42")
		require.NoError(t, err)
		require.Equal(t, workflow.DispatchDead, story.Outbox[0].State)
		require.Equal(t, 1, story.Outbox[0].Deaths)
		require.Equal(t, int64(2+moves), story.Revision)
		require.Len(t, story.Journal, 2)
	}
}

func TestACommandThatIsBuriedWhileItIsBuriedDiesOnceWhateverTheReasons(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"refused", "too large"} {
		s, spy := watched(t, Options{})
		_, err := s.Handle(t.Context(), placed(t, "order-42"))
		require.NoError(t, err)
		claimed, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true}, 1, time.Minute)
		require.NoError(t, err)
		once := true
		spy.step("SELECT deaths", nil, func() error {
			if once {
				once = false
				return s.Bury(t.Context(), "t", claimed[0], reason)
			}
			return nil
		})
		require.NoError(t, s.Bury(t.Context(), "t", claimed[0], "refused"))
		story, err := s.Story(t.Context(), "order-42")
		require.NoError(t, err)
		require.Equal(t, 1, story.Outbox[0].Deaths)
		require.Equal(t, reason, story.Outbox[0].LastError)
		require.Equal(t, int64(2), story.Order.Version)
		require.Empty(t, story.Rejected, "the second is no message of its own")
	}
}

func TestACommandThatIsClosedWhileItIsBuriedStaysClosedAndLetsGoOfWhatFollows(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	claimed, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true}, 1, time.Minute)
	require.NoError(t, err)
	once := true
	spy.step("SELECT deaths", nil, func() error {
		if once {
			once = false
			_, err := s.Handle(t.Context(), reserved(t, "order-42"))
			return err
		}
		return nil
	})
	require.NoError(t, s.Bury(t.Context(), "t", claimed[0], "refused"))
	story, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, workflow.DispatchClosed, story.Outbox[0].State)
	require.Zero(t, story.Outbox[0].Deaths)
	require.Len(t, story.Journal, 2)
	claimed, err = s.Claim(t.Context(), "next", workflow.Want{Commands: true}, 1, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "order-42:capture-payment:1", claimed[0].ID)
}

func TestACommandWhoseLeaseEndsWhileItIsBuriedLives(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	s, spy := watched(t, Options{Now: func() time.Time { return clock }})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	claimed, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true}, 1, time.Minute)
	require.NoError(t, err)
	spy.step("SELECT deaths", nil, func() error {
		clock = clock.Add(time.Minute)
		return nil
	})
	require.NoError(t, s.Bury(t.Context(), "t", claimed[0], "refused"))
	story, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, workflow.DispatchWaiting, story.Outbox[0].State)
	require.Len(t, story.Journal, 1)
	require.Equal(t, int64(1), story.Order.Version)
}

// TestWhatTheBackgroundCosts counts what a sweep that finds nothing, and a
// death, ask of the database.
func TestWhatTheBackgroundCosts(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	claimed, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true}, 1, time.Minute)
	require.NoError(t, err)
	ran, _ := spy.during(func() {
		_, err := s.Sweep(t.Context())
		require.NoError(t, err)
	})
	require.Equal(t, "load, BEGIN, UPDATE outbox, COMMIT, SELECT, SELECT, load, SELECT", strings.Join(words(ran), ", "))
	ran, _ = spy.during(func() { require.NoError(t, s.Bury(t.Context(), "t", claimed[0], "refused")) })
	require.Equal(t, "SELECT, load, BEGIN, UPDATE orders, INSERT journal, UPDATE outbox, COMMIT", strings.Join(words(ran), ", "))
}
