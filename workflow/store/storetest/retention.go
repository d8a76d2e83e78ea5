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

// month is how long the rows of an order at rest are kept.
const month = 30 * 24 * time.Hour

// ends brings an order to its end, Completed, with everything sent.
func (w *world) ends(s *store.Store, order string) {
	w.Helper()
	for _, m := range []workflow.Message{placed(order), reserved(order), captured(order), shipped(order)} {
		_, err := s.Handle(w.Context(), m)
		require.NoError(w, err)
	}
	w.sends()
}

// cancels brings an order to its other end, with everything sent.
func (w *world) cancels(order string) {
	w.Helper()
	w.takes(placed(order), sorry(order, workflow.CancellationRequested))
	w.sends()
}

// sends has the broker take every command that waits.
func (w *world) sends() {
	w.Helper()
	for n := 0; ; n++ {
		token := fmt.Sprint("all at ", w.db.Now(), " ", n)
		claimed, err := w.Claim(w.Context(), token, workflow.Want{Commands: true}, 1000, time.Minute)
		require.NoError(w, err)
		if len(claimed) == 0 {
			return
		}
		w.mark(token, claimed, workflow.Mark{Sent: true})
	}
}

// kept counts what is kept of an order: its rows in the journal and the outbox.
func (w *world) kept(order string) string {
	w.Helper()
	of := " WHERE order_id = '" + order + "'"
	return fmt.Sprint(w.count("journal"+of), " ", w.count("outbox"+of))
}

func retention() []scenario {
	return []scenario{
		{"an order that ended is purged a while after it was last decided about, and not before; what is recorded of it stays", func(w *world) {
			w.ends(w.Store, theOrder)
			w.cancels("order-43")
			w.takes(placed("waits"))
			w.takes(placed("asks"), reserved("asks"), captured("asks"))
			w.sends()
			w.db.Pass(8 * 24 * time.Hour)
			w.takes(expired("asks", "shipment-timeout:1"))
			require.Equal(w, workflow.NeedsAttention, w.story("asks").Order.Status)
			w.db.Pass(22*24*time.Hour - time.Microsecond)
			require.Zero(w, w.sweeps().Purged)
			require.Equal(w, "4 6", w.kept(theOrder))

			before := w.story(theOrder)
			w.db.Pass(time.Microsecond)
			require.Equal(w, 2, w.sweeps().Purged)
			require.Equal(w, "0 0", w.kept(theOrder))
			require.Equal(w, "0 0", w.kept("order-43"))
			s := w.story(theOrder)
			before.Journal, before.Outbox = nil, nil
			require.Equal(w, before, s, "the order itself is what it was")
			require.NotEmpty(w, s.Order.Effects)
			orders, err := w.List(w.Context())
			require.NoError(w, err)
			require.Len(w, orders, 4)

			w.changesNothing(func() { require.Zero(w, w.sweeps().Purged) })
			w.db.Pass(100 * 24 * time.Hour)
			require.Zero(w, w.sweeps().Purged)
			require.Equal(w, "1 2", w.kept("waits"))
			require.Equal(w, "4 6", w.kept("asks"), "a person has to decide")
		}},
		{"whatever is decided about an order has its rows kept for longer", func(w *world) {
			w.ends(w.Store, theOrder)
			w.db.Pass(month - time.Hour)
			w.expect(workflow.Stale, as(reserved(theOrder), "late"))
			w.expect(workflow.Duplicate, reserved(theOrder)) // which is no decision
			w.db.Pass(month - time.Microsecond)
			require.Zero(w, w.sweeps().Purged)
			require.Equal(w, "5 6", w.kept(theOrder))
			w.db.Pass(time.Microsecond)
			require.Equal(w, 1, w.sweeps().Purged)
		}},
		{"how long rows are kept can be set", func(w *world) {
			s := w.open(store.Options{Retention: time.Hour})
			w.ends(s, theOrder)
			w.db.Pass(time.Hour - time.Microsecond)
			for _, n := range []int{0, 1} {
				done, err := s.Sweep(w.Context())
				require.NoError(w, err)
				require.Equal(w, n, done.Purged)
				w.db.Pass(time.Microsecond)
			}
		}},
		{"nothing is deleted of an order whose commands wait or are dead, until they are sent or discarded", func(w *world) {
			w.takes(placed(theOrder), sorry(theOrder, workflow.CancellationRequested))
			w.db.Pass(month)
			require.Zero(w, w.sweeps().Purged)
			w.dies(theOrder)
			w.db.Pass(month)
			require.Zero(w, w.sweeps().Purged)
			require.Equal(w, "3 3", w.kept(theOrder))
			w.acts(workflow.Applied, workflow.SendAgain, "order-42:cancel-order:1")
			w.db.Pass(month)
			require.Zero(w, w.sweeps().Purged)
			w.dies(theOrder)
			w.acts(workflow.Applied, workflow.DiscardCommand, "order-42:cancel-order:1")
			w.db.Pass(month - time.Microsecond)
			require.Zero(w, w.sweeps().Purged)
			w.db.Pass(time.Microsecond)
			require.Equal(w, 1, w.sweeps().Purged)
			require.Equal(w, "0 0", w.kept(theOrder))
		}},
		{"nothing is deleted of an order while a deadline of it is to be taken back from the broker", func(w *world) {
			s := w.open(store.Options{Retention: time.Minute})
			w.takes(placed(theOrder))
			w.db.Pass(24*time.Hour - 90*time.Second)
			w.handsOver(theOrder, 7)
			w.takes(sorry(theOrder, workflow.CancellationRequested))
			w.sends()
			require.Len(w, w.recalls(), 1)
			for n, after := range []time.Duration{time.Minute, 30 * time.Second} {
				w.db.Pass(after)
				done, err := s.Sweep(w.Context())
				require.NoError(w, err)
				require.Equal(w, n, done.Purged)
			}
		}},
		{"nothing is deleted of an order of which a message is held or waits in the line", func(w *world) {
			for _, order := range []string{"held", "line"} {
				w.ends(w.Store, order)
			}
			w.tamper("UPDATE journal SET outcome = 'Held' WHERE message_id = 'held/captured'")
			w.broken("late").expect(workflow.Blocked, as(placed("line"), "late"))
			w.db.Pass(month)
			require.Equal(w, workflow.Swept{}, w.sweeps())
			require.Equal(w, "4 6", w.kept("held"))
			require.Equal(w, "5 6", w.kept("line"))
			w.tamper("UPDATE journal SET outcome = 'Applied' WHERE message_id = 'held/captured'")
			_, err := w.Act(w.Context(), workflow.Action{Kind: workflow.SkipMessage, OrderID: "line", Target: "late", Reason: "as agreed"})
			require.NoError(w, err)
			require.Equal(w, 1, w.sweeps().Purged)
			w.db.Pass(month)
			require.Equal(w, 1, w.sweeps().Purged)
			require.Equal(w, "0 0", w.kept("line"))
		}},
		{"after the purge an order cannot start again: the same is stale, other content a conflict", func(w *world) {
			w.ends(w.Store, theOrder)
			w.cancels("order-43")
			w.db.Pass(month)
			require.Equal(w, 2, w.sweeps().Purged)
			before := w.stands(theOrder)
			w.expect(workflow.Stale, placed(theOrder)) // even under the ID that was handled then
			w.expect(workflow.Stale, as(placed(theOrder), "copy"))
			for _, m := range []workflow.Message{reserved(theOrder), captured(theOrder), shipped(theOrder), expired(theOrder, "shipment-timeout:1")} {
				w.expect(workflow.Stale, m)
			}
			other := said(theOrder, "other", workflow.OrderPlaced, `"customerId":"customer-9","currency":"EUR","amount":1,"lines":[{"sku":"sku-1","quantity":2}]`)
			d := w.expect(workflow.Rejected, other)
			require.Contains(w, d.Reason, "conflict: amount")
			other.ID = theOrder + "/placed"
			require.Equal(w, workflow.Rejected, w.takes(other).Outcome)
			require.Equal(w, before, w.stands(theOrder))
			require.Equal(w, "6 0", w.kept(theOrder))
			w.expect(workflow.Stale, placed("order-43"))
			w.expect(workflow.Stale, sorry("order-43", workflow.CancellationRequested))

			w.db.Pass(month - time.Microsecond)
			require.Zero(w, w.sweeps().Purged)
			w.db.Pass(time.Microsecond)
			require.Equal(w, 2, w.sweeps().Purged, "what came since is purged in its turn")
			require.Equal(w, "0 0", w.kept(theOrder))
			require.Len(w, w.story(theOrder).Rejected, 2, "what was rejected stays")
		}},
		{"goods and money that turn up after the purge are given back, under IDs that are new, and the order ends again", func(w *world) {
			w.cancels(theOrder)
			w.db.Pass(month)
			require.Equal(w, 1, w.sweeps().Purged)
			require.Equal(w, "order-42:release-inventory:1", w.expect(workflow.Applied, reserved(theOrder)).Command.ID)
			require.Equal(w, "order-42:refund-payment:1", w.expect(workflow.Applied, captured(theOrder)).Command.ID)
			require.Equal(w, []string{
				"release-inventory:1 waiting", "compensation-timeout:1 closed", "refund-payment:1 waiting", "compensation-timeout:2 waiting",
			}, w.emitted(theOrder))
			w.db.Pass(month)
			require.Zero(w, w.sweeps().Purged)
			w.takes(refunded(theOrder), released(theOrder))
			require.Equal(w, "Cancelled 6", w.stands(theOrder))
			require.NotContains(w, strings.Join(w.emitted(theOrder), " "), "cancel-order", "that was sent the first time")
			w.db.Pass(month)
			require.Equal(w, 1, w.sweeps().Purged)
			require.Equal(w, "0 0", w.kept(theOrder))
			w.expect(workflow.Stale, captured(theOrder))
			require.Equal(w, "Cancelled 6", w.stands(theOrder))
		}},
		{"a message that blocks an order after the purge, and what a person does about it, are purged in their turn", func(w *world) {
			w.ends(w.Store, theOrder)
			w.db.Pass(month)
			require.Equal(w, 1, w.sweeps().Purged)
			w.broken("late").expect(workflow.Blocked, as(placed(theOrder), "late"))
			w.acts(workflow.Applied, workflow.SkipMessage, "late")
			require.Equal(w, "2 0", w.kept(theOrder))
			w.db.Pass(month - time.Microsecond)
			require.Zero(w, w.sweeps().Purged)
			w.db.Pass(time.Microsecond)
			require.Equal(w, 1, w.sweeps().Purged)
			require.Equal(w, "0 0", w.kept(theOrder))
		}},
		{"an order with more rows than one transaction deletes is purged to its end, and is one order", func(w *world) {
			w.ends(w.Store, theOrder)
			w.ends(w.Store, "order-43")
			w.tamper("UPDATE outbox SET seq = 100000 WHERE message_id = 'order-42:ship-order:1'")
			for n := range 12 { // so many rows that both tables need several transactions, one more than the other
				w.tamper(fmt.Sprintf(`INSERT INTO journal (order_id, revision, place, message_id, message_type, conversation, parent_id, origin_id, schema_version,
					traceparent, fingerprint, outcome, reason, from_status, to_status, version, emitted, [function], delivery_count, received_at, decided_at, body)
					SELECT order_id, revision, place + %d, message_id, message_type, conversation, parent_id, origin_id, schema_version,
					traceparent, fingerprint, 'Rejected', reason, from_status, to_status, version, emitted, [function], delivery_count, received_at, decided_at, body
					FROM journal WHERE order_id = 'order-42' AND revision = 1`, 1<<n))
				w.tamper(fmt.Sprintf(`INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
					state, visible_at, attempts, refusals, deaths, last_error, created_at, body)
					SELECT order_id, seq + %d, CONCAT(message_id, '%c'), message_type, conversation, parent_id, origin_id, traceparent,
					state, visible_at, attempts, refusals, deaths, last_error, created_at, body
					FROM outbox WHERE order_id = 'order-42' AND seq >= 100000`, 1<<n, 'a'+n))
			}
			w.tamper("DELETE FROM journal WHERE order_id = 'order-42' AND place > 2000")
			require.Equal(w, "2004 4101", w.kept(theOrder))
			w.db.Pass(month)
			require.Equal(w, workflow.Swept{Purged: 2}, w.sweeps())
			require.Equal(w, "0 0", w.kept(theOrder))
			require.Equal(w, "0 0", w.kept("order-43"))
			w.changesNothing(func() { require.Equal(w, workflow.Swept{}, w.sweeps()) })
		}},
		{"more orders than are looked at together are purged in one sweep", func(w *world) {
			w.cancels(theOrder)
			w.multiply("orders", "order_id, revision, version, status, created_at, since, updated_at, state", 6)
			w.db.Pass(month)
			require.Equal(w, workflow.Swept{Purged: 64}, w.sweeps())
			require.Zero(w, w.count("journal"))
		}},
		{"a purge that fails leaves an order as it is", func(w *world) {
			w.ends(w.Store, theOrder)
			w.db.Pass(month)
			w.changesNothing(func() {
				allow := w.db.Refuse("UPDATE", "orders")
				_, err := w.Sweep(w.Context())
				allow()
				require.ErrorContains(w, err, "purge orders at rest")
			})
			require.Equal(w, 1, w.sweeps().Purged)
		}},
		{"two processes that sweep while messages come lose nothing of them", func(w *world) {
			const rounds = 60
			other, third := w.open(store.Options{}), w.open(store.Options{})
			names := orders(rounds)
			for _, order := range names {
				w.takes(placed(order), sorry(order, workflow.CancellationRequested))
			}
			w.sends()
			w.takes(unasked("order-0"))
			w.db.Pass(month)
			var wg sync.WaitGroup
			for _, s := range []*store.Store{w.Store, other} {
				wg.Go(func() {
					for range 15 {
						if _, err := s.Sweep(w.Context()); err != nil {
							w.Errorf("sweep: %v", err)
						}
					}
				})
			}
			wg.Go(func() {
				for n, order := range names {
					m := []workflow.Message{captured(order), as(placed(order), "late"), as(sorry(order, workflow.CancellationRequested), "late")}[n%3]
					d, err := third.Handle(w.Context(), m)
					if err != nil {
						w.Errorf("%s: %v", order, err)
					}
					if want := []workflow.Outcome{workflow.Applied, workflow.Stale, workflow.Stale}[n%3]; d.Outcome != want {
						w.Errorf("%s: %s: %s", order, d.Outcome, d.Reason)
					}
				}
			})
			wg.Wait()
			purgedFirst := 0
			for n, order := range names {
				s := w.story(order)
				last := s.Journal[len(s.Journal)-1]
				if len(s.Journal) == 1 {
					purgedFirst++
				}
				if n%3 > 0 {
					require.Equal(w, []string{"late", "Stale"}, []string{last.MessageID, string(last.Outcome)})
					require.Equal(w, "Cancelled 2", w.stands(order))
					continue
				}
				require.Equal(w, order+"/captured", last.MessageID)
				require.Equal(w, "Compensating 3", w.stands(order))
				emitted := w.emitted(order)
				require.Equal(w, []string{"refund-payment:1 waiting", "compensation-timeout:1 waiting"}, emitted[len(emitted)-2:])
			}
			require.Len(w, w.story("order-0").Rejected, 1)
			w.Logf("the purge was first for %d orders of %d", purgedFirst, rounds)
			w.db.Pass(month)
			w.sweeps()
			for n, order := range names {
				if n%3 > 0 {
					require.Equal(w, "0 0", w.kept(order), "what came late is purged in its turn")
				}
			}
		}},
	}
}
