package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

func TestRunSleepsUntilItIsWokenAndManyWakesAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		var bus broker
		wake, stop := running(t, dispatcher(&rows, &bus))
		rows.add("A1")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, rows.claims, "nothing polls")
		for range 100 {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		synctest.Wait()
		stop()
		require.Equal(t, []string{"A1"}, bus.of("A"))
		require.LessOrEqual(t, rows.claims, 4)
	})
}

func TestRunTakesUpWhatComesWhileAnotherOrderIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: hanging("A1")}
		wake, stop := running(t, dispatcher(&rows, &bus))
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

func TestInAnOutageRunRestsHoweverOftenItIsWokenAndThenGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		var tries atomic.Int64
		up := time.Now().Add(time.Minute)
		bus := broker{refuse: func(context.Context, string) error {
			if tries.Add(1); time.Now().Before(up) {
				return errDown
			}
			return nil
		}}
		d := dispatcher(&rows, &bus)
		d.Batch = 2
		wake, stop := running(t, d)
		for i := range 26 {
			rows.add(fmt.Sprintf("%c1", 'A'+i))
		}
		for range 120 {
			select {
			case wake <- struct{}{}:
			default:
			}
			time.Sleep(time.Second)
		}
		stop()
		require.Len(t, bus.got, 26)
		require.Less(t, tries.Load(), int64(26*6))
	})
}

func TestRunRestsWhenTheOutboxCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{failClaim: errors.New("no connection")}
		var log strings.Builder
		d := dispatcher(&rows, &broker{})
		d.Log = slog.New(slog.NewTextHandler(&log, nil))
		wake, stop := running(t, d)
		wake <- struct{}{}
		time.Sleep(time.Minute)
		stop()
		require.Less(t, rows.claims, 10)
		require.Equal(t, rows.claims, strings.Count(log.String(), "the outbox could not be drained"))
	})
}

func TestRunGoesOnWhenItsBudgetWasTooSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(context.Context, string) error {
			time.Sleep(time.Second)
			return nil
		}}
		for n := range 20 {
			rows.add(fmt.Sprintf("A%d", n))
		}
		d := dispatcher(&rows, &bus)
		d.Budget = 5 * time.Second
		wake, stop := running(t, d)
		wake <- struct{}{}
		time.Sleep(time.Minute)
		stop()
		require.Len(t, slices.Compact(bus.of("A")), 20)
	})
}
