package outbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func recalls(n int) (list []workflow.Recall) {
	for i := range n {
		list = append(list, workflow.Recall{OrderID: "A", Seq: int64(i), Sequence: int64(100 + i)})
	}
	return list
}

func TestADrainTakesDeadlinesBackAfterItSent(t *testing.T) {
	t.Parallel()
	rows := table{recalls: recalls(3)}
	var bus broker
	bus.keep = func(context.Context, int64) error {
		require.Equal(t, []string{"A1"}, bus.of("A"))
		return nil
	}
	rows.add("A1")
	drained(t, dispatcher(&rows, &bus))
	require.Equal(t, []int64{100, 101, 102}, bus.canceled)
	require.Empty(t, rows.recalls)
	drained(t, dispatcher(&rows, &bus))
	require.Len(t, bus.canceled, 3)
}

func TestADrainTakesBackAHundredDeadlinesAtMost(t *testing.T) {
	t.Parallel()
	rows := table{recalls: recalls(150)}
	var bus broker
	d := dispatcher(&rows, &bus)
	drained(t, d)
	require.Len(t, bus.canceled, 100)
	drained(t, d)
	require.Len(t, bus.canceled, 150)
}

func TestTroubleLeavesDeadlinesToBeTakenBackByALaterRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{recalls: recalls(5)}
		bus := broker{keep: func(_ context.Context, sequence int64) error {
			if sequence >= 102 {
				return errDown
			}
			return nil
		}}
		d := dispatcher(&rows, &bus)
		log := logTo(d)
		drained(t, d)
		require.Equal(t, []int64{100, 101}, bus.canceled)
		require.Equal(t, recalls(5)[2:], rows.recalls)
		require.Equal(t, 3, bus.tries, "the first that fails is the last that is tried")
		require.Equal(t, []string{`"the broker does not take deadlines" error="the broker is down"`}, log.with(errorLine))
		drained(t, d)
		require.Equal(t, 3, bus.tries, "the topic rests")
		time.Sleep(time.Minute)
		bus.refuse = func(context.Context, string) error { return errDown }
		rows.addDeadline("A1")
		drained(t, d)
		require.Equal(t, 4, bus.tries, "of a topic that does not take the one the other is not asked")
		bus.refuse = nil
		bus.keep = nil
		time.Sleep(time.Minute)
		drained(t, d)
		require.Empty(t, rows.recalls)
	})
}

func TestADeadlineThatTheBrokerRefusesToTakeBackIsLetGo(t *testing.T) {
	t.Parallel()
	rows := table{recalls: recalls(3)}
	bus := broker{keep: func(_ context.Context, sequence int64) error {
		switch sequence {
		case 100:
			return errRefused
		case 101:
			panic("nil pointer")
		}
		return nil
	}}
	d := dispatcher(&rows, &bus)
	log := logTo(d)
	drained(t, d)
	require.Empty(t, rows.recalls)
	require.Equal(t, []int64{102}, bus.canceled)
	require.Len(t, log.with(warnLine), 2)
}

func TestACancelThatHangsEndsWithItsTimeAndTheRunWithItsBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{recalls: recalls(3)}
		bus := broker{keep: func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }}
		begun := time.Now()
		drained(t, dispatcher(&rows, &bus))
		require.Equal(t, 10*time.Second, time.Since(begun))
		d := dispatcher(&rows, &bus)
		d.Budget = 3 * time.Second
		log := logTo(d)
		drained(t, d)
		require.Equal(t, 13*time.Second, time.Since(begun))
		require.Len(t, rows.recalls, 3)
		require.Empty(t, log.with(errorLine), "of a run that ended nothing is learnt")
		bus.keep = nil
		drained(t, d)
		require.Empty(t, rows.recalls)
	})
}

func TestRecallsThatCannotBeReadOrRecordedAreAnError(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"recalls", "recalled"} {
		rows := table{recalls: recalls(1), before: only(method, errors.New("no connection"))}
		rows.add("A1")
		d := dispatcher(&rows, &broker{})
		sent, _, err := d.Drain(t.Context())
		require.EqualError(t, err, "drain the outbox: no connection")
		require.Equal(t, 1, sent)
		require.Len(t, rows.recalls, 1)
	}
}

func TestARunThatIsWokenTakesNoDeadlinesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{recalls: recalls(1)}
		var bus broker
		wake, stop := running(t, dispatcher(&rows, &bus))
		rows.add("A1")
		wake <- struct{}{}
		synctest.Wait()
		stop()
		require.Len(t, bus.got, 1)
		require.Empty(t, bus.canceled)
	})
}
