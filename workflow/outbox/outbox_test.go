package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestRowsBehindTheFirstOfAnOrderGoOutInTheSameDrainInOrder(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int{1, 3} {
		rows := table{ahead: ahead}
		var bus broker
		rows.add("A1", "A2", "B1", "A3", "B2", "A4", "A5")
		sent, more := drained(t, dispatcher(&rows, &bus))
		require.Equal(t, 7, sent)
		require.False(t, more)
		require.Equal(t, []string{"A1", "A2", "A3", "A4", "A5"}, bus.of("A"))
		require.Equal(t, []string{"B1", "B2"}, bus.of("B"))
	}
}

func TestAnOrderWhoseFirstRowCannotBeSentWaitsAndAnotherDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: fails(errRefused, "A1")}
		rows.add("A1", "A2", "B1", "B2", "B3")
		sent, more := drained(t, dispatcher(&rows, &bus))
		require.Equal(t, 3, sent)
		require.False(t, more, "nothing else may be sent now")
		require.Empty(t, bus.of("A"))
		require.Equal(t, "waiting after 1 attempts", rows.state("A1"))
		require.Equal(t, "waiting after 0 attempts", rows.state("A2"))
		require.Equal(t, "the broker refuses the message: no", rows.find("A1").lastError)

		bus.refuse = nil
		time.Sleep(time.Second)
		drained(t, dispatcher(&rows, &bus))
		require.Equal(t, []string{"A1", "A2"}, bus.of("A"))
	})
}

func TestAnOrderThatIsSlowToSendForKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: hanging("A1")}
		d := known(t, &rows, &bus)
		rows.add("A1", "A2", "B1", "B2", "B3")
		begun := time.Now()
		sent, _ := drained(t, d)
		require.Equal(t, 3, sent)
		require.Equal(t, begun, bus.at["B3"], "B did not wait for A")
		require.Equal(t, 10*time.Second, time.Since(begun), "A was given its time")
		require.Equal(t, "waiting after 1 attempts", rows.state("A1"))
	})
}

func TestADeadlineIsNotHeldBackByAStuckCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: hanging("A1")}
		rows.add("A1")
		rows.addDeadline("A2")
		rows.add("A3")
		begun := time.Now()
		sent, _ := drained(t, dispatcher(&rows, &bus))
		require.Equal(t, 1, sent)
		require.Equal(t, begun, bus.at["A2"])
		require.Equal(t, "waiting after 0 attempts", rows.state("A3"))
	})
}

func TestALineStopsAtTheFirstThatCannotBeSentAndGivesTheRestBack(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errRefused, errDown} {
		rows := table{ahead: 10}
		bus := broker{refuse: fails(err, "A3")}
		d := known(t, &rows, &bus)
		rows.add("A1")
		rows.addDeadline("A2")
		rows.add("A3", "A4")
		sent, _ := drained(t, d)
		require.Equal(t, 2, sent)
		require.ElementsMatch(t, []string{"A1", "A2"}, bus.of("A"))
		require.Equal(t, "waiting after 1 attempts", rows.state("A3"))
		require.Equal(t, "waiting after 0 attempts", rows.state("A4"))
	}
}

func TestWhatWasSentAndNotMarkedIsSentAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{before: only("mark", errors.New("the database went away"))}
		var bus broker
		rows.add("A1", "A2")
		_, more, err := dispatcher(&rows, &bus).Drain(t.Context())
		require.ErrorContains(t, err, "the database went away")
		require.True(t, more)
		require.Equal(t, []string{"A1"}, bus.of("A"))

		rows.before = nil
		sent, more := drained(t, dispatcher(&rows, &bus))
		require.Zero(t, sent, "its lease still holds")
		require.False(t, more)
		time.Sleep(time.Minute)
		drained(t, dispatcher(&rows, &bus))
		require.Equal(t, []string{"A1", "A1", "A2"}, bus.of("A"))
	})
}

func TestAMarkThatWasCarriedOutAndNotAnsweredIsNoHarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{after: only("mark", errors.New("the answer was lost"))}
		var bus broker
		rows.add("A1", "A2")
		_, _, err := dispatcher(&rows, &bus).Drain(t.Context())
		require.Error(t, err)
		rows.after = nil
		drained(t, dispatcher(&rows, &bus))
		require.Equal(t, []string{"A1", "A2"}, bus.of("A"))
	})
}

func TestARunEndsWithItsBudgetAndSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: taking(time.Second)}
		d := known(t, &rows, &bus)
		rows.alphabet()
		d.Parallel, d.Budget = 2, 5500*time.Millisecond
		begun := time.Now()
		sent, more := drained(t, d)
		require.Equal(t, 10, sent)
		require.True(t, more)
		require.Equal(t, d.Budget, time.Since(begun))
		for _, r := range rows.rows {
			require.False(t, r.leased(), "%s is given back", r.ID)
			require.Zero(t, r.Attempt*len(r.lastError), "it did not fail")
		}
	})
}

func TestARunThatSentAllWithinItsBudgetSaysThatThereIsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: taking(time.Second)}
		rows.alphabet()
		_, more := drained(t, dispatcher(&rows, &bus))
		require.False(t, more)
		_, more = drained(t, dispatcher(&rows, &bus))
		require.False(t, more)
	})
}

func TestManyStuckRowsOfOneOrderDoNotHideTheOthers(t *testing.T) {
	t.Parallel()
	rows := table{ahead: 10}
	bus := broker{refuse: fails(errRefused, "A1")}
	for n := range 150 {
		rows.add(fmt.Sprintf("A%d", n+1))
	}
	rows.add("B1", "C1")
	sent, _ := drained(t, dispatcher(&rows, &bus))
	require.Equal(t, 2, sent)
}

func TestAShutdownMarksWhatWasSentAndGivesTheRestBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, shutDown := context.WithCancel(t.Context())
		var rows table
		bus := broker{refuse: func(ctx context.Context, id string) error {
			if id != "C1" {
				return nil
			}
			shutDown() // while C1 is on its way
			<-ctx.Done()
			return ctx.Err()
		}}
		rows.add("A1", "B1", "C1", "D1", "E1")
		d := dispatcher(&rows, &bus)
		d.Parallel = 1
		sent, more, err := d.Drain(ctx)
		require.NoError(t, err, "to be told to stop is no failure of the outbox")
		require.Equal(t, 2, sent)
		require.True(t, more)
		require.Equal(t, "sent", rows.state("B1"))
		for _, id := range []string{"C1", "D1", "E1"} {
			require.Equal(t, "waiting after 0 attempts", rows.state(id), id)
		}
	})
}

func TestAShutdownReleasesWhatHasNotBegunBeforeWhatHasComesToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, shutDown := context.WithCancel(t.Context())
		var rows table
		bus := broker{refuse: func(context.Context, string) error {
			time.Sleep(5 * time.Second) // and takes no notice of its context
			return nil
		}}
		d := known(t, &rows, &bus)
		rows.add("A1", "B1", "C1")
		d.Parallel = 1
		ended := make(chan int)
		go func() {
			sent, _, _ := d.Drain(ctx)
			ended <- sent
		}()
		time.Sleep(time.Second)
		require.Equal(t, "claimed", rows.state("C1"))
		shutDown()
		synctest.Wait()
		require.Equal(t, "waiting after 0 attempts", rows.state("B1"))
		require.Equal(t, "waiting after 0 attempts", rows.state("C1"))
		require.Equal(t, 1, <-ended)
		require.Equal(t, "sent", rows.state("A1"), "it got through after all, and is marked")
	})
}

func TestTwoDispatchersSendEachRowOnceAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: taking(20 * time.Millisecond)}
		var want []string
		for n := range 8 {
			for _, order := range "ABCDEFGHIJ" {
				rows.add(fmt.Sprintf("%c%d", order, n))
			}
			want = append(want, fmt.Sprint(n))
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { drained(t, dispatcher(&rows, &bus)) })
		}
		wg.Wait()
		for _, order := range strings.Split("ABCDEFGHIJ", "") {
			require.Equal(t, want, strings.Split(strings.ReplaceAll(strings.Join(bus.of(order), " "), order, ""), " "))
		}
	})
}

// scheduler is a broker that numbers what it takes.
type scheduler struct {
	broker

	next int64
}

func (s *scheduler) Send(context.Context, []workflow.Outgoing) ([]int64, error) {
	s.next++
	return []int64{s.next}, nil
}

func TestTheBrokersNumberIsKept(t *testing.T) {
	t.Parallel()
	var rows table
	rows.addDeadline("A1")
	drained(t, dispatcher(&rows, &scheduler{next: 41}))
	require.Equal(t, []workflow.Mark{{OrderID: "A", Seq: 1, Sent: true, Sequence: 42}}, rows.find("A1").marks)
}

func TestAnOutboxThatCannotBeReadIsAnErrorAndOneLineOfTheLog(t *testing.T) {
	t.Parallel()
	rows := table{before: only("claim", errors.New("no connection"))}
	calls := 0
	rows.before = func(string) error {
		calls++
		return errors.New("no connection")
	}
	d := dispatcher(&rows, &broker{})
	log := logTo(d)
	for range 3 {
		sent, more, err := d.Drain(t.Context())
		require.Zero(t, sent)
		require.True(t, more)
		require.EqualError(t, err, "drain the outbox: no connection")
	}
	require.Equal(t, 3, calls, "once for each drain")
	require.Equal(t, []string{`"outbox rows cannot be claimed" error="no connection"`}, log.with(errorLine))
	rows.before = nil
	drained(t, d)
	drained(t, d)
	require.Equal(t, []string{`"outbox rows can be claimed again" failures=3`}, log.with(infoLine))
}

func TestAnOutboxThatIsAwayForAWhileIsMarkedOnceItIsBackAndNothingIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(30 * time.Second)
		rows := table{before: func(what string) error {
			if what == "mark" && time.Now().Before(back) {
				return fmt.Errorf("%w: away", workflow.ErrTransient)
			}
			return nil
		}}
		var bus broker
		d := dispatcher(&rows, &bus)
		log := logTo(d)
		rows.add("A1", "A2")
		drained(t, d)
		require.Equal(t, []string{"A1", "A2"}, bus.of("A"))
		require.Len(t, log.with(errorLine), 1)
		require.Len(t, log.with(infoLine), 1)
	})
}

func TestAnOutboxThatDoesNotAnswerUntilTheBudgetIsSpentIsAnErrorAndOneThatWasToldToStopIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, stop := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rows := table{before: func(string) error {
				if stop {
					cancel()
				}
				time.Sleep(time.Minute) // longer than the budget
				return workflow.ErrTransient
			}}
			d := dispatcher(&rows, &broker{})
			sent, more, err := d.Drain(ctx)
			require.Zero(t, sent)
			require.True(t, more)
			require.Equal(t, stop, err == nil)
		}
	})
}

func TestAnOutboxThatStaysAwayLetsItsLeaseRunOutAndARunThatIsToldToStopDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{before: only("mark", workflow.ErrTransient)}
		var bus broker
		d := dispatcher(&rows, &bus)
		d.Budget = time.Hour
		rows.add("A1")
		begun := time.Now()
		_, _, err := d.Drain(t.Context())
		require.ErrorIs(t, err, workflow.ErrTransient)
		require.Equal(t, 54*time.Second, time.Since(begun).Round(time.Second), "nine tenths of a minute")

		time.Sleep(time.Minute)
		begun = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, _, err = d.Drain(ctx)
		require.ErrorIs(t, err, workflow.ErrTransient)
		require.Equal(t, 3*time.Second, time.Since(begun))
	})
}

func TestAnOutboxThatCannotBeMarkedIsAnErrorAndOneLineOfTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{before: only("mark", errors.New("read-only"))}
		var bus broker
		d := dispatcher(&rows, &bus)
		log := logTo(d)
		rows.add("A1")
		for range 3 {
			_, _, err := d.Drain(t.Context())
			require.EqualError(t, err, "drain the outbox: read-only")
			time.Sleep(time.Minute)
		}
		require.Equal(t, []string{`"outbox rows cannot be marked" error=read-only`}, log.with(errorLine))
		require.Empty(t, log.with(infoLine), "that rows can be claimed is no news")
		rows.before = nil
		drained(t, d)
		require.Equal(t, []string{`"outbox rows can be marked again" failures=3`}, log.with(infoLine))
	})
}
