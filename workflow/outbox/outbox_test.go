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
	var rows table
	var bus broker
	rows.add("A1", "A2", "B1", "A3", "B2", "A4", "A5")
	sent, more := drained(t, dispatcher(&rows, &bus))
	require.Equal(t, 7, sent)
	require.False(t, more)
	require.Equal(t, []string{"A1", "A2", "A3", "A4", "A5"}, bus.of("A"))
	require.Equal(t, []string{"B1", "B2"}, bus.of("B"))
}

func TestAnOrderWhoseFirstRowCannotBeSentWaitsAndAnotherDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: unable("A1")}
		rows.add("A1", "A2", "B1", "B2", "B3")
		sent, more := drained(t, dispatcher(&rows, &bus))
		require.Equal(t, 3, sent)
		require.False(t, more, "nothing else may be sent now")
		require.Empty(t, bus.of("A"))
		require.Equal(t, "waiting after 1 attempts", rows.state("A1"))
		require.Equal(t, "waiting after 0 attempts", rows.state("A2"))
		require.Equal(t, "the broker is down", rows.find("A1").lastError)

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
		rows.add("A1", "A2", "B1", "B2", "B3")
		begun := time.Now()
		sent, _ := drained(t, dispatcher(&rows, &bus))
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

// runs is a table that claims whole runs of an order, as a database may.
type runs struct{ *table }

func (r runs) Claim(ctx context.Context, token string, want workflow.Want, most int, lease time.Duration) ([]workflow.Claimed, error) {
	claimed, err := r.table.Claim(ctx, token, want, most, lease)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, next := range r.rows {
		if len(claimed) > 0 && !next.sent && !next.leased() && !next.visibleAt.After(time.Now()) {
			next.token, next.visibleAt = token, time.Now().Add(lease)
			next.Attempt++
			claimed = append(claimed, next.Claimed)
		}
	}
	return claimed, err
}

func TestARunOfAnOrderStopsAtTheFirstThatCannotBeSentAndGivesTheRestBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: unable("A3")}
		rows.add("A1")
		rows.addDeadline("A2")
		rows.add("A3", "A4")
		d := dispatcher(&rows, &bus)
		d.Rows = runs{&rows}
		sent, _ := drained(t, d)
		require.Equal(t, 2, sent)
		require.ElementsMatch(t, []string{"A1", "A2"}, bus.of("A"))
		require.Equal(t, "waiting after 1 attempts", rows.state("A3"))
		require.Equal(t, "waiting after 0 attempts", rows.state("A4"))
	})
}

func TestWhatWasSentAndNotMarkedIsSentAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{failMark: errors.New("the database went away")}
		var bus broker
		rows.add("A1", "A2")
		_, more, err := dispatcher(&rows, &bus).Drain(t.Context())
		require.ErrorContains(t, err, "the database went away")
		require.True(t, more)
		require.Equal(t, []string{"A1"}, bus.of("A"))

		rows.failMark = nil
		sent, more := drained(t, dispatcher(&rows, &bus))
		require.Zero(t, sent, "its lease still holds")
		require.False(t, more)
		time.Sleep(time.Minute)
		drained(t, dispatcher(&rows, &bus))
		require.Equal(t, []string{"A1", "A1", "A2"}, bus.of("A"))
	})
}

func TestARunEndsWithItsBudgetAndSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(ctx context.Context, _ string) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		for i := range 26 {
			rows.add(fmt.Sprintf("%c1", 'A'+i))
		}
		d := dispatcher(&rows, &bus)
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

func TestWhenNothingGetsThroughEachRowIsTriedOnceADrainAndLessAndLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(context.Context, string) error { return errDown }}
		rows.add("A1", "A2", "B1", "C1")
		for attempt := 1; attempt <= 12; attempt++ {
			sent, more := drained(t, dispatcher(&rows, &bus))
			require.Zero(t, sent)
			require.False(t, more, "there is nothing that may be sent now")
			require.Equal(t, fmt.Sprintf("waiting after %d attempts", attempt), rows.state("A1"))
			require.Equal(t, "waiting after 0 attempts", rows.state("A2"))
			drained(t, dispatcher(&rows, &bus))
			require.Equal(t, fmt.Sprintf("waiting after %d attempts", attempt), rows.state("A1"), "too soon")
			time.Sleep(5 * time.Minute)
		}
		require.LessOrEqual(t, rows.claims, 12*3)

		var delays []time.Duration
		for _, m := range rows.find("A1").marks {
			delays = append(delays, m.RetryAfter)
		}
		require.Equal(t, []time.Duration{
			750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 6 * time.Second, 12 * time.Second,
			24 * time.Second, 48 * time.Second, 96 * time.Second, 192 * time.Second,
			225 * time.Second, 225 * time.Second, 225 * time.Second,
		}, delays)
	})
}

func TestInAnOutageADrainGivesUpAfterABatchOfFailures(t *testing.T) {
	t.Parallel()
	var rows table
	tries := 0
	bus := broker{refuse: func(context.Context, string) error { return errDown }}
	for i := range 26 {
		rows.add(fmt.Sprintf("%c1", 'A'+i))
	}
	d := dispatcher(&rows, &bus)
	d.Batch, d.Parallel = 10, 1
	_, more := drained(t, d)
	require.True(t, more)
	for _, r := range rows.rows {
		tries += r.Attempt
	}
	require.Equal(t, 10, tries)
}

func TestManyStuckRowsOfOneOrderDoNotHideTheOthers(t *testing.T) {
	t.Parallel()
	var rows table
	bus := broker{refuse: unable("A1")}
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

func TestNothingIsBegunThatCouldOutliveItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		slow := func(_ context.Context, _ string) error {
			time.Sleep(9 * time.Second)
			return nil
		}
		bus := broker{refuse: slow}
		rows.add("A1", "B1", "C1", "D1", "E1", "F1", "G1", "H1")
		d := dispatcher(&rows, &bus)
		d.Parallel, d.Lease, d.Budget = 1, 30*time.Second, time.Hour
		sent, more := drained(t, d)
		require.Equal(t, 8, sent)
		require.False(t, more)
		require.Len(t, bus.got, 8, "each was sent once, in a claim that held")
	})
}

func TestWhatWasTooLateForItsClaimIsClaimedAgainInTheSameDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(_ context.Context, id string) error {
			if id == "C1" {
				return nil
			}
			time.Sleep(9 * time.Second)
			return errDown
		}}
		rows.add("A1", "B1", "C1")
		d := dispatcher(&rows, &bus)
		d.Parallel, d.Lease = 1, 30*time.Second
		drained(t, d)
		require.Equal(t, "sent", rows.state("C1"))
	})
}

func TestTwoDispatchersSendEachRowOnceAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(context.Context, string) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		}}
		var want []string
		for n := range 8 {
			for _, order := range "ABCDEFGHIJ" {
				rows.add(fmt.Sprintf("%c%d", order, n))
			}
			want = append(want, fmt.Sprint(n))
		}
		var wg sync.WaitGroup
		for n := range 2 {
			d := dispatcher(&rows, &bus)
			tokens := d.Token
			d.Token = func() string { return fmt.Sprint(n, tokens()) }
			wg.Go(func() { drained(t, d) })
		}
		wg.Wait()
		for _, order := range strings.Split("ABCDEFGHIJ", "") {
			require.Equal(t, want, strings.Split(strings.ReplaceAll(strings.Join(bus.of(order), " "), order, ""), " "))
		}
	})
}

func TestASenderThatPanicsHasFailedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	var rows table
	bus := broker{refuse: func(_ context.Context, id string) error {
		if id == "A1" {
			panic("nil pointer")
		}
		return nil
	}}
	rows.add("A1", "B1")
	sent, _ := drained(t, dispatcher(&rows, &bus))
	require.Equal(t, 1, sent)
	require.Equal(t, "waiting after 1 attempts", rows.state("A1"))
	require.Equal(t, "the sender panicked: nil pointer", rows.find("A1").lastError)
}

// mute is a sender that does not say what became of a message.
type mute struct{}

func (mute) Send(context.Context, []workflow.Outgoing) ([]int64, error) { return nil, nil }

func TestWhatASenderDoesNotSpeakOfIsNotTakenForSent(t *testing.T) {
	t.Parallel()
	var rows table
	rows.add("A1")
	sent, _ := drained(t, dispatcher(&rows, mute{}))
	require.Zero(t, sent)
	require.Equal(t, "waiting after 1 attempts", rows.state("A1"))
}

// scheduler is a broker that numbers what it takes.
type scheduler struct{ next int64 }

func (s *scheduler) Send(_ context.Context, messages []workflow.Outgoing) ([]int64, error) {
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

func TestAnOutboxThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	rows := table{failClaim: errors.New("no connection")}
	sent, more, err := dispatcher(&rows, &broker{}).Drain(t.Context())
	require.Zero(t, sent)
	require.True(t, more)
	require.EqualError(t, err, "drain the outbox: no connection")
	require.Equal(t, 1, rows.claims)
}
