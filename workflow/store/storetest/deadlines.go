package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func deadlines() []scenario {
	return []scenario{
		{"a deadline is handed over shortly before it is due, not earlier, and says when it is due", func(w *world) {
			w.takes(placed(theOrder))
			due := w.story(theOrder).DeadlineAt
			var bus broker
			w.drain(&bus)
			w.db.Pass(24*time.Hour - 2*time.Minute - time.Second)
			require.Zero(w, w.drain(&bus))
			w.db.Pass(time.Second)
			require.Equal(w, 1, w.drain(&bus))
			sent := bus.sent[1]
			require.Equal(w, "order-42:inventory-timeout:1", sent.ID)
			require.Equal(w, workflow.InventoryDeadlineExpired, sent.Type)
			require.Equal(w, workflow.InventoryTimeout, sent.Purpose)
			require.Equal(w, due, sent.DueAt)
			var body struct {
				OrderID, TimeoutID string
				DueAt              time.Time
			}
			require.NoError(w, json.Unmarshal(sent.Body, &body))
			require.Equal(w, theOrder, body.OrderID)
			require.Equal(w, sent.ID, body.TimeoutID)
			require.Equal(w, due, body.DueAt)
			m, err := workflow.Envelope{ID: sent.ID, Type: sent.Type, OrderID: sent.OrderID, Body: sent.Body}.Decode()
			require.NoError(w, err, "it is a sound message to the order itself")
			w.db.Pass(2 * time.Minute)
			w.expect(workflow.Applied, m)
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
		}},
		{"how long deadlines are, and how long before they are handed over, can be set", func(w *world) {
			s := w.open(store.Options{
				Deadlines: map[workflow.Purpose]time.Duration{workflow.InventoryTimeout: time.Hour}, SendAhead: 10 * time.Minute,
			})
			_, err := s.Handle(w.Context(), placed(theOrder))
			require.NoError(w, err)
			require.Equal(w, w.db.Now().Add(time.Hour).Truncate(time.Microsecond), w.story(theOrder).DeadlineAt)
			var bus broker
			w.drain(&bus)
			w.db.Pass(50 * time.Minute)
			require.Equal(w, 1, w.drain(&bus))
		}},
		{"a deadline that became due while nothing ran is sent from the database alone", func(w *world) {
			w.takes(placed(theOrder))
			require.NoError(w, w.Close())
			w.db.Pass(40 * 24 * time.Hour)
			w.Store = w.open(store.Options{})
			var bus broker
			w.drain(&bus)
			require.Equal(w, []string{"inventory-timeout:1", "reserve-inventory:1"}, sorted(bus.ids(theOrder)))
		}},
		{"the armed deadline backs the order out once, and its copies are stale", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			w.db.Pass(24 * time.Hour)
			w.expect(workflow.Applied, expired(theOrder, "payment-timeout:1"))
			require.Equal(w, "Compensating 3", w.stands(theOrder))
			w.expect(workflow.Stale, as(expired(theOrder, "payment-timeout:1"), "copy"))
			w.expect(workflow.Duplicate, expired(theOrder, "payment-timeout:1"))
			require.Len(w, w.story(theOrder).Outbox, 6)
		}},
		{"after the end a deadline is stale", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder), shipped(theOrder))
			w.expect(workflow.Stale, expired(theOrder, "shipment-timeout:1"))
			require.Equal(w, "Completed 4", w.stands(theOrder))
		}},
		{"the first generation is stale once the second is armed, and the second works", func(w *world) {
			w.takes(placed(theOrder))
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1")) // not due: armed again
			w.db.Pass(24 * time.Hour)
			w.expect(workflow.Stale, as(expired(theOrder, "inventory-timeout:1"), "copy"))
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:2"))
			require.Equal(w, workflow.Cancelled, w.story(theOrder).Order.Status)
		}},
		{"a deadline that was heard of before it was armed is heard once it is armed", func(w *world) {
			stray := expired(theOrder, "inventory-timeout:1") // as after the database was put back to an earlier state
			w.expect(workflow.Stale, stray)
			w.takes(placed(theOrder))
			armed := stray.Envelope // as its row says it
			armed.Body = workflow.DeadlineBody(theOrder, stray.ID, w.story(theOrder).DeadlineAt)
			real, err := armed.Decode()
			require.NoError(w, err)
			w.db.Pass(24 * time.Hour)
			w.expect(workflow.Applied, real)
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
			w.expect(workflow.Duplicate, real)
			require.Equal(w, []string{
				stray.ID + " Rejected", "order-42/placed Applied", stray.ID + " Applied",
			}, w.journal(theOrder), "the stray one stays in the trail and gives up its ID")
		}},
		{"a deadline that comes before it is due is armed again for the same time", func(w *world) {
			w.takes(placed(theOrder))
			due := w.story(theOrder).DeadlineAt
			w.db.Pass(23 * time.Hour)
			d := w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1"))
			require.Equal(w, []workflow.Status{workflow.AwaitingInventory, workflow.AwaitingInventory}, []workflow.Status{d.From, d.To})
			require.Equal(w, []string{"reserve-inventory:1 waiting", "inventory-timeout:1 closed", "inventory-timeout:2 waiting"}, w.emitted(theOrder))
			require.Equal(w, due, w.story(theOrder).DeadlineAt)
			require.Equal(w, due, w.story(theOrder).Outbox[2].DueAt)
			w.expect(workflow.Duplicate, expired(theOrder, "inventory-timeout:1"))
			w.db.Pass(time.Hour)
			var bus broker
			w.drain(&bus)
			require.Contains(w, bus.ids(theOrder), "inventory-timeout:2")
			require.NotContains(w, bus.ids(theOrder), "inventory-timeout:1")
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:2"))
			require.Equal(w, "Cancelled 3", w.stands(theOrder))
		}},
		{"what a deadline says of itself does not make it due", func(w *world) {
			w.takes(placed(theOrder))
			liar := expired(theOrder, "inventory-timeout:1") // it says it was due long ago
			require.True(w, liar.Facts.DueAt.Before(w.db.Now()))
			w.expect(workflow.Applied, liar)
			require.Equal(w, "AwaitingInventory 2", w.stands(theOrder))
		}},
		{"a deadline is due to the microsecond by the database's clock", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24*time.Hour - time.Microsecond)
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1"))
			require.Equal(w, workflow.AwaitingInventory, w.story(theOrder).Order.Status)
			w.db.Pass(time.Microsecond)
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:2"))
			require.Equal(w, workflow.Cancelled, w.story(theOrder).Order.Status)
		}},
		{"the deadline first and then the payment: one refund, at once, and never revived", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			w.db.Pass(24 * time.Hour)
			w.takes(expired(theOrder, "payment-timeout:1"))
			d := w.expect(workflow.Applied, captured(theOrder))
			require.Equal(w, "order-42:refund-payment:1", d.Command.ID, "although a release is in flight")
			require.Equal(w, "Compensating 4", w.stands(theOrder))
			require.Equal(w, []string{
				"release-inventory:1 waiting", "compensation-timeout:1 closed", "refund-payment:1 waiting", "compensation-timeout:2 waiting",
			}, w.emitted(theOrder)[4:])
		}},
		{"of a purpose there is never more than one armed deadline", func(w *world) {
			w.takes(placed(theOrder))
			for n := 1; n <= 5; n++ {
				w.takes(expired(theOrder, fmt.Sprint("inventory-timeout:", n)))
				require.Equal(w, 1, w.count("outbox WHERE purpose IS NOT NULL AND state <> 'closed'"))
			}
			_, err := w.db.SQL.ExecContext(w.Context(), "UPDATE outbox SET state = 'waiting' WHERE message_id = 'order-42:inventory-timeout:1'")
			require.Error(w, err, "the database itself does not allow it")
		}},
		{"a deadline that was cancelled before it was handed over is never sent", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder), shipped(theOrder))
			w.db.Pass(30 * 24 * time.Hour)
			require.Zero(w, w.drain(&broker{}))
		}},
		{"a deadline that was cancelled while it was handed over stays cancelled, with the broker's number", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			w.db.Pass(24 * time.Hour)
			claimed, ids := w.claim("sender", time.Minute)
			require.Equal(w, []string{"order-42:inventory-timeout:1"}, ids)
			w.takes(reserved(theOrder))
			w.mark("sender", claimed, workflow.Mark{Sent: true, Sequence: 77})
			require.Equal(w, "inventory-timeout:1 closed", w.emitted(theOrder)[1])
			require.Equal(w, 77, w.number("SELECT broker_sequence FROM outbox WHERE message_id = 'order-42:inventory-timeout:1'"))
			w.expect(workflow.Stale, expired(theOrder, "inventory-timeout:1"))
		}},
		{"a deadline that was sent already is cancelled too", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24 * time.Hour)
			w.drain(&broker{})
			require.Equal(w, []string{"reserve-inventory:1 sent", "inventory-timeout:1 sent"}, w.emitted(theOrder))
			w.takes(reserved(theOrder))
			require.Equal(w, []string{"reserve-inventory:1 sent", "inventory-timeout:1 closed"}, w.emitted(theOrder)[:2])
			require.Zero(w, w.drain(&broker{refuse: func(m workflow.Outgoing) error {
				if m.Purpose != "" {
					w.Errorf("%s was sent", m.ID)
				}
				return errRefused
			}}))
		}},
		{"a command is not held back by a deadline ahead, nor a deadline by a stuck command", func(w *world) {
			w.takes(placed(theOrder))
			bus := broker{refuse: func(m workflow.Outgoing) error {
				if m.Purpose == "" {
					return errRefused
				}
				return nil
			}}
			w.drain(&bus)
			w.db.Pass(24 * time.Hour)
			w.drain(&bus)
			require.Equal(w, []string{"inventory-timeout:1"}, bus.ids(theOrder))
			bus.refuse = nil
			w.takes(placed("order-43"))
			w.drain(&bus)
			require.Equal(w, []string{"reserve-inventory:1"}, bus.ids("order-43"))
		}},
		{"a deadline row that cannot be sent is tried for ever", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			w.db.Pass(24 * time.Hour)
			down := broker{refuse: func(workflow.Outgoing) error { return workflow.ErrMessageRefused }}
			for range 15 {
				w.drain(&down)
				w.db.Pass(time.Hour)
			}
			require.Equal(w, 15, w.story(theOrder).Outbox[1].Attempts)
			require.Equal(w, 1, w.drain(&broker{}))
		}},
	}
}
