package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// fires has an operator fire a deadline of an order.
func (w *world) fires(outcome workflow.Outcome, order, deadline string) workflow.Decision {
	w.Helper()
	d, err := w.FireDeadline(w.Context(), workflow.Action{OrderID: order, Target: order + ":" + deadline, Reason: "they closed", Actor: "ada"})
	require.NoError(w, err)
	require.Equal(w, outcome, d.Outcome, d.Reason)
	return d
}

// delivered is a deadline as the broker delivers it, with the body that its row
// gives it.
func (w *world) delivered(order, deadline string) workflow.Message {
	w.Helper()
	id := order + ":" + deadline
	for _, d := range w.story(order).Outbox {
		if d.ID == id {
			m, err := workflow.Envelope{ID: d.ID, Type: d.Type, OrderID: order, Conversation: d.Conversation, ParentID: d.ParentID, OriginID: d.OriginID, Body: d.Body}.Decode()
			require.NoError(w, err)
			return m
		}
	}
	require.Fail(w, "no such deadline", id)
	return workflow.Message{}
}

func firing() []scenario {
	return []scenario{
		{"a deadline that a person fires moves its order as if it were due, at once", func(w *world) {
			w.takes(placed(theOrder))
			before := w.story(theOrder)
			d := w.fires(workflow.Applied, theOrder, "inventory-timeout:1")
			require.Equal(w, []any{workflow.AwaitingInventory, workflow.Cancelled, int64(2)}, []any{d.From, d.To, d.Version})
			require.Equal(w, "fired by ada: they closed; the warehouse did not answer in time", d.Reason)
			require.Equal(w, "order-42:cancel-order:1", d.Command.ID)
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
			require.Equal(w, []string{"reserve-inventory:1 closed", "inventory-timeout:1 closed", "cancel-order:1 waiting"}, w.emitted(theOrder))
			s := w.story(theOrder)
			require.Equal(w, before.Revision+1, s.Revision, "one commit")
			require.True(w, s.DeadlineAt.IsZero())
		}},
		{"the journal shows who fired it and why, and then the deadline that it caused", func(w *world) {
			w.takes(placed(theOrder))
			w.fires(workflow.Applied, theOrder, "inventory-timeout:1")
			now := w.db.Now().Truncate(time.Microsecond)
			require.Equal(w, []workflow.Entry{
				{
					At: now, MessageID: "order-42:fire-deadline:1", Type: "FireDeadline", ParentID: "order-42:inventory-timeout:1", Outcome: workflow.Applied,
					Reason: "fired by ada: they closed", From: workflow.AwaitingInventory, To: workflow.AwaitingInventory, Version: 1, Emitted: []string{},
				},
				{
					At: now, MessageID: "order-42:inventory-timeout:1", Type: workflow.InventoryDeadlineExpired, ParentID: "order-42:fire-deadline:1", Outcome: workflow.Applied,
					Reason: "the warehouse did not answer in time", From: workflow.AwaitingInventory, To: workflow.Cancelled, Version: 2, Emitted: []string{"order-42:cancel-order:1"},
				},
			}, w.story(theOrder).Journal[1:])
			require.Equal(w, "order-42:inventory-timeout:1", w.story(theOrder).Outbox[2].ParentID)
			action := "FROM journal WHERE message_id = 'order-42:fire-deadline:1'"
			require.JSONEq(w, `{"orderId":"order-42","messageId":"order-42:inventory-timeout:1","reason":"they closed","actor":"ada"}`, w.text("SELECT body "+action))
			require.Equal(w, "conv-7", w.text("SELECT conversation "+action))
			require.Equal(w, "orders:order-placed:42", w.text("SELECT origin_id "+action))
			require.Equal(w, []string{"conv-7", "orders:order-placed:42"}, []string{
				w.text("SELECT conversation FROM journal WHERE message_id = 'order-42:inventory-timeout:1'"), w.story(theOrder).Outbox[2].OriginID,
			})
		}},
		{"the broker's copy of a fired deadline is a duplicate, whenever it comes", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			copied := w.delivered(theOrder, "payment-timeout:1")
			w.fires(workflow.Applied, theOrder, "payment-timeout:1")
			require.Equal(w, "Compensating 3", w.stands(theOrder))
			w.changesNothing(func() { w.expect(workflow.Duplicate, copied) })
			w.db.Pass(48 * time.Hour)
			w.changesNothing(func() { w.expect(workflow.Duplicate, w.delivered(theOrder, "payment-timeout:1")) })
			require.Empty(w, w.wants("t", workflow.Want{Deadlines: true}, 100)[1:], "of the deadlines the next one is to be sent, and not that one")
		}},
		{"a fired deadline that the broker holds is cancelled there", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24*time.Hour - time.Minute)
			w.handsOver(theOrder, 7)
			w.fires(workflow.Applied, theOrder, "inventory-timeout:1")
			require.Equal(w, []workflow.Recall{{OrderID: theOrder, Seq: 1001, Sequence: 7}}, w.recalls())
			w.db.Pass(2 * time.Minute)
			w.changesNothing(func() { w.expect(workflow.Duplicate, w.delivered(theOrder, "inventory-timeout:1")) })
		}},
		{"a deadline that is due and was lost can be fired too", func(w *world) {
			w.lost(theOrder)
			w.db.Pass(time.Hour)
			w.fires(workflow.Applied, theOrder, "inventory-timeout:1")
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
			require.Zero(w, w.backlog().Overdue)
			require.Equal(w, workflow.Swept{}, w.sweeps(), "it is not sent again")
		}},
		{"early messages are taken up with a fired deadline, behind it", func(w *world) {
			w.takes(placed(theOrder), captured(theOrder), sorry(theOrder, workflow.ShipmentFailed))
			w.fires(workflow.Applied, theOrder, "inventory-timeout:1")
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42:fire-deadline:3 Applied", "order-42:inventory-timeout:1 Applied",
				"order-42/captured Applied", "order-42/ShipmentFailed Stale",
			}, w.journal(theOrder))
			require.Equal(w, "Compensating 3", w.stands(theOrder))
			require.Empty(w, w.story(theOrder).Held)
			require.Equal(w, "order-42/captured", w.story(theOrder).Outbox[3].ParentID)
		}},
		{"every deadline of the process can be fired while it is armed", func(w *world) {
			for order, c := range map[string]struct {
				says     []workflow.Message
				deadline string
				stands   string
			}{
				"a": {[]workflow.Message{placed("a")}, "inventory-timeout:1", "Cancelled 2"},
				"b": {[]workflow.Message{placed("b"), reserved("b")}, "payment-timeout:1", "Compensating 3"},
				"c": {[]workflow.Message{placed("c"), reserved("c"), captured("c")}, "shipment-timeout:1", "NeedsAttention 4"},
				"d": {[]workflow.Message{placed("d"), reserved("d"), sorry("d", workflow.PaymentFailed)}, "compensation-timeout:1", "NeedsAttention 4"},
			} {
				w.takes(c.says...)
				w.fires(workflow.Applied, order, c.deadline)
				require.Equal(w, c.stands, w.stands(order))
			}
		}},
		{"it is refused, and nothing changes, when none is armed, another is, or the order is not known", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			w.ends(w.Store, "ended")
			w.changesNothing(func() {
				require.Contains(w, w.fires(workflow.Rejected, theOrder, "inventory-timeout:1").Reason, "armed is order-42:payment-timeout:1, not that deadline")
				require.Contains(w, w.fires(workflow.Rejected, theOrder, "payment-timeout:2").Reason, "armed is")
				require.Contains(w, w.fires(workflow.Rejected, theOrder, "capture-payment:1").Reason, "armed is")
				require.Equal(w, "no deadline is armed", w.fires(workflow.Rejected, "ended", "shipment-timeout:1").Reason)
				require.Equal(w, "no deadline is armed", w.fires(workflow.Rejected, "unknown", "inventory-timeout:1").Reason)
				for _, a := range []workflow.Action{
					{OrderID: theOrder, Target: "order-42:payment-timeout:1"}, {OrderID: theOrder, Reason: "why"}, {OrderID: "a b", Target: "t", Reason: "why"},
				} {
					d, err := w.FireDeadline(w.Context(), a)
					require.NoError(w, err)
					require.Equal(w, workflow.Rejected, d.Outcome)
					require.NotEmpty(w, d.Reason)
				}
			})
		}},
		{"it is refused while a message blocks the order, or others wait to be handled first", func(w *world) {
			w.takes(placed(theOrder))
			w.broken("order-42/reserved").expect(workflow.Blocked, reserved(theOrder))
			w.changesNothing(func() {
				require.Equal(w, "the order is blocked by order-42/reserved: retry or skip that message first", w.fires(workflow.Rejected, theOrder, "inventory-timeout:1").Reason)
			})
			w.tamper("UPDATE orders SET blocked_by = NULL")
			w.changesNothing(func() {
				require.Contains(w, w.fires(workflow.Rejected, theOrder, "inventory-timeout:1").Reason, "messages wait in the order's line")
			})
		}},
		{"the same action is done once, and a second one finds no deadline", func(w *world) {
			w.takes(placed(theOrder))
			a := workflow.Action{ID: "operator:key-1", OrderID: theOrder, Target: "order-42:inventory-timeout:1", Reason: "they closed", Actor: "ada"}
			for n, want := range []workflow.Outcome{workflow.Applied, workflow.Duplicate, workflow.Duplicate} {
				d, err := w.FireDeadline(w.Context(), a)
				require.NoError(w, err)
				require.Equal(w, want, d.Outcome, "%d: %s", n, d.Reason)
			}
			require.Equal(w, "operator:key-1 Applied", w.journal(theOrder)[1])
			a.Reason = "another"
			d, err := w.FireDeadline(w.Context(), a)
			require.NoError(w, err)
			require.Equal(w, workflow.Rejected, d.Outcome)
			w.fires(workflow.Rejected, theOrder, "inventory-timeout:1")
			require.Len(w, w.story(theOrder).Journal, 3)
		}},
		{"a copy that came before the deadline was armed does not keep it from being fired", func(w *world) {
			w.expect(workflow.Stale, expired(theOrder, "inventory-timeout:1")) // as after the database was put back
			w.takes(placed(theOrder))
			w.fires(workflow.Applied, theOrder, "inventory-timeout:1")
			require.Equal(w, []string{
				"order-42:inventory-timeout:1 Rejected", "order-42/placed Applied", "order-42:fire-deadline:2 Applied", "order-42:inventory-timeout:1 Applied",
			}, w.journal(theOrder))
		}},
		{"if any part of it cannot be written, nothing is", func(w *world) {
			w.takes(placed(theOrder))
			for _, f := range []statement{{"INSERT", "journal"}, {"UPDATE", "orders"}, {"UPDATE", "outbox"}, {"INSERT", "outbox"}} {
				w.changesNothing(func() {
					allow := w.db.Refuse(f.verb, f.table)
					_, err := w.FireDeadline(w.Context(), workflow.Action{OrderID: theOrder, Target: "order-42:inventory-timeout:1", Reason: "why"})
					allow()
					require.ErrorContains(w, err, "order-42:inventory-timeout:1", "%s %s", f.verb, f.table)
				})
			}
			w.fires(workflow.Applied, theOrder, "inventory-timeout:1")
		}},
		{"a deadline that cannot be handled is not fired; an early message that cannot be blocks the order behind it", func(w *world) {
			w.takes(placed(theOrder))
			w.changesNothing(func() {
				d, err := w.broken("order-42:inventory-timeout:1").FireDeadline(w.Context(), workflow.Action{OrderID: theOrder, Target: "order-42:inventory-timeout:1", Reason: "why"})
				require.NoError(w, err)
				require.Equal(w, []any{workflow.Rejected, "it cannot be handled: panic: no luck with order-42:inventory-timeout:1"}, []any{d.Outcome, d.Reason})
			})
			w.takes(captured(theOrder))
			d, err := w.broken("order-42/captured").FireDeadline(w.Context(), workflow.Action{OrderID: theOrder, Target: "order-42:inventory-timeout:1", Reason: "why"})
			require.NoError(w, err)
			require.Equal(w, workflow.Applied, d.Outcome)
			require.Contains(w, d.Trouble, "the order is blocked by order-42/captured")
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
			require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy)
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Equal(w, "Compensating 3", w.stands(theOrder))
		}},
		{"fired by several at once, in two processes, while the message that cancels it comes: one of them is first", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			fired := 0
			for _, order := range orders(40) {
				w.takes(placed(order))
				var wg sync.WaitGroup
				outcomes := make([]workflow.Outcome, 4)
				for i := range outcomes {
					wg.Go(func() {
						d, err := processes[i%2].FireDeadline(w.Context(), workflow.Action{OrderID: order, Target: order + ":inventory-timeout:1", Reason: "why", Actor: fmt.Sprint(i)})
						if err != nil {
							w.Errorf("%s: %v", order, err)
						}
						outcomes[i] = d.Outcome
					})
				}
				wg.Go(func() {
					if _, err := processes[1].Handle(w.Context(), reserved(order)); err != nil {
						w.Errorf("%s: %v", order, err)
					}
				})
				wg.Wait()
				applied := strings.Count(fmt.Sprint(outcomes), string(workflow.Applied))
				require.LessOrEqual(w, applied, 1)
				fired += applied
				if applied == 1 {
					require.Equal(w, "Compensating 3", w.stands(order), "the goods came after the end")
				} else {
					require.Equal(w, "AwaitingPayment 2", w.stands(order))
				}
			}
			w.Logf("fired were %d of 40", fired)
		}},
		{"whoever sends is woken by what a fired deadline left to send", func(w *world) {
			wakes := 0
			s := w.open(store.Options{Wake: func() { wakes++ }})
			w.takes(placed(theOrder))
			_, err := s.FireDeadline(w.Context(), workflow.Action{OrderID: theOrder, Target: "order-42:inventory-timeout:1", Reason: "why"})
			require.NoError(w, err)
			require.Equal(w, 1, wakes)
		}},
	}
}
