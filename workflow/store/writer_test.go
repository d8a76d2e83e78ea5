package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// gate holds the writer at the next BEGIN until it is opened.
type gate struct {
	reached, open chan struct{}
	once          sync.Once
}

func hold(w *spy) *gate {
	g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
	w.step("BEGIN", func() error {
		g.once.Do(func() {
			close(g.reached)
			<-g.open
		})
		return nil
	}, nil)
	return g
}

// together has messages handled in one group, after one of another order that
// keeps the writer busy until all of them wait. It returns each one's error.
func together(t *testing.T, s *Store, w *spy, orders ...string) map[string]error {
	t.Helper()
	g := hold(w)
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		results = make(map[string]error)
	)
	handle := func(order string) {
		m := placed(t, order)
		wg.Go(func() {
			_, err := s.Handle(context.Background(), m)
			mu.Lock()
			defer mu.Unlock()
			results[order] = err
		})
	}
	handle("first")
	<-g.reached
	for _, order := range orders {
		handle(order)
	}
	require.Eventually(t, func() bool { return len(file(s).writer.queue) == len(orders) }, 5*time.Second, time.Millisecond)
	close(g.open)
	wg.Wait()
	require.NoError(t, results["first"])
	return results
}

// refuse makes the database do something about the order "bad" when its journal
// is written.
func refuse(t *testing.T, s *Store, how string) {
	t.Helper()
	_, err := file(s).db.ExecContext(t.Context(), fmt.Sprintf(
		"CREATE TRIGGER refuse BEFORE INSERT ON journal WHEN NEW.order_id = 'bad' BEGIN SELECT RAISE(%s, 'refused by the test'); END", how))
	require.NoError(t, err)
}

func known(t *testing.T, s *Store) []string {
	t.Helper()
	orders, err := s.List(t.Context())
	require.NoError(t, err)
	var ids []string
	for _, o := range orders {
		ids = append(ids, o.ID)
	}
	return ids
}

func TestWhatWaitsAtTheSameMomentSharesACommit(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	ran, _ := spy.during(func() {
		for order, err := range together(t, s, spy, "a", "b", "c", "d") {
			require.NoError(t, err, order)
		}
	})
	require.Equal(t, 2, strings.Count(strings.Join(ran, " "), "COMMIT"), "first alone, the others together")
	require.Equal(t, []string{"a", "b", "c", "d", "first"}, known(t, s))
}

func TestABatchThatFailsInAGroupIsUndoneAlone(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	refuse(t, s, "ABORT")
	results := together(t, s, spy, "a", "bad", "c")
	require.ErrorContains(t, results["bad"], "refused by the test")
	require.NoError(t, results["a"])
	require.NoError(t, results["c"])
	require.Equal(t, []string{"a", "c", "first"}, known(t, s))
	for _, id := range []string{"a", "c"} {
		story, err := s.Story(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, story.Journal, 1)
		require.Len(t, story.Outbox, 2)
	}
}

func TestMessagesOfOneOrderInAGroupAreDecidedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	for order, err := range together(t, s, spy, "a", "a", "a", "b") {
		require.NoError(t, err, order)
	}
	story, err := s.Story(t.Context(), "a")
	require.NoError(t, err)
	require.EqualValues(t, 1, story.Revision, "two of the copies found that they were duplicates")
}

func TestWhenAGroupsTransactionIsLostAllFailAndNothingMoreRuns(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	refuse(t, s, "ROLLBACK")
	ran, _ := spy.during(func() {
		results := together(t, s, spy, "bad", "bad", "bad")
		for order, err := range results {
			if order != "first" {
				require.ErrorIs(t, err, workflow.ErrTransient)
				require.ErrorContains(t, err, "refused by the test", "the cause is told")
			}
		}
	})
	written := words(ran[len(ran)-4:])
	require.Equal(t, []string{"SAVEPOINT", "INSERT orders", "INSERT journal", "ROLLBACK"}, written)
	require.Equal(t, []string{"first"}, known(t, s))

	_, err := s.Handle(t.Context(), placed(t, "good"))
	require.NoError(t, err, "the next group has a new connection")
}

func TestALostTransactionFailsTheCompanionsToo(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	refuse(t, s, "ROLLBACK")
	results := together(t, s, spy, "a", "bad", "c")
	for _, order := range []string{"a", "bad", "c"} {
		require.ErrorIs(t, results[order], workflow.ErrTransient, order)
	}
	require.Equal(t, []string{"first"}, known(t, s))
	_, err := s.Handle(t.Context(), placed(t, "a"))
	require.NoError(t, err)
}

func TestACommitWhoseReplyIsLostIsADuplicateWhenTheMessageComesAgain(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	spy.step("COMMIT", nil, func() error { return errors.New("the connection broke") })
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.ErrorIs(t, err, workflow.ErrTransient)
	spy.step("", nil, nil)

	before, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	d, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	require.Equal(t, workflow.Duplicate, d.Outcome)
	after, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestAFailureOfAnyStatementLeavesNothingAndTheNextTryWorks(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	before, err := s.Story(t.Context(), "order-42")
	require.NoError(t, err)
	for _, text := range []string{"BEGIN", "UPDATE orders", "INSERT INTO journal", "UPDATE outbox", "INSERT INTO outbox", "COMMIT"} {
		for _, late := range []bool{false, true} { // instead of it, or behind it
			fail := func() error { return errors.New("the disk is gone") }
			if !late {
				spy.step(text, fail, nil)
			} else if text != "COMMIT" {
				spy.step(text, nil, fail)
			}
			_, err := s.Handle(t.Context(), reserved(t, "order-42"))
			require.ErrorIs(t, err, workflow.ErrTransient, text)
			spy.step("", nil, nil)
			after, err := s.Story(t.Context(), "order-42")
			require.NoError(t, err)
			require.Equal(t, before, after, text)
			if text == "COMMIT" {
				break
			}
		}
	}
	d, err := s.Handle(t.Context(), reserved(t, "order-42"))
	require.NoError(t, err)
	require.Equal(t, workflow.Applied, d.Outcome)
}

func TestACallerWhoGivesUpWhileWaitingIsToldAtOnceAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	g := hold(spy)
	done := make(chan error)
	handle := func(ctx context.Context, order string) {
		m := placed(t, order)
		go func() {
			_, err := s.Handle(ctx, m)
			done <- err
		}()
	}
	ctx, cancel := context.WithCancel(t.Context())
	handle(ctx, "begun")
	<-g.reached
	handle(ctx, "queued")
	require.Eventually(t, func() bool { return len(file(s).writer.queue) == 1 }, 5*time.Second, time.Millisecond)
	cancel()
	for range 2 {
		err := <-done
		require.ErrorIs(t, err, workflow.ErrTransient)
		require.ErrorIs(t, err, context.Canceled)
	}
	close(g.open)
	_, err := s.Handle(t.Context(), placed(t, "next"))
	require.NoError(t, err)
	require.Equal(t, []string{"next"}, known(t, s))
}

func TestCloseFinishesWhatWaitsAndWhatItConfirmedIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/orders.db"
	s, err := Open(t.Context(), dir, Options{Now: time.Now})
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	confirmed := []string{}
	var begun sync.WaitGroup
	for n := range 100 {
		order := fmt.Sprintf("order-%03d", n)
		m := placed(t, order)
		begun.Add(1)
		wg.Go(func() {
			begun.Done()
			if _, err := s.Handle(context.Background(), m); err != nil {
				if !errors.Is(err, workflow.ErrTransient) {
					t.Errorf("%s: %v", order, err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			confirmed = append(confirmed, order)
		})
	}
	begun.Wait()
	require.NoError(t, s.Close())
	wg.Wait()

	again, err := Open(t.Context(), dir, Options{Now: time.Now})
	require.NoError(t, err)
	defer again.Close()
	require.Subset(t, known(t, again), confirmed)
}

func TestCloseWritesEverythingThatWasTaken(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	file(s).writer.most = 2 // several groups
	g := hold(spy)
	var wg sync.WaitGroup
	for n := range 9 {
		m := placed(t, fmt.Sprint("order-", n))
		wg.Go(func() {
			if _, err := s.Handle(context.Background(), m); err != nil {
				t.Error(err)
			}
		})
		if n == 0 {
			<-g.reached
		}
	}
	require.Eventually(t, func() bool { return len(file(s).writer.queue) == 8 }, 5*time.Second, time.Millisecond)
	stopped := make(chan struct{})
	go func() {
		file(s).writer.stop()
		close(stopped)
	}()
	<-file(s).writer.quit
	close(g.open)
	<-stopped
	wg.Wait()
	require.Len(t, known(t, s), 9)
}

func TestACommitIsOnTheDiskBeforeItIsConfirmed(t *testing.T) {
	t.Parallel()
	s, _ := watched(t, Options{})
	const full = 2 // NORMAL may lose the last commits when the power fails (docs/adr/0003)
	var synchronous int
	var journal string
	conn := file(s).writer.conn // idle: nothing is being written
	require.NoError(t, conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&synchronous))
	require.NoError(t, conn.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&journal))
	require.Equal(t, full, synchronous)
	require.Equal(t, "wal", journal)
}
