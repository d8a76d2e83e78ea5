package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow/outbox"
)

// running starts Run in a bubble; stop ends it.
func running(t *testing.T, d *outbox.Dispatcher) (wake chan struct{}, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	wake = make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx, wake)
	}()
	return wake, func() {
		cancel()
		<-ended
	}
}

// knock wakes whoever is not awake.
func knock(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func TestRunSleepsUntilItIsWokenAndManyWakesAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		var bus broker
		wake, stop := running(t, dispatcher(&rows, &bus))
		rows.add("A1")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, rows.asked(), "nothing polls")
		for range 100 {
			knock(wake)
		}
		synctest.Wait()
		time.Sleep(time.Hour)
		stop()
		require.Equal(t, []string{"A1"}, bus.of("A"))
		require.LessOrEqual(t, rows.claims, 7)
	})
}

func TestAWakeCostsTwoClaimsWhenTheTopicsAreKnownToBeWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		var bus broker
		d := known(t, &rows, &bus)
		wake, stop := running(t, d)
		rows.add("A1")
		knock(wake)
		synctest.Wait()
		stop()
		require.Equal(t, []string{"A1"}, bus.of("A"))
		require.Equal(t, 2, rows.claims, "one that finds the row, and one that finds nothing behind it")
	})
}

func TestRunTakesUpWhatComesWhileAnotherOrderIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: hanging("A1")}
		wake, stop := running(t, known(t, &rows, &bus))
		rows.add("A1")
		wake <- struct{}{}
		time.Sleep(2 * time.Second)
		rows.add("B1")
		wake <- struct{}{}
		came := time.Now()
		time.Sleep(time.Second)
		stop()
		require.Equal(t, came, bus.at["B1"])
	})
}

func TestInAnOutageRunRestsHoweverOftenItIsWokenAndThenGoesOnByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		up := time.Now().Add(time.Minute)
		bus := broker{refuse: func(context.Context, string) error {
			if time.Now().Before(up) {
				return errDown
			}
			return nil
		}}
		d := dispatcher(&rows, &bus)
		wake, stop := running(t, d)
		rows.alphabet()
		rows.addDeadline("A2", "B2")
		for time.Now().Before(up.Add(-time.Second)) {
			knock(wake)
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, bus.tried(), 2*8)
		require.Less(t, rows.asked(), 2*2*8, "nothing is claimed for a topic that rests")
		time.Sleep(20 * time.Second)
		stop()
		require.GreaterOrEqual(t, len(bus.got), 20, "nobody had to wake it again")
		require.LessOrEqual(t, slices.MaxFunc(rows.rows, func(a, b *row) int { return a.Attempt - b.Attempt }).Attempt, 8)
	})
}

func TestRunRestsWhenTheOutboxCannotBeReadOrMarkedAndThenGoesOnByItself(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"claim", "mark"} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			var rows table
			rows.before = func(m string) error {
				if m == method {
					calls.Add(1)
					return errors.New("no connection")
				}
				return nil
			}
			var bus broker
			d := dispatcher(&rows, &bus)
			log := logTo(d)
			rows.alphabet()
			wake, stop := running(t, d)
			for range 120 {
				knock(wake)
				time.Sleep(time.Second)
			}
			require.LessOrEqual(t, calls.Load(), int64(40))
			require.Len(t, log.with(errorLine), 1)
			rows.set(nil, nil)
			time.Sleep(2 * time.Minute)
			knock(wake) // for rows whose lease ended meanwhile
			time.Sleep(time.Minute)
			stop()
			require.Len(t, log.with(infoLine), 1)
			for _, r := range rows.rows {
				require.Equal(t, "sent", rows.state(r.ID))
			}
		})
	}
}

func TestRunGoesOnWhenItsBudgetWasTooSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: taking(time.Second)}
		for n := range 20 {
			rows.add(fmt.Sprintf("A%d", n))
		}
		d := dispatcher(&rows, &bus)
		d.Budget = 5500 * time.Millisecond
		wake, stop := running(t, d)
		wake <- struct{}{}
		time.Sleep(time.Minute)
		stop()
		require.Len(t, slices.Compact(bus.of("A")), 20)
	})
}
