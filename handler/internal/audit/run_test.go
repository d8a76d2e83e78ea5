package audit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"
)

// runs runs a writer until the test ends.
func runs(t *testing.T, w *Writer) (wake chan struct{}) {
	t.Helper()
	wake = make(chan struct{}, 1)
	// A try takes less long to fail than in the product.
	ctx, cancel := context.WithCancel(policy.WithRetryOptions(t.Context(), policy.RetryOptions{
		MaxRetries: 1, RetryDelay: 50 * time.Millisecond, TryTimeout: time.Second,
	}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, wake)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return wake
}

func TestWhatAFormerProcessLeftIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{waiting: events("order-1", 1100)}
		w, _ := holding(&memory{}, s)
		runs(t, w)
		synctest.Wait()
		require.Zero(t, s.left(), "to the end, without a wake")
	})
}

func TestAWakeIsAnsweredInASecondAndOneLookIsForManyWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		w, _ := holding(&memory{}, s)
		wake := runs(t, w)
		synctest.Wait()
		looks := s.looks()
		for i := range 10 { // one every tenth of a second
			s.add(events(fmt.Sprint("order-", i), 1)...)
			select {
			case wake <- struct{}{}:
			default:
			}
			time.Sleep(90 * time.Millisecond)
		}
		require.Equal(t, 10, s.left())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, s.left())
		require.LessOrEqual(t, s.looks()-looks, 2)
	})
}

func TestWhatNobodyWakesItForIsFoundInHalfAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		w, _ := holding(&memory{}, s)
		runs(t, w)
		synctest.Wait()
		s.add(events("order-1", 1)...)
		time.Sleep(29 * time.Second)
		require.Equal(t, 1, s.left())
		time.Sleep(2 * time.Second)
		require.Zero(t, s.left())
		looks := s.looks()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, 20, s.looks()-looks, "it does not look more often")
	})
}

func TestARestGrowsToAMinuteAndNoWakeEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{waiting: events("order-1", 1)}
		var away atomic.Bool
		away.Store(true)
		var at []time.Duration
		start := time.Now()
		m := &memory{before: func(context.Context, []entity) error {
			if !away.Load() {
				return nil
			}
			at = append(at, time.Since(start))
			return errors.New("AuditStorage: away")
		}}
		w, said := holding(m, s)
		wake := runs(t, w)
		for range 400 {
			time.Sleep(time.Second)
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		synctest.Wait()
		second := time.Second
		require.Equal(t, []time.Duration{0, second, 3 * second, 7 * second, 15 * second, 31 * second, 63 * second, 123 * second, 183 * second, 243 * second, 303 * second, 363 * second}, at)
		require.Equal(t, []string{`level=ERROR msg="the audit cannot be written" error="AuditStorage: away"`}, said.read())
		away.Store(false)
		time.Sleep(time.Minute)
		require.Zero(t, s.left())
		require.Equal(t, `level=INFO msg="the audit is written again" failures=12`, said.read()[1])
		require.Len(t, said.read(), 2)
	})
}

func TestRestsAreSpreadButNeverNothing(t *testing.T) {
	t.Parallel()
	for failures, most := range map[int]time.Duration{1: time.Second, 4: 8 * time.Second, 7: time.Minute, 1000: time.Minute} {
		for _, jitter := range []float64{0, 0.5, 0.999} {
			w := Writer{jitter: func() float64 { return jitter }}
			require.Equal(t, max(100*time.Millisecond, time.Duration(jitter*float64(most))), w.rest(failures))
		}
	}
}

func TestASourceThatIsAwayIsALineOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{waiting: events("order-1", 1)}
		broken := errors.New("no database")
		s.fails = func() error { return broken }
		w, said := holding(&memory{}, s)
		runs(t, w)
		time.Sleep(time.Hour)
		require.Equal(t, []string{
			`level=ERROR msg="what is to be audited cannot be read or confirmed" error="the source of events: list events: no database"`,
		}, said.read())
		require.Less(t, s.looks(), 75, "it is left alone")
		s.mu.Lock()
		s.fails = nil
		s.mu.Unlock()
		time.Sleep(2 * time.Minute)
		require.Zero(t, s.left())
		require.Len(t, said.read(), 2)
		require.Contains(t, said.read()[1], `msg="the audit is written again"`)
	})
}

func TestAPartThatIsAwayDoesNotSlowTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{before: func(_ context.Context, entities []entity) error {
			if entities[0].PartitionKey == "sick" {
				return errors.New("503 ServerBusy")
			}
			return nil
		}}
		s := &source{waiting: events("sick", 1)}
		w, said := holding(m, s)
		runs(t, w)
		for n := range 100 { // something is there to be written in each pass
			s.add(events(fmt.Sprint("order-", n), 1)...)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.LessOrEqual(t, s.left(), 3, "the rests do not grow")
		require.Len(t, said.read(), 1)
	})
}

func TestRunEndsWithItsContextAndSaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &memory{before: func(ctx context.Context, _ []entity) error { <-ctx.Done(); return ctx.Err() }}
		s := &source{waiting: events("order-1", 1)}
		w, said := holding(m, s)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx, nil)
		}()
		synctest.Wait()
		cancel()
		<-ended
		require.Equal(t, 1, s.left())
		require.Empty(t, said.read())
	})
}
