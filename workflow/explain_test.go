package workflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestEveryOrderCanSayWhereItStandsAndWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in      scene
		waits   string
		suggest string // part of what is said; empty for nothing
	}{
		{fresh, "OrderPlaced", ""},
		{reserving, "ReserveInventory", ""},
		{paying, "CapturePayment", ""},
		{shipping, "ShipOrder", ""},
		{releasing, "order-42:release-inventory:1", ""},
		{refunding, "order-42:refund-payment:1", ""},
		{secondTry, "order-42:refund-payment:2", ""},
		{bothUndos, "order-42:refund-payment:1", ""},
		{silent, "the shipment", "send the unanswered command again"},
		{goodsOverdue, "the goods", "send the unanswered command again"},
		{refundFails, "the money", "retry"},
		{releaseFails, "the goods", "retry"},
		{contradicted, "the shipment", "resolve"},
		{delivered, "", ""},
		{nothing, "", ""},
		{byHand, "", ""},
	} {
		d := newDesk()
		d.hears(c.in.told...)
		e := workflow.Explain(d.order)
		require.NotEmpty(t, e.Meaning)
		require.Len(t, strings.Split(standing(d.order), ", "), max(1, len(d.order.Effects)))
		if c.waits == "" {
			require.Empty(t, e.WaitsFor)
			require.Equal(t, e.Meaning, e.String())
			continue
		}
		require.Contains(t, e.WaitsFor, c.waits)
		require.Contains(t, e.WaitsFor, c.suggest)
		require.Equal(t, c.suggest == "retry", strings.Contains(e.WaitsFor, "retry"), "retry is offered after a failure only")
		require.Contains(t, e.String(), e.WaitsFor)
	}
}

func TestWhatIsKnownIsPutInWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    scene
		facts []string
	}{
		{fresh, nil},
		{shipping, []string{"goods res-1 held", "money pay-1 held", "shipment waiting for an answer"}},
		{silent, []string{"goods res-1 held", "money pay-1 held", "shipment not answered in time"}},
		{refundFails, []string{
			"goods res-1 held", "money pay-1 undo failed (no luck)", "shipment undone",
			"turned back because the goods cannot be shipped: no luck",
		}},
		{byHand, []string{
			"goods res-1 undone (by hand: order-42:resolve-cancelled:4)",
			"turned back because the payment failed: no luck",
		}},
		{givenBack, []string{"goods res-1 undone", "turned back because the payment failed: no luck"}},
		{paying.then(workflow.AwaitingPayment, dead("capture-payment:1")), []string{
			"goods res-1 held", "order-42:capture-payment:1 could not be sent: no such topic",
		}},
	} {
		d := newDesk()
		d.hears(c.in.told...)
		require.Equal(t, c.facts, workflow.Explain(d.order).Facts)
	}
}
