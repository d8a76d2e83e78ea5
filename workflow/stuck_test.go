package workflow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestAnOrderIsStuckForTheseReasonsAndNoSooner(t *testing.T) {
	t.Parallel()
	limits := workflow.LimitsFor(map[workflow.Purpose]time.Duration{workflow.PaymentTimeout: 20 * time.Minute})
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	order := func(status workflow.Status) workflow.Order {
		return workflow.Order{ID: theOrder, Status: status, Armed: "order-42:payment-timeout:1"}
	}
	const yet = time.Nanosecond
	for name, c := range map[string]struct {
		listed workflow.Listed
		kind   workflow.StuckKind // empty: it is not
		why    string
	}{
		"it has just begun":             {workflow.Listed{Order: order(workflow.AwaitingPayment), Since: noon}, "", ""},
		"it ended long ago":             {workflow.Listed{Order: order(workflow.Completed), Since: ago(9999 * time.Hour)}, "", ""},
		"only a person can decide":      {workflow.Listed{Order: order(workflow.NeedsAttention), Since: noon}, workflow.StuckAttention, "it waits for a person"},
		"a message blocks it":           {workflow.Listed{Order: order(workflow.Completed), BlockedBy: "m-7"}, workflow.StuckBlocked, "message m-7"},
		"a command is dead":             {workflow.Listed{Order: order(workflow.Cancelled), Dead: 2}, workflow.StuckDead, "refused 2 of its commands"},
		"its deadline is due":           {workflow.Listed{Order: order(workflow.AwaitingShipment), DeadlineAt: ago(time.Minute)}, "", ""},
		"its deadline has passed":       {workflow.Listed{Order: order(workflow.AwaitingShipment), DeadlineAt: ago(time.Minute + yet)}, workflow.StuckOverdue, "its deadline order-42:payment-timeout:1 passed more than 1m ago"},
		"its deadline is ahead":         {workflow.Listed{Order: order(workflow.AwaitingShipment), DeadlineAt: noon.Add(time.Hour)}, "", ""},
		"a command waits":               {workflow.Listed{Order: order(workflow.AwaitingPayment), Waiting: ago(5 * time.Minute)}, "", ""},
		"a command waits too long":      {workflow.Listed{Order: order(workflow.AwaitingPayment), Waiting: ago(5*time.Minute + yet)}, workflow.StuckUnsent, "waited more than 5m to be sent"},
		"it waits for an answer":        {workflow.Listed{Order: order(workflow.AwaitingPayment), Since: ago(10 * time.Minute)}, "", ""},
		"no answer comes":               {workflow.Listed{Order: order(workflow.AwaitingPayment), Since: ago(10*time.Minute + yet)}, workflow.StuckUnanswered, "more than 10m for the payment service's answer"},
		"no answer comes for a day":     {workflow.Listed{Order: order(workflow.AwaitingShipment), Since: ago(84*time.Hour + yet)}, workflow.StuckUnanswered, "more than 84h for shipping's answer"},
		"messages came before it":       {workflow.Listed{Order: order(workflow.NotStarted), Since: ago(9 * time.Hour), HeldSince: ago(time.Hour)}, "", ""},
		"they were given up long ago":   {workflow.Listed{Order: order(workflow.NotStarted), Since: ago(9999 * time.Hour)}, "", ""},
		"messages came and it did not":  {workflow.Listed{Order: order(workflow.NotStarted), HeldSince: ago(time.Hour + yet)}, workflow.StuckEarly, "more than 1h for an order that was not placed"},
		"when it began is not recorded": {workflow.Listed{Order: order(workflow.AwaitingPayment)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := workflow.WhyStuck(c.listed, noon, limits)
			if c.kind == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Equal(t, c.kind, got[0].Kind)
			require.Contains(t, got[0].Why, c.why)
			require.Equal(t, got, workflow.WhyStuck(c.listed, noon.Add(time.Second), limits), "the words stay as long as the reason does")
		})
	}
}

func TestOfAnOrderThatIsStuckInManyWaysTheGravestComesFirst(t *testing.T) {
	t.Parallel()
	long := noon.Add(-9999 * time.Hour)
	l := workflow.Listed{Order: workflow.Order{Status: workflow.AwaitingPayment}, BlockedBy: "m", Dead: 1, DeadlineAt: long, Waiting: long, Since: long}
	kinds := func(now time.Time) (all []workflow.StuckKind) {
		for _, s := range workflow.WhyStuck(l, now, workflow.LimitsFor(nil)) {
			all = append(all, s.Kind)
		}
		return all
	}
	require.Equal(t, []workflow.StuckKind{workflow.StuckBlocked, workflow.StuckDead, workflow.StuckOverdue, workflow.StuckUnsent, workflow.StuckUnanswered}, kinds(noon))
	require.Equal(t, []workflow.StuckKind{workflow.StuckBlocked, workflow.StuckDead}, kinds(time.Time{}), "without a clock")
}

func TestEveryStatusInWhichAnOrderWaitsForAnAnswerHasALimit(t *testing.T) {
	t.Parallel()
	limits := workflow.LimitsFor(map[workflow.Purpose]time.Duration{workflow.ShipmentTimeout: 168 * time.Hour})
	for _, row := range workflow.Table() {
		require.Equal(t, row.WaitsFor != "" && row.Status != workflow.NeedsAttention, limits.Age[row.Status] > 0, row.Status)
	}
	require.Equal(t, 84*time.Hour, limits.Age[workflow.AwaitingShipment])
	require.Equal(t, 12*time.Hour, limits.Age[workflow.AwaitingPayment])
}

func TestAStoryIsListedWithWhatMakesItStuck(t *testing.T) {
	t.Parallel()
	dispatch := func(id, state string, purpose workflow.Purpose) workflow.Dispatch {
		return workflow.Dispatch{Outgoing: workflow.Outgoing{ID: id, Purpose: purpose}, State: state}
	}
	s := workflow.Story{
		Order: workflow.Order{ID: theOrder}, Revision: 3, CreatedAt: noon, Since: noon.Add(1), UpdatedAt: noon.Add(2), DeadlineAt: noon.Add(3), BlockedBy: "m",
		Held: make([]workflow.Envelope, 2), Line: make([]workflow.Envelope, 3),
		Journal: []workflow.Entry{
			{At: noon.Add(4), Emitted: []string{"c-2", "d-1"}}, {At: noon.Add(5), Emitted: []string{"c-3"}},
			{At: noon.Add(6), Outcome: workflow.Held}, {At: noon.Add(7), Outcome: workflow.Held},
		},
		Outbox: []workflow.Dispatch{
			dispatch("d-1", workflow.DispatchWaiting, workflow.PaymentTimeout), dispatch("c-1", workflow.DispatchDead, ""),
			dispatch("c-2", workflow.DispatchWaiting, ""), dispatch("c-3", workflow.DispatchWaiting, ""), dispatch("c-4", workflow.DispatchSent, ""),
		},
	}
	require.Equal(t, workflow.Listed{
		Order: s.Order, Revision: 3, CreatedAt: noon, Since: noon.Add(1), UpdatedAt: noon.Add(2), DeadlineAt: noon.Add(3), BlockedBy: "m",
		Dead: 1, Held: 2, HeldSince: noon.Add(6), Waiting: noon.Add(4),
	}, s.Listed())
	s.Journal = append(s.Journal, workflow.Entry{At: noon.Add(8), Type: workflow.MessageType(workflow.SendAgain), ParentID: "c-2"},
		workflow.Entry{At: noon.Add(9), Type: workflow.MessageType(workflow.SkipMessage), ParentID: "c-2"})
	require.Equal(t, noon.Add(8), s.Listed().Waiting, "it was dead, and waits again since then")
	s.Journal = nil
	require.Zero(t, s.Listed().Waiting, "the journal was purged")
}
