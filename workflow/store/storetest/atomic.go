package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// statement is one of those that a transition may consist of.
type statement struct{ verb, table string }

func allOrNothing() []scenario {
	return []scenario{
		{"a transition that fails at any statement leaves no row of any kind", func(w *world) {
			for _, c := range []struct {
				name  string
				given []workflow.Message
				then  workflow.Message
				fails []statement
			}{
				{"an order begins", nil, placed(theOrder), []statement{{"INSERT", "orders"}, {"INSERT", "journal"}, {"INSERT", "outbox"}}},
				{
					"a step is taken", []workflow.Message{placed(theOrder)}, reserved(theOrder),
					[]statement{{"UPDATE", "orders"}, {"INSERT", "journal"}, {"UPDATE", "outbox"}, {"INSERT", "outbox"}},
				},
				{
					"a held message is taken up", []workflow.Message{placed(theOrder), captured(theOrder)}, reserved(theOrder),
					[]statement{{"UPDATE", "orders"}, {"INSERT", "journal"}, {"UPDATE", "journal"}, {"UPDATE", "outbox"}, {"INSERT", "outbox"}},
				},
				{
					"a held message is refused when it is taken up",
					[]workflow.Message{placed(theOrder), reserved(theOrder), shipped(theOrder), as(sorry(theOrder, workflow.ShipmentFailed), "not")},
					captured(theOrder), []statement{{"UPDATE", "journal"}, {"INSERT", "rejected"}, {"INSERT", "outbox"}},
				},
				{"a message is held", nil, captured(theOrder), []statement{{"INSERT", "orders"}, {"INSERT", "journal"}}},
				{"a message is stale", []workflow.Message{placed(theOrder)}, as(placed(theOrder), "again"), []statement{{"UPDATE", "orders"}, {"INSERT", "journal"}}},
				{
					"a message is rejected", []workflow.Message{placed(theOrder)}, unasked(theOrder),
					[]statement{{"INSERT", "rejected"}, {"UPDATE", "orders"}},
				},
			} {
				empty := func() {
					for _, table := range []string{"orders", "journal", "outbox", "rejected"} {
						w.tamper("DELETE FROM " + table)
					}
					w.takes(c.given...)
				}
				empty()
				w.takes(c.then)
				emitted, stands := w.emitted(theOrder), w.stands(theOrder)
				for _, f := range c.fails {
					what := fmt.Sprintf("%s: %s %s", c.name, f.verb, f.table)
					empty()
					before, sent, known := w.everything(), w.rows("outbox", "rejected"), w.rows("orders")
					allow := w.db.Refuse(f.verb, f.table)
					d, err := w.Handle(w.Context(), c.then)
					allow()
					if err != nil { // it could not even be held
						require.Equal(w, before, w.everything(), what)
						w.takes(c.then)
					} else {
						require.Equal(w, workflow.Blocked, d.Outcome, what)
						require.Equal(w, sent, w.rows("outbox", "rejected"), what)
						require.Equal(w, w.count("journal WHERE outcome <> 'Blocked'"), strings.Count(before, "journal "), what)
						if known != "" {
							require.Contains(w, known, "state="+w.text("SELECT state FROM orders"), what)
						}
						w.acts(workflow.Applied, workflow.RetryMessage, c.then.ID)
					}
					require.Equal(w, emitted, w.emitted(theOrder), what)
					require.Equal(w, stands, w.stands(theOrder), what)
				}
			}
		}},
		{"a process that ends at any step, and a redelivery, come to the same end", func(w *world) {
			messages := []workflow.Message{
				captured(theOrder), placed(theOrder), reserved(theOrder), sorry(theOrder, workflow.ShipmentFailed),
				refunded(theOrder), released(theOrder),
			}
			straight := w.emittedAfter("straight", messages)
			for at := range messages {
				for _, written := range []bool{false, true} { // it ends before the commit, or after it and before the reply
					order := fmt.Sprintf("order-%d-%t", at, written)
					emitted := w.emittedAfter(order, messages, func(n int, m workflow.Message) {
						if n != at {
							return
						}
						if written {
							w.takes(m)
						} else {
							allow := w.db.Refuse("INSERT", "journal")
							_, err := w.Handle(w.Context(), m)
							require.Error(w, err)
							allow()
						}
						w.reopen()
					})
					require.Equal(w, straight, emitted)
				}
			}
		}},
		{"with nothing but the database in a new place, orders go on", func(w *world) {
			if w.db.Move == nil {
				w.Skip("there is no other place to move this database to")
			}
			w.takes(placed(theOrder), reserved(theOrder))
			w.takes(captured("order-43"))
			moved := &world{T: w.T, db: w.db.Move()}
			moved.Store = moved.open(store.Options{})
			require.Equal(w, w.story(theOrder), moved.story(theOrder))
			moved.expect(workflow.Duplicate, reserved(theOrder))
			moved.expect(workflow.Applied, captured(theOrder))
			moved.takes(placed("order-43"), reserved("order-43"))
			require.Equal(w, "AwaitingShipment 3", moved.stands("order-43"))
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder), "the old place is untouched")
		}},
		{"a database that is opened again is as it was", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			before := w.everything()
			versions := w.count("goose_db_version")
			w.reopen()
			require.Equal(w, before, w.everything())
			require.Equal(w, versions, w.count("goose_db_version"), "no migration ran twice")
		}},
		{"several processes that open it at once all succeed", func(w *world) {
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					s, err := w.db.Open(store.Options{})
					if err != nil {
						w.Errorf("open: %v", err)
						return
					}
					defer s.Close()
					if _, err := s.List(context.Background()); err != nil {
						w.Errorf("use: %v", err)
					}
				})
			}
			wg.Wait()
		}},
		{"state that a newer program wrote is left alone until that program is back", func(w *world) {
			w.takes(placed(theOrder))
			w.tamper(`UPDATE orders SET state = REPLACE(state, '"schema":1', '"schema":2')`)
			before := w.everything()
			_, err := w.Handle(w.Context(), reserved(theOrder))
			require.ErrorIs(w, err, workflow.ErrTransient)
			require.ErrorContains(w, err, "newer program")
			require.Equal(w, before, w.everything())
			w.expect(workflow.Applied, placed("order-43"))
		}},
		{"state that cannot be read blocks the order, which is shown all the same, and goes on once it is mended", func(w *world) {
			w.takes(placed(theOrder))
			sound := w.text("SELECT state FROM orders")
			w.tamper(`UPDATE orders SET state = '{"schema":1,"order":{"amount":"much"}}'`)
			outbox := w.rows("outbox")
			d := w.expect(workflow.Blocked, reserved(theOrder))
			require.Contains(w, d.Reason, "read the state of order order-42")
			w.expect(workflow.Duplicate, reserved(theOrder))
			w.expect(workflow.Blocked, captured(theOrder))
			require.Equal(w, outbox, w.rows("outbox"))
			s := w.story(theOrder)
			require.Equal(w, workflow.AwaitingInventory, s.Order.Status)
			require.Contains(w, s.Order.Problem, "read the state")
			require.Equal(w, "order-42/reserved", s.BlockedBy)
			orders, err := w.List(w.Context())
			require.NoError(w, err)
			require.Contains(w, orders[0].Problem, "read the state")
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, "order-42/reserved", w.story(theOrder).BlockedBy, "it fails again")
			w.tamper("UPDATE orders SET state = '" + sound + "'")
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
		}},
		{"a status that this program does not know was written by a newer one, and is left alone", func(w *world) {
			w.takes(placed(theOrder))
			w.tamper(`UPDATE orders SET status = 'AwaitingCustoms'`)
			before := w.everything()
			_, err := w.Handle(w.Context(), reserved(theOrder))
			require.ErrorIs(w, err, workflow.ErrTransient)
			require.ErrorContains(w, err, "newer program")
			require.Equal(w, before, w.everything())
		}},
		{"state that holds no order is never taken for an empty one", func(w *world) {
			w.takes(placed(theOrder))
			w.tamper(`UPDATE orders SET state = '{}'`)
			outbox := w.rows("outbox")
			d := w.expect(workflow.Blocked, reserved(theOrder))
			require.Contains(w, d.Reason, "no order")
			require.Equal(w, outbox, w.rows("outbox"), "no payment of nothing is asked for")
		}},
		{"a caller who has given up is told so, and nothing is written", func(w *world) {
			ctx, cancel := context.WithCancel(w.Context())
			cancel()
			_, err := w.Handle(ctx, placed(theOrder))
			require.ErrorIs(w, err, workflow.ErrTransient)
			require.ErrorIs(w, err, context.Canceled)
			require.Zero(w, w.count("orders"))
		}},
		{"after Close nothing more is taken", func(w *world) {
			require.NoError(w, w.Close())
			_, err := w.Handle(w.Context(), placed(theOrder))
			require.ErrorIs(w, err, workflow.ErrTransient)
			require.ErrorIs(w, w.Reject(w.Context(), workflow.Rejection{}), workflow.ErrTransient)
			_, err = w.Claim(w.Context(), "t", everyKind, 1, time.Minute)
			require.Error(w, err)
			require.NoError(w, w.Close(), "closing twice is no harm")
		}},
		{"nothing is known of an order that nobody spoke of", func(w *world) {
			_, err := w.Story(w.Context(), "order-0")
			require.ErrorIs(w, err, workflow.ErrNoOrder)
			orders, err := w.List(w.Context())
			require.NoError(w, err)
			require.Empty(w, orders)
		}},
	}
}

// unasked is an answer to what nobody asked for.
func unasked(order string) workflow.Message {
	return said(order, order+"/unasked", workflow.InventoryReleased, `"reservationId":"reservation-9001"`)
}

// emittedAfter says the same messages to an order and returns what it sent, its
// own name left out. before is called before each.
func (w *world) emittedAfter(order string, messages []workflow.Message, before ...func(int, workflow.Message)) []string {
	w.Helper()
	for n, m := range messages {
		m = said(order, m.ID, m.Type, members(m))
		for _, f := range before {
			f(n, m)
		}
		w.takes(m)
	}
	return append(w.emitted(order), w.stands(order))
}

// members is what a body says besides its order.
func members(m workflow.Message) string {
	body := string(m.Body)
	const prefix = `{"orderId":"order-42",`
	return body[len(prefix) : len(body)-1]
}
