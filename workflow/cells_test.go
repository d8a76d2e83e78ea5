package workflow_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// cell is one cell of the matrix, or one variant of a cell that a rule decides:
// where an order stands, what it is told, and what that comes to.
type cell struct {
	in   scene
	say  saying
	come string
	// stand is how the effects stand afterwards; empty means as before.
	stand string
	// when tells variants of a cell apart.
	when string
}

// scene is how an order honestly came to a status: by messages.
type scene struct {
	status workflow.Status
	told   []saying
}

func (s scene) then(status workflow.Status, more ...saying) scene {
	return scene{status, append(slices.Clone(s.told), more...)}
}

var (
	fresh     = scene{workflow.NotStarted, nil}
	reserving = fresh.then(workflow.AwaitingInventory, placed())
	paying    = reserving.then(workflow.AwaitingPayment, reserved("res-1"))
	shipping  = paying.then(workflow.AwaitingShipment, captured("pay-1"))

	// Being backed out: goods waiting; goods held, money waiting and shipment
	// undone; money waiting and no goods known; two undos in flight; nothing
	// but what is said in the name.
	releasing = paying.then(workflow.Compensating, notPaid)
	refunding = shipping.then(workflow.Compensating, notShipped)
	moneyOnly = fresh.then(workflow.Compensating, captured("pay-1"), cancelled, placed())
	bothUndos = releasing.then(workflow.Compensating, captured("pay-1"))
	secondTry = refundFails.then(workflow.Compensating, retry)

	// For a person: shipment overdue; goods overdue; money failed; shipment
	// held with money waiting; goods failed; money overdue without goods.
	silent        = shipping.then(workflow.NeedsAttention, expired("shipment-timeout:1"))
	goodsOverdue  = releasing.then(workflow.NeedsAttention, expired("compensation-timeout:1"))
	refundFails   = refunding.then(workflow.NeedsAttention, refundFailed("pay-1", 1))
	contradicted  = refunding.then(workflow.NeedsAttention, shipped("ship-1"))
	releaseFails  = releasing.then(workflow.NeedsAttention, releaseFailed("res-1", 1))
	moneyOverdue  = moneyOnly.then(workflow.NeedsAttention, expired("compensation-timeout:1"))
	bothOverdue   = bothUndos.then(workflow.NeedsAttention, expired("compensation-timeout:2"))
	shippedRefund = contradicted.then(workflow.NeedsAttention, refunded("pay-1", "ref-1"))

	// Ends: delivered; by a person's word with money waiting, with goods and
	// no money, with money and no goods; nothing known; goods given back; all
	// given back; goods settled by hand.
	delivered   = shipping.then(workflow.Completed, shipped("ship-1"))
	wordMoney   = contradicted.then(workflow.Completed, resolveCompleted)
	wordGoods   = goodsOverdue.then(workflow.Completed, resolveCompleted)
	wordNoGoods = moneyOverdue.then(workflow.Completed, resolveCompleted)
	wordSilent  = silent.then(workflow.Completed, resolveCompleted)
	nothing     = reserving.then(workflow.Cancelled, expired("inventory-timeout:1"))
	givenBack   = releasing.then(workflow.Cancelled, released("res-1"))
	allGiven    = refunding.then(workflow.Cancelled, refunded("pay-1", "ref-1"), released("res-1"))
	byHand      = goodsOverdue.then(workflow.Cancelled, resolveCancelled)
)

func (c cell) name() string {
	name := fmt.Sprintf("%s told %s comes to %s", c.in.status, c.say.Type, c.come)
	if c.when != "" {
		name += ", when " + c.when
	}
	return name
}

func TestEveryCellOfTheMatrix(t *testing.T) {
	t.Parallel()
	covered := map[place]bool{}
	for _, cells := range [][]cell{
		cellsNotStarted(), cellsAwaitingInventory(), cellsAwaitingPayment(), cellsAwaitingShipment(),
		cellsCompensating(), cellsNeedsAttention(), cellsCompleted(), cellsCancelled(),
	} {
		for _, c := range cells {
			covered[place{c.in.status, c.say.Type}] = true
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				c.check(t)
			})
		}
	}
	for _, status := range statuses {
		for _, on := range types {
			require.True(t, covered[place{status, on}], "no test says what %s does in %s", on, status)
		}
	}
}

func (c cell) check(t *testing.T) {
	t.Helper()
	d := newDesk()
	d.hears(c.in.told...)
	before, held := d.order, len(d.held)
	if len(c.in.told) == 0 {
		before.Status = workflow.NotStarted
	}
	require.Equal(t, c.in.status, before.Status, "the scene")

	r := d.hears(c.say)
	require.Equal(t, c.come, told(r))
	require.Len(t, r.Decisions, 1)
	decision, after := r.Decisions[0], r.Order
	require.NotEmpty(t, decision.Reason)
	require.Equal(t, before.Status, decision.From)
	require.Equal(t, after.Status, decision.To)
	require.Equal(t, after.Version, decision.Version)

	if decision.Outcome != workflow.Applied {
		require.Equal(t, before, after, "nothing changes")
		require.Empty(t, r.Emissions())
		require.Empty(t, r.Settled())
		require.Equal(t, decision.Outcome == workflow.Held, len(d.held) == held+1)
		return
	}

	require.Equal(t, before.Version+1, after.Version)
	if c.stand == "" {
		c.stand = standing(before)
	}
	require.Equal(t, c.stand, standing(after))

	var written []string
	for _, e := range r.Emissions() {
		require.False(t, e.Closed)
		require.Equal(t, theOrder, e.OrderID)
		require.Equal(t, theConversation, e.Conversation)
		require.Equal(t, theOrigin, e.OriginID)
		require.Equal(t, decision.Message.ID, e.ParentID)
		written = append(written, e.ID)
	}
	var decided []string
	if decision.Command != nil {
		decided = append(decided, decision.Command.ID)
		require.True(t, after.Awaits(decision.Command.ID), "an answer to what is sent is awaited")
	}
	armed := before.Armed
	if decision.To != decision.From || decision.Command != nil {
		armed = ""
		require.Empty(t, after.Problem, "a new wait begins with a clean slate")
	}
	if decision.Deadline != nil {
		decided = append(decided, decision.Deadline.ID)
		armed = decision.Deadline.ID
	}
	require.Equal(t, decided, written)
	require.Equal(t, armed, after.Armed)
	require.Equal(t, before.Armed != "" && armed != before.Armed, slices.Contains(r.Settled(), before.Armed),
		"the deadline that was armed is cancelled exactly when it is replaced or over")
}
