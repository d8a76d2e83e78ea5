package workflow_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// possibleNow lists what an operator may do about an order, in words.
func possibleNow(s workflow.Story) []string {
	var all []string
	for _, p := range workflow.Allowed(s) {
		all = append(all, strings.ReplaceAll(p.String(), theOrder+":", ""))
	}
	return all
}

func TestAnOperatorIsOfferedWhatIsPossible(t *testing.T) {
	t.Parallel()
	sent := func(id string) workflow.Dispatch {
		return workflow.Dispatch{Outgoing: workflow.Outgoing{ID: theOrder + ":" + id}, State: workflow.DispatchSent}
	}
	in := func(d workflow.Dispatch, state string) workflow.Dispatch {
		d.State = state
		return d
	}
	deadline := sent("payment-timeout:1")
	deadline.Purpose = workflow.PaymentTimeout
	cancelOrder := sent("cancel-order:1")
	cancelOrder.Type = workflow.CancelOrder
	for name, c := range map[string]struct {
		in      scene
		outbox  []workflow.Dispatch
		line    []workflow.Envelope
		blocked string
		want    []string
	}{
		"before it was placed": {in: fresh, want: []string{"cancel"}},
		"it waits for payment": {
			in: paying, outbox: []workflow.Dispatch{sent("reserve-inventory:1"), deadline, sent("capture-payment:1")},
			want: []string{"cancel", "fire-deadline payment-timeout:1", "send-again capture-payment:1", "discard capture-payment:1"},
		},
		"its command waits to be sent": {
			in: paying, outbox: []workflow.Dispatch{in(sent("capture-payment:1"), workflow.DispatchWaiting)},
			want: []string{"cancel", "fire-deadline payment-timeout:1"},
		},
		"a command died that nobody waits for": {
			in: delivered, outbox: []workflow.Dispatch{in(sent("ship-order:1"), workflow.DispatchDead), in(sent("x:1"), workflow.DispatchClosed)},
			want: []string{"discard ship-order:1"},
		},
		"it is shipped":             {in: shipping, want: []string{"fire-deadline shipment-timeout:1"}},
		"it is blocked":             {in: paying, blocked: "m-7", want: []string{"retry m-7", "skip m-7", "cancel"}},
		"its line is being handled": {in: paying, line: []workflow.Envelope{{ID: "m-8"}}, want: []string{"cancel"}},
		"it is blocked and its command died": {
			in: paying, blocked: "m-7", outbox: []workflow.Dispatch{in(sent("capture-payment:1"), workflow.DispatchDead)},
			want: []string{"retry m-7", "skip m-7", "cancel"},
		},
		"it needs attention and is": {in: refundFails, blocked: "m-7", want: []string{"retry m-7", "skip m-7"}},
		"an undo failed":            {in: refundFails, want: []string{"retry", "resolve to cancelled", "resolve to completed"}},
		"an undo was not answered":  {in: goodsOverdue, outbox: []workflow.Dispatch{sent("release-inventory:1")}, want: []string{"resolve to cancelled", "resolve to completed", "send-again release-inventory:1", "discard release-inventory:1"}},
		"it ended well":             {in: delivered},
		"it was cancelled":          {in: byHand, outbox: []workflow.Dispatch{cancelOrder}},
		"its customer cannot be told": {
			in: byHand, outbox: []workflow.Dispatch{in(cancelOrder, workflow.DispatchDead)},
			want: []string{"send-again cancel-order:1", "discard cancel-order:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk()
			d.hears(c.in.told...)
			require.Equal(t, c.want, possibleNow(workflow.Story{Order: d.order, Outbox: c.outbox, Line: c.line, BlockedBy: c.blocked}))
		})
	}
}

func TestWhatIsOfferedIsTakenAndWhatIsNotIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []scene{
		fresh, reserving, paying, shipping, releasing, refunding, moneyOnly, bothUndos, secondTry, silent, goodsOverdue, refundFails, contradicted,
		releaseFails, moneyOverdue, bothOverdue, shippedRefund, delivered, wordMoney, nothing, givenBack, allGiven, byHand,
	} {
		for words, does := range map[string]saying{"retry": retry, "resolve to cancelled": resolveCancelled, "resolve to completed": resolveCompleted, "cancel": cancelled} {
			d := newDesk()
			d.hears(s.told...)
			offered := slices.Contains(possibleNow(workflow.Story{Order: d.order}), words)
			was := d.order.Status
			outcome := d.hears(does).Decisions[0].Outcome
			taken := outcome == workflow.Applied || outcome == workflow.Held
			require.Equal(t, offered, taken, "%s while %s", words, was)
		}
	}
}
