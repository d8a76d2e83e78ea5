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

// sweeps sweeps once and returns what was done.
func (w *world) sweeps() workflow.Swept {
	w.Helper()
	done, err := w.Sweep(w.Context())
	require.NoError(w, err)
	return done
}

// lost brings orders to having a deadline that the broker was given just before
// it was due, and that never came. It is due now.
func (w *world) lost(orders ...string) {
	w.Helper()
	for _, order := range orders {
		w.takes(placed(order))
	}
	claimed, err := w.Claim(w.Context(), "commands", workflow.Want{Commands: true}, 1000, time.Minute)
	require.NoError(w, err)
	w.mark("commands", claimed, workflow.Mark{Sent: true})
	w.db.Pass(24*time.Hour - time.Minute)
	for _, order := range orders {
		w.handsOver(order, 7)
	}
	w.db.Pass(time.Minute)
}

// window is how long after it was due a deadline that was lost is sent again:
// the broker's memory, and some.
const window = 11 * time.Minute

// orders are the names of so many.
func orders(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("order-", i))
	}
	return names
}

func sweeping() []scenario {
	const deadline = "order-42:inventory-timeout:1"
	return []scenario{
		{"a deadline that was lost at the broker is sent again once its ID is forgotten there, under that ID, once per window", func(w *world) {
			w.lost(theOrder)
			first := w.story(theOrder).Outbox[1]
			require.Equal(w, "sent", first.State)
			w.db.Pass(window - time.Microsecond)
			w.changesNothing(func() { require.Equal(w, workflow.Swept{}, w.sweeps()) })
			require.Equal(w, 1, w.backlog().Overdue)
			w.db.Pass(time.Microsecond)
			for n := range 3 {
				require.Equal(w, workflow.Swept{Resent: 1}, w.sweeps())
				require.Equal(w, workflow.Swept{}, w.sweeps(), "it waits to be sent")
				require.Zero(w, w.backlog().Overdue)
				require.Equal(w, 1, w.backlog().Waiting)
				claimed, ids := w.claim(fmt.Sprint("again ", n), time.Minute)
				require.Equal(w, []string{deadline}, ids)
				require.Equal(w, first.Outgoing, claimed[0].Outgoing, "the same message in every way")
				w.mark(fmt.Sprint("again ", n), claimed, workflow.Mark{Sent: true, Sequence: 8})
				w.db.Pass(time.Minute + window - time.Microsecond)
				require.Equal(w, workflow.Swept{}, w.sweeps(), "the broker may still know it")
				w.db.Pass(time.Microsecond)
			}
			d := w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1"))
			require.Equal(w, 47*time.Minute, d.Late)
			require.Equal(w, workflow.Swept{}, w.sweeps(), "it came")
			require.Equal(w, "inventory-timeout:1 closed", w.emitted(theOrder)[1])
			require.Empty(w, w.recalls())
		}},
		{"for how long the broker remembers IDs can be set", func(w *world) {
			w.lost(theOrder)
			s := w.open(store.Options{DuplicateDetection: time.Hour})
			w.db.Pass(time.Hour + time.Minute - time.Microsecond)
			done, err := s.Sweep(w.Context())
			require.NoError(w, err)
			require.Zero(w, done.Resent)
			w.db.Pass(time.Microsecond)
			done, err = s.Sweep(w.Context())
			require.NoError(w, err)
			require.Equal(w, 1, done.Resent)
		}},
		{"a deadline that was handed over late is not taken for lost soon after", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(40 * 24 * time.Hour) // nothing ran
			require.Equal(w, workflow.Swept{}, w.sweeps(), "it was not even sent")
			w.handsOver(theOrder, 7)
			w.db.Pass(window)
			require.Equal(w, workflow.Swept{}, w.sweeps())
			w.db.Pass(time.Minute)
			require.Equal(w, workflow.Swept{Resent: 1}, w.sweeps())
		}},
		{"a deadline that was handed over long before it is due is not taken for lost until it is", func(w *world) {
			s := w.open(store.Options{SendAhead: 6 * time.Hour})
			_, err := s.Handle(w.Context(), placed(theOrder))
			require.NoError(w, err)
			w.db.Pass(18 * time.Hour)
			w.handsOver(theOrder, 7)
			w.db.Pass(6*time.Hour + window - time.Microsecond)
			require.Zero(w, w.sweeps().Resent)
			w.db.Pass(time.Microsecond)
			require.Equal(w, 1, w.sweeps().Resent)
		}},
		{"a deadline is not sent again when it came: handled, cancelled, or held in the line of a blocked order", func(w *world) {
			w.lost("came", "cancelled", "line", "blocked", "gone")
			w.expect(workflow.Applied, expired("came", "inventory-timeout:1"))
			w.takes(reserved("cancelled"))
			b := w.broken("line:inventory-timeout:1", "blocked/reserved", "gone/reserved")
			b.expect(workflow.Blocked, expired("line", "inventory-timeout:1"))
			b.expect(workflow.Blocked, reserved("blocked"))
			b.expect(workflow.Blocked, expired("blocked", "inventory-timeout:1"))
			b.expect(workflow.Blocked, reserved("gone"))
			w.db.Pass(24 * time.Hour)
			require.Equal(w, 1, w.sweeps().Resent)
			require.Equal(w, "inventory-timeout:1 waiting", w.emitted("gone")[1], "although its order is blocked by something else")
			for _, order := range []string{"line", "blocked"} {
				require.Equal(w, "inventory-timeout:1 sent", w.emitted(order)[1])
			}
		}},
		{"two sweeps at once send a lost deadline again once", func(w *world) {
			other := w.open(store.Options{})
			names := orders(20)
			w.lost(names...)
			for round := range 5 {
				w.db.Pass(window + time.Minute)
				var wg sync.WaitGroup
				for _, s := range []*store.Store{w.Store, other, w.Store, other} {
					wg.Go(func() {
						if _, err := s.Sweep(w.Context()); err != nil {
							w.Errorf("sweep: %v", err)
						}
					})
				}
				wg.Wait()
				require.Equal(w, 20, w.count("outbox WHERE purpose IS NOT NULL AND state = 'waiting'"))
				token := fmt.Sprint("round ", round)
				claimed, ids := w.claim(token, time.Minute)
				require.Len(w, ids, 20)
				w.mark(token, claimed, workflow.Mark{Sent: true, Sequence: 9})
			}
		}},
		{"a sweep and the message that cancels a lost deadline at once leave it cancelled", func(w *world) {
			other := w.open(store.Options{})
			names := orders(40)
			w.lost(names...)
			w.db.Pass(window)
			var wg sync.WaitGroup
			wg.Go(func() {
				for range 20 {
					if _, err := other.Sweep(w.Context()); err != nil {
						w.Errorf("sweep: %v", err)
					}
				}
			})
			wg.Go(func() {
				for _, order := range names {
					if _, err := w.Handle(w.Context(), reserved(order)); err != nil {
						w.Errorf("%s: %v", order, err)
					}
				}
			})
			wg.Wait()
			for _, order := range names {
				require.Equal(w, "inventory-timeout:1 closed", w.emitted(order)[1])
			}
			w.db.Pass(time.Hour)
			require.Empty(w, w.wants("t", workflow.Want{Deadlines: true}, 100))
		}},
		{"a sweep that finds more than it does at once says so, and the next one goes on", func(w *world) {
			w.lost(theOrder)
			w.multiply("orders", "order_id, revision, version, status, created_at, since, updated_at, state", 9)
			w.multiply("outbox", `order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent, purpose, due_at,
				state, visible_at, attempts, refusals, deaths, last_error, created_at, body`, 9)
			w.db.Pass(window)
			require.Equal(w, workflow.Swept{Resent: 500, More: true}, w.sweeps())
			require.Equal(w, workflow.Swept{Resent: 12}, w.sweeps())
		}},
		{"whoever sends is woken when deadlines are to be sent again, and only then", func(w *world) {
			wakes := 0
			s := w.open(store.Options{Wake: func() { wakes++ }})
			w.lost(theOrder)
			for n, after := range []time.Duration{0, window, 0} {
				w.db.Pass(after)
				_, err := s.Sweep(w.Context())
				require.NoError(w, err)
				require.Equal(w, []int{0, 1, 1}[n], wakes)
			}
		}},

		{"an early message whose order does not start is rejected after a while and not before, with its bytes and why", func(w *world) {
			early := captured(theOrder)
			early.Delivery = workflow.Delivery{Function: "payment-result", Count: 3}
			w.expect(workflow.Held, early)
			w.db.Pass(24*time.Hour - time.Microsecond)
			w.changesNothing(func() { require.Equal(w, workflow.Swept{}, w.sweeps()) })
			require.Equal(w, 1, w.backlog().Early)
			w.db.Pass(time.Microsecond)
			revision := w.story(theOrder).Revision
			require.Equal(w, workflow.Swept{TooEarly: 1}, w.sweeps())

			s := w.story(theOrder)
			require.Equal(w, revision+1, s.Revision, "one commit")
			require.Equal(w, workflow.NotStarted, s.Order.Status)
			require.Empty(w, s.Held)
			require.Zero(w, w.backlog().Early)
			const reason = "it came before its order, which did not start within 24h0m0s"
			require.Equal(w, []workflow.Refusal{{
				At: w.db.Now().Truncate(time.Microsecond), MessageID: early.ID, Type: workflow.PaymentCaptured, Reason: reason, Times: 1,
			}}, s.Rejected)
			require.Equal(w, string(early.Body), w.text("SELECT body FROM rejected"))
			require.Equal(w, early.Fingerprint, w.text("SELECT fingerprint FROM rejected"))
			require.Equal(w, "payment-result", w.text("SELECT [function] FROM rejected"))
			require.Equal(w, 3, w.number("SELECT delivery_count FROM rejected"))
			require.Equal(w, []any{workflow.Rejected, reason, s.UpdatedAt}, []any{s.Journal[0].Outcome, s.Journal[0].Reason, s.Journal[0].At})
			require.Equal(w, workflow.Swept{}, w.sweeps())

			w.expect(workflow.Held, early) // its ID is free again
			w.takes(placed(theOrder), reserved(theOrder))
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			require.Len(w, w.story(theOrder).Rejected, 1)
		}},
		{"how long an early message is kept for its order can be set", func(w *world) {
			s := w.open(store.Options{EarlyLimit: time.Hour})
			w.takes(captured(theOrder))
			w.db.Pass(time.Hour - time.Microsecond)
			for _, n := range []int{0, 1} {
				done, err := s.Sweep(w.Context())
				require.NoError(w, err)
				require.Equal(w, n, done.TooEarly)
				w.db.Pass(time.Microsecond)
			}
			require.Contains(w, w.story(theOrder).Rejected[0].Reason, "within 1h0m0s")
		}},
		{"of the early messages of an order those that came long ago are given up, each once", func(w *world) {
			w.takes(captured(theOrder), sorry(theOrder, workflow.ShipmentFailed), captured("order-43"))
			w.db.Pass(12 * time.Hour)
			w.takes(shipped(theOrder))
			w.db.Pass(12 * time.Hour)
			before := w.story(theOrder).Revision
			require.Equal(w, workflow.Swept{TooEarly: 3}, w.sweeps())
			s := w.story(theOrder)
			require.Equal(w, before+1, s.Revision, "those of one order in one commit")
			require.Len(w, s.Held, 1)
			require.Equal(w, "order-42/shipped", s.Held[0].ID)
			require.Len(w, s.Rejected, 2)
			require.Len(w, w.story("order-43").Rejected, 1)
			w.db.Pass(12 * time.Hour)
			require.Equal(w, workflow.Swept{TooEarly: 1}, w.sweeps())
			require.Empty(w, w.story(theOrder).Held)
		}},
		{"early messages of an order that started, or that a message blocks, are left", func(w *world) {
			w.takes(captured("started"), placed("started"))
			b := w.broken("blocked/placed")
			b.takes(captured("blocked"))
			b.expect(workflow.Blocked, placed("blocked"))
			w.takes(placed("open"), captured("open"))
			w.db.Pass(23 * time.Hour)
			require.Equal(w, workflow.Swept{}, w.sweeps())
			w.db.Pass(100 * 24 * time.Hour)
			before := w.rows("journal", "rejected")
			require.Zero(w, w.sweeps().TooEarly)
			require.Equal(w, before, w.rows("journal", "rejected"))
			_, err := w.Act(w.Context(), workflow.Action{Kind: workflow.RetryMessage, OrderID: "blocked", Target: "blocked/placed", Reason: "mended"})
			require.NoError(w, err)
			for _, order := range []string{"started", "blocked", "open"} {
				w.expect(workflow.Applied, reserved(order))
				require.Equal(w, "AwaitingShipment 3", w.stands(order))
			}
		}},
		{"an order that starts just when its early message is given up takes it up or finds it rejected, never both, never neither", func(w *world) {
			const rounds = 100
			other := w.open(store.Options{})
			rejected := 0
			for _, order := range orders(rounds) {
				w.expect(workflow.Held, sorry(order, workflow.CancellationRequested))
				w.db.Pass(24 * time.Hour)
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := w.Handle(w.Context(), placed(order)); err != nil {
						w.Errorf("%s: %v", order, err)
					}
				})
				wg.Go(func() {
					if _, err := other.Sweep(w.Context()); err != nil {
						w.Errorf("sweep: %v", err)
					}
				})
				wg.Wait()
				s := w.story(order)
				require.Empty(w, s.Held)
				if len(s.Rejected) == 0 {
					require.Equal(w, "Cancelled 2", w.stands(order))
					require.Equal(w, []string{order + "/placed Applied", order + "/CancellationRequested Applied"}, w.journal(order))
					continue
				}
				rejected++
				require.Len(w, s.Rejected, 1)
				require.Equal(w, "AwaitingInventory 1", w.stands(order))
				require.Equal(w, []string{order + "/CancellationRequested Rejected", order + "/placed Applied"}, w.journal(order))
			}
			w.Logf("%d of %d were rejected", rejected, rounds)
		}},

		{"a step of the sweep that fails is told and keeps no other from its work", func(w *world) {
			w.takes(captured("early"))
			w.ends(w.Store, "old")
			w.db.Pass(30 * 24 * time.Hour)
			w.lost("lost")
			w.db.Pass(window)
			allow := w.db.Refuse("INSERT", "rejected")
			before := w.rows("rejected") + fmt.Sprint(w.story("early"))
			done, err := w.Sweep(w.Context())
			allow()
			require.ErrorContains(w, err, "give up early messages")
			require.Equal(w, workflow.Swept{Resent: 1, Purged: 1}, done)
			require.Equal(w, before, w.rows("rejected")+fmt.Sprint(w.story("early")), "nothing of what failed is left")
			require.Equal(w, workflow.Swept{TooEarly: 1}, w.sweeps())
		}},
		{"what a sweep could not write it does not claim to have done", func(w *world) {
			w.lost(theOrder)
			w.db.Pass(window)
			w.changesNothing(func() {
				allow := w.db.Refuse("UPDATE", "outbox")
				done, err := w.Sweep(w.Context())
				allow()
				require.ErrorContains(w, err, "send lost deadlines again")
				require.Equal(w, workflow.Swept{}, done)
			})
			require.Equal(w, workflow.Swept{Resent: 1}, w.sweeps())
		}},
		{"a sweep that gets nothing done until its deadline is an error, for nobody else would say so", func(w *world) {
			ctx, cancel := context.WithDeadline(w.Context(), time.Unix(1, 0))
			defer cancel()
			swept, err := w.Sweep(ctx)
			require.ErrorIs(w, err, workflow.ErrTransient)
			require.True(w, swept.More)
		}},
		{"a sweep that is told to stop ends without an error, and the next one does the rest", func(w *world) {
			w.takes(captured("early"))
			w.lost(theOrder)
			w.db.Pass(window)
			over, cancel := context.WithCancel(w.Context())
			cancel()
			w.changesNothing(func() {
				done, err := w.Sweep(over)
				require.NoError(w, err)
				require.Equal(w, workflow.Swept{More: true}, done)
			})
			ctx, cancel := context.WithCancel(w.Context())
			s := w.open(store.Options{Wake: cancel}) // in the middle
			done, err := s.Sweep(ctx)
			require.NoError(w, err)
			require.Equal(w, workflow.Swept{Resent: 1, More: true}, done)
			require.Equal(w, workflow.Swept{TooEarly: 1}, w.sweeps())
		}},
	}
}

// multiply doubles the rows of a table so many times, under other names.
func (w *world) multiply(table, columns string, times int) {
	w.Helper()
	for n := range times {
		other := columns
		for _, name := range []string{"order_id", "message_id"} {
			other = strings.Replace(other, name+",", fmt.Sprintf("CONCAT(%s, '%c'),", name, 'a'+n), 1)
		}
		w.tamper("INSERT INTO " + table + " (" + columns + ") SELECT " + other + " FROM " + table)
	}
}
