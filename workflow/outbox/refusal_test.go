package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/outbox"
)

const (
	infoLine  = slog.LevelInfo
	warnLine  = slog.LevelWarn
	errorLine = slog.LevelError
)

// refusedOften drains again and again, five minutes apart.
func refusedOften(t *testing.T, d *outbox.Dispatcher, drains int) {
	t.Helper()
	for range drains {
		drained(t, d)
		drained(t, d) // too soon
		time.Sleep(5 * time.Minute)
	}
}

func TestARefusedMessageIsTriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: fails(errRefused, "A1")}
		d := dispatcher(&rows, &bus)
		d.MaxRefusals = 100
		rows.add("A1", "A2")
		log := logTo(d)
		refusedOften(t, d, 12)
		require.Equal(t, "waiting after 12 attempts", rows.state("A1"))
		require.Equal(t, "waiting after 0 attempts", rows.state("A2"))
		require.LessOrEqual(t, rows.claims, 12*6, "no tight loop")
		require.Equal(t, 12, bus.tries)

		var delays []time.Duration
		for _, m := range rows.find("A1").marks {
			require.True(t, m.Refused)
			delays = append(delays, m.RetryAfter)
		}
		require.Equal(t, []time.Duration{
			750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 6 * time.Second, 12 * time.Second,
			24 * time.Second, 48 * time.Second, 96 * time.Second, 192 * time.Second,
			225 * time.Second, 225 * time.Second, 225 * time.Second,
		}, delays)
		require.Len(t, log.with(warnLine), 12)
		require.Equal(t, `"the broker refuses a message" messageId=A1 orderId=A refusals=1 retryAfter=750ms error="the broker refuses the message: no"`,
			log.with(warnLine)[0])
		require.Empty(t, log.with(errorLine), "the topic is well")
	})
}

func TestACommandIsDeadAfterTenRefusalsAndTheNextOfItsOrderGoesOutInTheSameDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: fails(errRefused, "A1")}
		d := dispatcher(&rows, &bus)
		log := logTo(d)
		rows.add("A1", "A2")
		refusedOften(t, d, 9)
		require.Equal(t, "waiting after 9 attempts", rows.state("A1"))
		require.Equal(t, 9, rows.find("A1").Refusals)
		require.Empty(t, log.with(errorLine))

		drained(t, d)
		require.Equal(t, "dead", rows.state("A1"))
		require.Equal(t, "the broker refuses the message: no", rows.find("A1").lastError, "the reason that its order is told")
		require.Equal(t, []string{"A2"}, bus.of("A"), "nobody waits for a lease")
		require.Equal(t, []string{
			`"a command is dead: the broker refuses it for good" messageId=A1 orderId=A refusals=10 error="the broker refuses the message: no"`,
		}, log.with(errorLine))
	})
}

func TestOnlyRefusalsKillACommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		why := errDown
		bus := broker{refuse: func(context.Context, string) error { return why }}
		d := dispatcher(&rows, &bus)
		rows.add("A1")
		refusedOften(t, d, 20)
		why = errRefused
		refusedOften(t, d, 9)
		why = errDown
		refusedOften(t, d, 20)
		require.Equal(t, "waiting after 49 attempts", rows.state("A1"))
		why = errRefused
		drained(t, d)
		require.Equal(t, "dead", rows.state("A1"))
	})
}

func TestHowManyRefusalsACommandMayHaveCanBeSet(t *testing.T) {
	t.Parallel()
	var rows table
	bus := broker{refuse: fails(errRefused, "A1")}
	d := dispatcher(&rows, &bus)
	d.MaxRefusals = 1
	rows.add("A1")
	drained(t, d)
	require.Equal(t, "dead", rows.state("A1"))
}

func TestACommandThatCanNeverBeAcceptedDiesAtOnceAndAlone(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int{1, 10} {
		rows := table{ahead: ahead}
		bus := broker{refuse: fails(errNever, "A2", "C1")}
		rows.add("A1", "A2", "A3", "B1", "C1", "C2")
		sent, more := drained(t, dispatcher(&rows, &bus))
		require.Equal(t, 4, sent)
		require.False(t, more)
		require.Equal(t, "dead", rows.state("A2"))
		require.Equal(t, "dead", rows.state("C1"))
		require.Equal(t, []string{"A1", "A3"}, bus.of("A"))
		require.Equal(t, []string{"C2"}, bus.of("C"))
	}
}

func TestADeadlineIsNeverDead(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errRefused, errNever, errDown} {
		synctest.Test(t, func(t *testing.T) {
			var rows table
			bus := broker{refuse: fails(err, "A1")}
			rows.addDeadline("A1")
			d := dispatcher(&rows, &bus)
			refusedOften(t, d, 30)
			require.Equal(t, "waiting after 30 attempts", rows.state("A1"))
			bus.refuse = nil
			drained(t, d)
			require.Equal(t, []string{"A1"}, bus.of("A"))
		})
	}
}

func TestARefusalIsNoTroubleOfTheTopic(t *testing.T) {
	t.Parallel()
	var rows table
	refusals := 0
	bus := broker{refuse: func(_ context.Context, id string) error {
		if id < "Z1" {
			refusals++
			return errRefused
		}
		return nil
	}}
	d := dispatcher(&rows, &bus)
	d.Parallel = 1
	log := logTo(d)
	rows.alphabet()
	sent, more := drained(t, d)
	require.Equal(t, 1, sent)
	require.False(t, more)
	require.Equal(t, 25, refusals, "one after the other was tried")
	require.Empty(t, log.with(errorLine))
}

func TestASenderThatPanicsRefusesTheMessageAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(_ context.Context, id string) error {
			if id == "A1" {
				panic("nil pointer")
			}
			return nil
		}}
		d := dispatcher(&rows, &bus)
		rows.add("A1", "A2", "B1")
		sent, _ := drained(t, d)
		require.Equal(t, 1, sent)
		require.Equal(t, 1, rows.find("A1").Refusals)
		require.Equal(t, "the broker refuses the message: the sender panicked: nil pointer", rows.find("A1").lastError)
		time.Sleep(time.Minute)
		refusedOften(t, d, 9)
		require.Equal(t, "dead", rows.state("A1"))
		require.Equal(t, []string{"A2"}, bus.of("A"))
	})
}

func TestFromAPanicNothingIsLearntOfTheTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(_ context.Context, id string) error {
			if id == "A1" {
				panic("nil pointer")
			}
			return errDown
		}}
		rows.alphabet()
		d := dispatcher(&rows, &bus)
		log := logTo(d)
		drained(t, d)
		require.Equal(t, 2, bus.tries, "one after the other")
		require.Len(t, log.with(errorLine), 1)
		require.Empty(t, log.with(infoLine))
	})
}

func TestACommandThatCannotBeMadeDeadNowIsRefusedOnceMoreAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := table{before: only("bury", errors.New("its order cannot be told"))}
		bus := broker{refuse: fails(errNever, "A1")}
		d := dispatcher(&rows, &bus)
		log := logTo(d)
		rows.add("A1", "A2", "B1")
		sent, _ := drained(t, d)
		require.Equal(t, 1, sent)
		require.Equal(t, "waiting after 1 attempts", rows.state("A1"))
		require.Equal(t, []workflow.Mark{{
			OrderID: "A", Seq: 1, Error: "the broker refuses the message for good: too large", Refused: true, RetryAfter: 750 * time.Millisecond,
		}}, rows.find("A1").marks)
		require.Len(t, log.with(errorLine), 1)
		require.Contains(t, log.with(errorLine)[0], `because="its order cannot be told"`)

		rows.before = nil
		time.Sleep(time.Second)
		drained(t, d)
		require.Equal(t, "dead", rows.state("A1"))
		require.Equal(t, []string{"A2"}, bus.of("A"))
	})
}

// mute is a sender that does not say what became of a message.
type mute struct{ broker }

func (*mute) Send(context.Context, []workflow.Outgoing) ([]int64, error) { return nil, nil }

// boastful is one that says more than it was asked.
type boastful struct{ broker }

func (*boastful) Send(_ context.Context, messages []workflow.Outgoing) ([]int64, error) {
	return make([]int64, len(messages)+1), fmt.Errorf("what?")
}

func TestWhatASenderDoesNotSpeakOfIsNotTakenForSent(t *testing.T) {
	t.Parallel()
	var rows table
	rows.add("A1")
	sent, _ := drained(t, dispatcher(&rows, &mute{}))
	require.Zero(t, sent)
	require.Equal(t, "waiting after 1 attempts", rows.state("A1"))
	sent, _ = drained(t, dispatcher(&table{rows: []*row{{}}}, &boastful{}))
	require.Equal(t, 1, sent)
}
