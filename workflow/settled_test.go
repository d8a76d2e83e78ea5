package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestWhatIsAwaitedIsWhatMayBeSentAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when  string
		in    scene
		await []string
	}{
		{"nothing was sent", fresh, nil},
		{"goods were asked for", reserving, []string{"reserve-inventory:1"}},
		{"payment was asked for", paying, []string{"capture-payment:1"}},
		{"shipping was asked for", shipping, []string{"ship-order:1"}},
		{"the shipment is overdue", silent, []string{"ship-order:1"}},
		{"the release is waited for", releasing, []string{"release-inventory:1"}},
		{"the release is overdue", goodsOverdue, []string{"release-inventory:1"}},
		{"two undos are in flight", bothUndos, []string{"release-inventory:1", "refund-payment:1"}},
		{"the refund failed", refundFails, nil},
		{"the refund is tried again", secondTry, []string{"refund-payment:2"}},
		{"the goods left", contradicted, []string{"refund-payment:1"}},
		{"the customer was told, and money is to be returned", moneyOnly, []string{"refund-payment:1", "cancel-order:1"}},
		{"all is given back", allGiven, []string{"cancel-order:1"}},
		{"it was settled by hand", byHand, []string{"cancel-order:1"}},
		{"it was delivered", delivered, nil},
	} {
		d, _ := hear(c.in)
		var await []string
		for _, id := range d.order.Awaited() {
			require.True(t, d.order.Awaits(id))
			await = append(await, short(id))
		}
		require.Equal(t, c.await, await, "when %s", c.when)
	}
}

func TestWhatIsNoLongerWantedIsSettledInTheSameCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when    string
		in      scene
		say     saying
		settled []string
	}{
		{"the order begins", fresh, placed(), nil},
		{"goods are reserved", reserving, reserved("res-1"), []string{"inventory-timeout:1", "reserve-inventory:1"}},
		{"the wait for payment ends", paying, expired("payment-timeout:1"), []string{"payment-timeout:1", "capture-payment:1"}},
		{"shipping is late", shipping, expired("shipment-timeout:1"), []string{"shipment-timeout:1"}},
		{"it was shipped after all", silent, shipped("ship-1"), []string{"ship-order:1"}},
		{"a person settles the shipment", silent, resolveCancelled, []string{"ship-order:1"}},
		{"the deadline came too soon", paying, tooSoon("payment-timeout:1"), []string{"payment-timeout:1"}},
		{"a command died", paying, dead("capture-payment:1"), nil},
		{"money is late", releasing, captured("pay-1"), []string{"compensation-timeout:1"}},
		{"one of two undos is done", bothUndos, released("res-1"), []string{"release-inventory:1"}},
		{"the refund failed", refunding, refundFailed("pay-1", 1), []string{"compensation-timeout:1", "refund-payment:1"}},
		{"it is retried", refundFails, retry, nil},
		{"a person completes it", goodsOverdue, resolveCompleted, nil},
	} {
		_, r := hear(c.in, c.say)
		require.Equal(t, workflow.Applied, r.Decisions[0].Outcome)
		var settled []string
		for _, id := range r.Settled() {
			settled = append(settled, short(id))
		}
		require.Equal(t, c.settled, settled, "when %s", c.when)
	}
}

func TestOnlyMessagesForPeopleAndTheDeadAreInternal(t *testing.T) {
	t.Parallel()
	for _, on := range types {
		internal := on == workflow.DispatchFailed || on == workflow.Retry ||
			on == workflow.ResolveCancelled || on == workflow.ResolveCompleted
		require.Equal(t, internal, on.Internal(), on)
	}
}

func TestAnOrderAtRestWaitsForNoDeadline(t *testing.T) {
	t.Parallel()
	for _, row := range workflow.Table() {
		if row.Status.AtRest() {
			require.Empty(t, row.Deadline, row.Status)
		} else if row.Status != workflow.NotStarted {
			require.NotEmpty(t, row.Deadline, row.Status)
			require.Equal(t, row.Deadline, expiries[row.Deadline.Expired()])
		}
	}
	require.Empty(t, workflow.Purpose("no-such-timeout").Expired())
}
