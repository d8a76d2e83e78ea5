package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/invariants"
)

// TestEachInvariantCanBeBroken shows each of them a state or a move that never
// happens, so that none of them holds for want of looking.
func TestEachInvariantCanBeBroken(t *testing.T) {
	t.Parallel()
	at := func(in scene, spoil func(*invariants.State)) func() error {
		return func() error {
			d := newDesk()
			d.hears(in.told...)
			s := invariants.State{Order: d.order, Held: d.held}
			if err := s.Check(); err != nil {
				return nil //nolint:nilerr // it must be sound before
			}
			spoil(&s)
			return s.Check()
		}
	}
	on := func(in scene, say saying, spoil func(*invariants.Move)) func() error {
		return func() error {
			d := newDesk()
			d.hears(in.told...)
			before := d.order
			r := d.hears(say)
			m := invariants.Move{From: before, To: r.Order, Decision: r.Decisions[0]}
			if err := m.Check(); err != nil {
				return nil //nolint:nilerr // it must be sound before
			}
			spoil(&m)
			return m.Check()
		}
	}
	for number, breaks := range map[string][]func() error{
		"invariant 1 ": {
			at(shipping, func(s *invariants.State) { s.Order.Counts["ship-order"] = 2 }),
			at(allGiven, func(s *invariants.State) { s.Order.Counts["cancel-order"] = 2 }),
			at(allGiven, func(s *invariants.State) { s.Order.Status = workflow.AwaitingPayment }),
			on(paying, captured("pay-1"), func(m *invariants.Move) { m.From.Status = workflow.Compensating }),
		},
		"invariant 2 ": {
			on(paying, notPaid, func(m *invariants.Move) { m.To.Effects[0].State = workflow.EffectHeld }),
			on(shipping, notShipped, func(m *invariants.Move) { m.To.Effects[2].State = workflow.EffectOverdue }),
			on(shipping, notShipped, func(m *invariants.Move) {
				m.To.Effects = append(m.To.Effects, workflow.Effect{Kind: workflow.Shipment})
			}),
			on(refundFails, retry, func(m *invariants.Move) { m.Decision.Message.Type = workflow.PaymentCaptured }),
			on(refunding, refundFailed("pay-1", 1), func(m *invariants.Move) { m.Decision.Message.Facts.CommandID = "another" }),
		},
		"invariant 3 ": {
			at(allGiven, func(s *invariants.State) { s.Order.Effects[1].State = workflow.EffectHeld }),
			at(delivered, func(s *invariants.State) { s.Order.Effects[0].State = workflow.EffectOverdue }),
			at(delivered, func(s *invariants.State) { s.Order.Effects = s.Order.Effects[1:] }),
		},
		"invariant 4 ": {
			at(shippedRefund, func(s *invariants.State) { s.Order.Status = workflow.Compensating }),
		},
		"invariant 5 ": {
			on(releasing, captured("pay-1"), func(m *invariants.Move) { m.To.Effects[1].Ref = "pay-2" }),
			on(shipping, captured("pay-1"), func(m *invariants.Move) { m.Decision.Message.Facts.PaymentID = "pay-2" }),
			on(shipping, captured("pay-2"), func(m *invariants.Move) { m.Decision.Reason = "not expected" }),
		},
		"invariant 6 ": {
			at(paying, func(s *invariants.State) { s.Order.Armed = "" }),
			at(paying, func(s *invariants.State) { s.Order.Armed = "order-42:inventory-timeout:1" }),
			at(silent, func(s *invariants.State) { s.Order.Armed = "order-42:shipment-timeout:1" }),
		},
		"invariant 7 ": {
			at(delivered, func(s *invariants.State) { s.Order.Status = "Lost" }),
		},
		"invariant 8 ": {
			at(silent, func(s *invariants.State) { s.Held = append(s.Held, shipped("ship-1").to(s.Order, "m")) }),
			at(paying, func(s *invariants.State) { s.Held = append(s.Held, reserved("res-2").to(s.Order, "m")) }),
		},
		"invariant 9 ": {
			on(shipping, captured("pay-1"), func(m *invariants.Move) { m.To.Problem = "another" }),
			on(paying, captured("pay-1"), func(m *invariants.Move) { m.To.Version++ }),
			on(paying, captured("pay-1"), func(m *invariants.Move) { m.Decision.Command.ID = "order-42:ship-order:2" }),
			on(paying, captured("pay-1"), func(m *invariants.Move) { m.Decision.Deadline.ID = "order-42:shipment-timeout:2" }),
			on(paying, captured("pay-1"), func(m *invariants.Move) { m.To.Counts["cancel-order"] = 1 }),
		},
	} {
		for i, broken := range breaks {
			require.ErrorContains(t, broken(), number, "break %d", i+1)
		}
	}
}
