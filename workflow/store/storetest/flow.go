package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func flow() []scenario {
	return []scenario{
		{"an order that is placed asks for its goods and arms its deadline, in one commit", func(w *world) {
			d := w.expect(workflow.Applied, placed(theOrder))
			require.Equal(w, []workflow.Status{workflow.NotStarted, workflow.AwaitingInventory}, []workflow.Status{d.From, d.To})
			s := w.story(theOrder)
			require.Equal(w, workflow.AwaitingInventory, s.Order.Status)
			require.EqualValues(w, 1, s.Order.Version)
			require.EqualValues(w, 1, s.Revision)
			require.Equal(w, "conv-7", s.Order.Conversation)
			require.Equal(w, "orders:order-placed:42", s.Order.Origin)
			require.Equal(w, []string{"reserve-inventory:1 waiting", "inventory-timeout:1 waiting"}, w.emitted(theOrder))
			require.Equal(w, w.db.Now().Add(24*time.Hour).Truncate(time.Microsecond), s.DeadlineAt)
			require.Equal(w, s.DeadlineAt, s.Outbox[1].DueAt)
			require.Equal(w, []string{"order-42/placed Applied"}, w.journal(theOrder))
			require.Equal(w, []string{"order-42:reserve-inventory:1", "order-42:inventory-timeout:1"}, s.Journal[0].Emitted)
		}},
		{"goods that are reserved are recorded, and the payment is asked for under a new deadline", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(time.Hour)
			w.expect(workflow.Applied, reserved(theOrder))
			s := w.story(theOrder)
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
			require.Equal(w, []workflow.Effect{{Kind: workflow.Goods, State: workflow.EffectHeld, Ref: "reservation-9001"}}, s.Order.Effects)
			require.Equal(w, []string{
				"reserve-inventory:1 closed", "inventory-timeout:1 closed",
				"capture-payment:1 waiting", "payment-timeout:1 waiting",
			}, w.emitted(theOrder))
			require.Equal(w, w.db.Now().Add(24*time.Hour).Truncate(time.Microsecond), s.DeadlineAt)
			require.Equal(w, s.Since, s.UpdatedAt)
			require.Equal(w, time.Hour, s.Since.Sub(s.CreatedAt))
		}},
		{"a captured payment has the goods shipped, and cancels its deadline in the same commit", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			require.Equal(w, []string{
				"reserve-inventory:1 closed", "inventory-timeout:1 closed", "capture-payment:1 closed", "payment-timeout:1 closed",
				"ship-order:1 waiting", "shipment-timeout:1 waiting",
			}, w.emitted(theOrder))
			require.Equal(w, w.db.Now().Add(7*24*time.Hour).Truncate(time.Microsecond), w.story(theOrder).DeadlineAt)
		}},
		{"a confirmed shipment completes the order, and nothing is left to do", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			d := w.expect(workflow.Applied, shipped(theOrder))
			require.Nil(w, d.Command)
			require.Equal(w, "Completed 4", w.stands(theOrder))
			require.Zero(w, w.story(theOrder).DeadlineAt)
			pending, err := w.Pending(w.Context())
			require.NoError(w, err)
			require.Zero(w, pending)
			for _, row := range w.emitted(theOrder) {
				require.NotContains(w, row, "waiting")
			}
		}},
		{"a failed payment gives the goods back, and then the order is cancelled", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), sorry(theOrder, workflow.PaymentFailed))
			require.Equal(w, "Compensating 3", w.stands(theOrder))
			require.Equal(w, []string{"release-inventory:1 waiting", "compensation-timeout:1 waiting"}, w.emitted(theOrder)[4:])
			w.takes(released(theOrder))
			require.Equal(w, "Cancelled 4", w.stands(theOrder))
			require.Equal(w, []string{"release-inventory:1 closed", "compensation-timeout:1 closed", "cancel-order:1 waiting"}, w.emitted(theOrder)[4:])
		}},
		{"goods that cannot be had cancel the order, and nothing is given back", func(w *world) {
			w.takes(placed(theOrder), sorry(theOrder, workflow.InventoryRejected))
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
			require.Equal(w, []string{"reserve-inventory:1 closed", "inventory-timeout:1 closed", "cancel-order:1 waiting"}, w.emitted(theOrder))
		}},
		{"a failed shipment refunds first, then releases, then tells the customer, each once", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			for _, next := range []struct {
				hears workflow.Message
				sends string
			}{
				{sorry(theOrder, workflow.ShipmentFailed), "refund-payment:1"},
				{refunded(theOrder), "release-inventory:1"},
				{released(theOrder), "cancel-order:1"},
			} {
				d := w.expect(workflow.Applied, next.hears)
				require.Equal(w, theOrder+":"+next.sends, d.Command.ID)
				w.expect(workflow.Duplicate, next.hears)
			}
			require.Equal(w, "Cancelled 6", w.stands(theOrder))
			require.Len(w, w.story(theOrder).Outbox, 11)
		}},
		{"a late reservation is released, and no payment is asked for", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24 * time.Hour)
			w.takes(expired(theOrder, "inventory-timeout:1"))
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
			d := w.expect(workflow.Applied, reserved(theOrder))
			require.Equal(w, "order-42:release-inventory:1", d.Command.ID)
			w.takes(released(theOrder))
			require.Equal(w, "Cancelled 4", w.stands(theOrder))
			require.NotContains(w, strings.Join(w.emitted(theOrder), " "), "capture-payment")
		}},
		{"while an order is backed out, nothing sends it forward or undoes it twice", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), sorry(theOrder, workflow.PaymentFailed))
			w.expect(workflow.Stale, as(reserved(theOrder), "again"))
			w.expect(workflow.Stale, sorry(theOrder, workflow.CancellationRequested))
			w.expect(workflow.Stale, as(placed(theOrder), "placed again"))
			require.Equal(w, "Compensating 3", w.stands(theOrder))
			require.Len(w, w.story(theOrder).Outbox, 6)
		}},
		{"a failed refund waits for a person, and the order is not cancelled", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder), sorry(theOrder, workflow.ShipmentFailed))
			w.takes(said(theOrder, "refund failed", workflow.PaymentRefundFailed,
				`"paymentId":"payment-1","commandId":"order-42:refund-payment:1","reason":"card closed"`))
			require.Equal(w, "NeedsAttention 5", w.stands(theOrder))
			retry := said(theOrder, workflow.ActionID(theOrder, workflow.Retry, 5), workflow.Retry, `"version":5,"reason":"asked the bank"`)
			require.Equal(w, "order-42:refund-payment:2", w.takes(retry).Command.ID)
			w.expect(workflow.Duplicate, retry)
			require.NotContains(w, strings.Join(w.emitted(theOrder), " "), "release-inventory")
		}},
		{"the whole flow replayed into an empty database gives the same IDs, order and bodies", func(w *world) {
			tell := func(s *store.Store) (told []string) {
				for _, m := range []workflow.Message{
					placed(theOrder), captured(theOrder), reserved(theOrder), sorry(theOrder, workflow.ShipmentFailed),
					refunded(theOrder), released(theOrder),
				} {
					_, err := s.Handle(w.Context(), m)
					require.NoError(w, err)
				}
				story, err := s.Story(w.Context(), theOrder)
				require.NoError(w, err)
				for _, d := range story.Outbox {
					if d.Purpose != "" {
						d.Body = nil // it says when it is due
					}
					told = append(told, fmt.Sprint(d.ID, d.Type, d.State, d.Conversation, d.ParentID, d.OriginID, string(d.Body)))
				}
				for _, e := range story.Journal {
					told = append(told, fmt.Sprint(e.MessageID, e.Type, e.Outcome, e.Reason, e.From, e.To, e.Version, e.Emitted))
				}
				return told
			}
			first := tell(w.Store)
			w.tamper("DELETE FROM orders")
			w.tamper("DELETE FROM journal")
			w.tamper("DELETE FROM outbox")
			w.db.Pass(400 * time.Hour)
			require.Equal(w, first, tell(w.Store))
		}},
		{"a message that its status does not expect changes nothing, and the next one works", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			before := w.story(theOrder)
			d := w.expect(workflow.Rejected, sorry(theOrder, workflow.InventoryRejected))
			require.Contains(w, d.Reason, "is not expected while the order is AwaitingPayment")
			after := w.story(theOrder)
			require.Equal(w, before.Order, after.Order)
			require.Equal(w, before.Outbox, after.Outbox)
			require.Equal(w, before.Journal, after.Journal, "it does not occupy its MessageId")
			require.Len(w, after.Rejected, 1)
			require.Equal(w, before.Revision+1, after.Revision, "every decision about an order moves its revision")
			w.expect(workflow.Applied, captured(theOrder))
		}},
	}
}
