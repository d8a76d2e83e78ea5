package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// step is one line of a story: what is said, and what it comes to.
type step struct {
	say  saying
	come string
}

// The beginnings of the stories, as docs/process.md abbreviates them.
var (
	p = step{placed(), "→ AwaitingInventory reserve-inventory:1 [inventory-timeout:1]"}
	r = step{reserved("res-1"), "→ AwaitingPayment capture-payment:1 [payment-timeout:1]"}
	c = step{captured("pay-1"), "→ AwaitingShipment ship-order:1 [shipment-timeout:1]"}
)

func TestTheAwkwardStoriesGoAsTheyAreTold(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name  string
		steps []step
		stand string
	}{
		{"the happy one", []step{p, r, c,
			{shipped("ship-1"), "→ Completed"},
		}, "goods res-1 held, money pay-1 held, shipment ship-1 held"},
		{"1 a dead command, then late money", []step{p, r,
			{dead("capture-payment:1"), "recorded"},
			{expired("payment-timeout:1"), "→ Compensating release-inventory:1 [compensation-timeout:1]"},
			{captured("pay-1"), "refund-payment:1 [compensation-timeout:2]"},
			{released("res-1"), "recorded"},
			{refunded("pay-1", "ref-1"), "→ Cancelled cancel-order:1"},
		}, "goods res-1 undone by res-1, money pay-1 undone by ref-1"},
		{"2 late goods", []step{p,
			{expired("inventory-timeout:1"), "→ Cancelled cancel-order:1"},
			{reserved("res-1"), "→ Compensating release-inventory:1 [compensation-timeout:1]"},
			{reserved("res-1"), "stale"},
			{reserved("res-2"), "conflict"},
			{released("res-1"), "→ Cancelled"},
		}, "goods res-1 undone by res-1"},
		{"3 too late to cancel, and the refund fails", []step{p, r, c,
			{cancelled, "refused"},
			{notShipped, "→ Compensating refund-payment:1 [compensation-timeout:1]"},
			{refundFailed("pay-1", 1), "→ NeedsAttention"},
			{retry, "→ Compensating refund-payment:2 [compensation-timeout:2]"},
			{refundFailed("pay-1", 1), "stale"},
			{refunded("pay-1", "ref-1"), "release-inventory:1 [compensation-timeout:3]"},
			{released("res-1"), "→ Cancelled cancel-order:1"},
		}, "goods res-1 undone by res-1, money pay-1 undone by ref-1, shipment undone"},
		{"4 silent shipping, then the shipment", []step{p, r, c,
			{expired("shipment-timeout:1"), "→ NeedsAttention"},
			{retry, "refused"},
			{shipped("ship-1"), "→ Completed"},
		}, "goods res-1 held, money pay-1 held, shipment ship-1 held"},
		{"5 silent shipping, and it was not sent", []step{p, r, c,
			{expired("shipment-timeout:1"), "→ NeedsAttention"},
			{retry, "refused"},
			{notShipped, "→ Compensating refund-payment:1 [compensation-timeout:1]"},
			{refundFailed("pay-1", 1), "→ NeedsAttention"},
			{retry, "→ Compensating refund-payment:2 [compensation-timeout:2]"},
			{refundFailed("pay-1", 1), "stale"},
			{refunded("pay-1", "ref-1"), "release-inventory:1 [compensation-timeout:3]"},
			{released("res-1"), "→ Cancelled cancel-order:1"},
		}, "goods res-1 undone by res-1, money pay-1 undone by ref-1, shipment undone"},
		{"6 a contradiction", []step{p, r, c,
			{notShipped, "→ Compensating refund-payment:1 [compensation-timeout:1]"},
			{shipped("ship-1"), "→ NeedsAttention"},
			{refunded("pay-1", "ref-1"), "recorded"},
			{resolveCancelled, "→ Compensating release-inventory:1 [compensation-timeout:2]"},
			{released("res-1"), "→ Cancelled cancel-order:1"},
		}, "goods res-1 undone by res-1, money pay-1 undone by ref-1, shipment ship-1 undone by hand"},
		{"7 too early", []step{
			{captured("pay-1"), "held"},
			{cancelled, "held"},
			{placed(), p.come + "; → Cancelled cancel-order:1; → Compensating refund-payment:1 [compensation-timeout:1]"},
			{reserved("res-1"), "release-inventory:1 [compensation-timeout:2]"},
		}, "money pay-1 waiting, goods res-1 waiting"},
		{"8 a silent warehouse", []step{p, r,
			{notPaid, "→ Compensating release-inventory:1 [compensation-timeout:1]"},
			{expired("compensation-timeout:1"), "→ NeedsAttention"},
			{resolveCancelled, "→ Cancelled cancel-order:1"},
			{released("res-1"), "conflict"},
		}, "goods res-1 undone by hand"},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk()
			for i, s := range story.steps {
				require.Equal(t, s.come, told(d.hears(s.say)), "step %d, %s", i+1, s.say.Type)
			}
			require.Equal(t, story.stand, standing(d.order))
		})
	}
}

func TestWhatWasHeldAndTurnedBackInOneCommitIsKeptButNeverSent(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.hears(captured("pay-1"), cancelled)
	placing := d.hears(placed())

	var written []string
	for _, e := range placing.Emissions() {
		name := short(e.ID)
		if e.Closed {
			name += " closed"
		}
		written = append(written, name)
	}
	require.Equal(t, []string{
		"reserve-inventory:1 closed", "cancel-order:1", "refund-payment:1", "compensation-timeout:1",
	}, written, "inventory-timeout:1 was armed and replaced, so it is not written")
	require.Empty(t, placing.Settled(), "nothing was there before")
	require.Equal(t, int64(3), d.order.Version, "each taken message counts")
	require.Empty(t, d.held)

	parents := map[string]string{}
	for _, e := range placing.Emissions() {
		parents[short(e.ID)] = e.ParentID
	}
	require.Equal(t, map[string]string{
		"reserve-inventory:1": "letter-3", "cancel-order:1": "letter-2",
		"refund-payment:1": "letter-1", "compensation-timeout:1": "letter-1",
	}, parents, "each held message is the parent of what it causes")
}

func TestAnEarlyMessageThatBecomesTooLateIsDecidedInTheSameCommit(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.hears(placed(), reserved("res-1"))
	require.Equal(t, "held", told(d.hears(notShipped)))
	require.Equal(t, "→ Compensating release-inventory:1 [compensation-timeout:1]; stale", told(d.hears(notPaid)))
	require.Empty(t, d.held)
}

func TestAnEarlyMessageThatContradictsAnotherIsAVisibleConflict(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.hears(placed(), reserved("res-1"))
	require.Equal(t, "held", told(d.hears(shipped("ship-1"))))
	require.Equal(t, "held", told(d.hears(shipped("ship-2"))))
	require.Equal(t, "held", told(d.hears(notShipped)))
	require.Equal(t, c.come+"; → Completed; conflict; conflict", told(d.hears(captured("pay-1"))))
	require.Empty(t, d.held)
	require.Equal(t, workflow.Completed, d.order.Status)
}

func TestAnEarlyMessageStaysHeldWhileItIsTooEarly(t *testing.T) {
	t.Parallel()
	d := newDesk()
	require.Equal(t, "held", told(d.hears(shipped("ship-1"))))
	require.Equal(t, "held", told(d.hears(captured("pay-1"))))
	require.Equal(t, p.come, told(d.hears(placed())))
	require.Len(t, d.held, 2)
	require.Equal(t, r.come+"; "+c.come+"; → Completed", told(d.hears(reserved("res-1"))),
		"the older one is asked again after the younger was taken")
	require.Empty(t, d.held)
}

func TestOldestFirstIsTheOrderOfTakingUp(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.hears(cancelled, notReserved)
	require.Equal(t, p.come+"; → Cancelled cancel-order:1; stale", told(d.hears(placed())))

	d = newDesk()
	d.hears(notReserved, cancelled)
	require.Equal(t, p.come+"; → Cancelled cancel-order:1; stale", told(d.hears(placed())))
	require.Contains(t, d.order.Because, "goods cannot be had")
}
