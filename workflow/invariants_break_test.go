package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// TestEachInvariantCanBeBroken shows each of them a state or a move that never
// happens, so that none of them holds for want of looking.
func TestEachInvariantCanBeBroken(t *testing.T) {
	t.Parallel()
	at := func(in scene, spoil func(*state)) func() error {
		return func() error {
			d := newDesk()
			d.hears(in.told...)
			s := state{order: d.order, held: d.held}
			if err := checkState(s); err != nil {
				return nil //nolint:nilerr // it must be sound before
			}
			spoil(&s)
			return checkState(s)
		}
	}
	on := func(in scene, say saying, spoil func(*move)) func() error {
		return func() error {
			d := newDesk()
			d.hears(in.told...)
			before := d.order
			r := d.hears(say)
			m := move{before, r.Order, r.Decisions[0]}
			if err := checkMove(m); err != nil {
				return nil //nolint:nilerr // it must be sound before
			}
			spoil(&m)
			return checkMove(m)
		}
	}
	for number, breaks := range map[string][]func() error{
		"invariant 1 ": {
			at(shipping, func(s *state) { s.order.Counts["ship-order"] = 2 }),
			at(allGiven, func(s *state) { s.order.Counts["cancel-order"] = 2 }),
			at(allGiven, func(s *state) { s.order.Status = workflow.AwaitingPayment }),
			on(paying, captured("pay-1"), func(m *move) { m.from.Status = workflow.Compensating }),
		},
		"invariant 2 ": {
			on(paying, notPaid, func(m *move) { m.to.Effects[0].State = workflow.EffectHeld }),
			on(shipping, notShipped, func(m *move) { m.to.Effects[2].State = workflow.EffectOverdue }),
			on(shipping, notShipped, func(m *move) { m.to.Effects = append(m.to.Effects, workflow.Effect{Kind: workflow.Shipment}) }),
			on(refundFails, retry, func(m *move) { m.decision.Message.Type = workflow.PaymentCaptured }),
			on(refunding, refundFailed("pay-1", 1), func(m *move) { m.decision.Message.Facts.CommandID = "another" }),
		},
		"invariant 3 ": {
			at(allGiven, func(s *state) { s.order.Effects[1].State = workflow.EffectHeld }),
			at(delivered, func(s *state) { s.order.Effects[0].State = workflow.EffectOverdue }),
			at(delivered, func(s *state) { s.order.Effects = s.order.Effects[1:] }),
		},
		"invariant 4 ": {
			at(shippedRefund, func(s *state) { s.order.Status = workflow.Compensating }),
		},
		"invariant 5 ": {
			on(releasing, captured("pay-1"), func(m *move) { m.to.Effects[1].Ref = "pay-2" }),
			on(shipping, captured("pay-1"), func(m *move) { m.decision.Message.Facts.PaymentID = "pay-2" }),
			on(shipping, captured("pay-2"), func(m *move) { m.decision.Reason = "not expected" }),
		},
		"invariant 6 ": {
			at(paying, func(s *state) { s.order.Armed = "" }),
			at(paying, func(s *state) { s.order.Armed = "order-42:inventory-timeout:1" }),
			at(silent, func(s *state) { s.order.Armed = "order-42:shipment-timeout:1" }),
		},
		"invariant 7 ": {
			at(delivered, func(s *state) { s.order.Status = "Lost" }),
		},
		"invariant 8 ": {
			at(silent, func(s *state) { s.held = append(s.held, shipped("ship-1").to(s.order, "m")) }),
			at(paying, func(s *state) { s.held = append(s.held, reserved("res-2").to(s.order, "m")) }),
		},
		"invariant 9 ": {
			on(shipping, captured("pay-1"), func(m *move) { m.to.Problem = "another" }),
			on(paying, captured("pay-1"), func(m *move) { m.to.Version++ }),
			on(paying, captured("pay-1"), func(m *move) { m.decision.Command.ID = "order-42:ship-order:2" }),
			on(paying, captured("pay-1"), func(m *move) { m.decision.Deadline.ID = "order-42:shipment-timeout:2" }),
			on(paying, captured("pay-1"), func(m *move) { m.to.Counts["cancel-order"] = 1 }),
		},
	} {
		for i, broken := range breaks {
			require.ErrorContains(t, broken(), number, "break %d", i+1)
		}
	}
}
