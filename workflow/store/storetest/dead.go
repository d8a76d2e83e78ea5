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

// buries has the owner of a claimed row give it up.
func (w *world) buries(token string, c workflow.Claimed) {
	w.Helper()
	require.NoError(w, w.Bury(w.Context(), token, c, "it is too large"))
}

// dies has the first command of an order refused for good.
func (w *world) dies(order string) {
	w.Helper()
	token := fmt.Sprint("of ", order, " at ", w.story(order).Revision)
	claimed, err := w.Claim(w.Context(), token, workflow.Want{Commands: true}, 100, time.Minute)
	require.NoError(w, err)
	for _, c := range claimed {
		if c.OrderID == order {
			w.buries(token, c)
		} else {
			w.mark(token, []workflow.Claimed{c}, workflow.Mark{GiveBack: true})
		}
	}
	require.Contains(w, strings.Join(w.emitted(order), " "), " dead")
}

// backlog is what is not done.
func (w *world) backlog() workflow.Backlog {
	w.Helper()
	b, err := w.Backlog(w.Context())
	require.NoError(w, err)
	return b
}

func deaths() []scenario {
	const command, death = "order-42:reserve-inventory:1", "order-42:reserve-inventory:1:dead:1"
	return []scenario{
		{"refusals are counted apart from attempts, and can be read with the last error", func(w *world) {
			w.takes(placed(theOrder))
			for n, m := range []workflow.Mark{
				{Error: "refused: quota", Refused: true, RetryAfter: time.Second}, {Error: "down", RetryAfter: time.Second},
				{GiveBack: true}, {Error: "refused: size", Refused: true, RetryAfter: time.Second},
			} {
				token := fmt.Sprint(n)
				claimed, _ := w.claim(token, time.Minute)
				require.Equal(w, []int{1, 2, 3, 3}[n], claimed[0].Attempt)
				require.Equal(w, []int{0, 1, 1, 1}[n], claimed[0].Refusals)
				w.mark(token, claimed, m)
				d := w.story(theOrder).Outbox[0]
				require.Equal(w, []int{1, 1, 1, 2}[n], d.Refusals)
				require.Equal(w, []string{"refused: quota", "down", "down", "refused: size"}[n], d.LastError)
				w.db.Pass(time.Second)
			}
			claimed, _ := w.claim("last", time.Minute)
			w.mark("last", claimed, workflow.Mark{Sent: true})
			d := w.story(theOrder).Outbox[0]
			require.Equal(w, []any{"sent", 4, 2, 0, ""}, []any{d.State, d.Attempts, d.Refusals, d.Deaths, d.LastError})
		}},
		{"a command that is given up is dead, and its order is told in the same commit and waits on", func(w *world) {
			w.takes(placed(theOrder))
			before := w.story(theOrder)
			claimed, _ := w.claim("sender", time.Minute)
			w.db.Pass(30 * time.Second)
			w.buries("sender", claimed[0])

			s := w.story(theOrder)
			require.Equal(w, before.Revision+1, s.Revision, "one commit")
			require.Equal(w, "AwaitingInventory 2", w.stands(theOrder))
			require.Equal(w, command+" could not be sent: it is too large", s.Order.Problem)
			require.Equal(w, before.DeadlineAt, s.DeadlineAt, "the deadline goes on")
			require.Equal(w, before.Since, s.Since)
			require.Equal(w, w.db.Now().Truncate(time.Microsecond), s.UpdatedAt)

			d := s.Outbox[0]
			require.Equal(w, []any{"dead", 1, 1, 1, "it is too large"}, []any{d.State, d.Attempts, d.Refusals, d.Deaths, d.LastError})
			require.Zero(w, d.SentAt)
			require.Zero(w, d.ClosedAt)
			require.Equal(w, "inventory-timeout:1 waiting", w.emitted(theOrder)[1])

			e := s.Journal[1]
			require.Equal(w, workflow.Entry{
				At: s.UpdatedAt, MessageID: death, Type: workflow.DispatchFailed, ParentID: command,
				Outcome: workflow.Applied, Reason: e.Reason, From: workflow.AwaitingInventory, To: workflow.AwaitingInventory, Version: 2, Emitted: []string{},
			}, e)
			require.Contains(w, e.Reason, "it is too large")
			lineage := "FROM journal WHERE message_id = '" + death + "'"
			require.Equal(w, "conv-7", w.text("SELECT conversation "+lineage))
			require.Equal(w, "orders:order-placed:42", w.text("SELECT origin_id "+lineage))
			require.Equal(w, placed(theOrder).TraceParent, w.text("SELECT traceparent "+lineage))

			require.Equal(w, workflow.Backlog{Dead: 1}, w.backlog())
			w.db.Pass(time.Hour)
			_, ids := w.claim("other", time.Minute)
			require.Empty(w, ids, "nobody sends it")
			w.db.Pass(23 * time.Hour)
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1"))
			require.Equal(w, "Cancelled 3", w.stands(theOrder))
		}},
		{"the death of a command is told once: a message that says so again is a duplicate", func(w *world) {
			w.takes(placed(theOrder))
			w.dies(theOrder)
			again := said(theOrder, "other", workflow.DispatchFailed, fmt.Sprintf(`"commandId":%q,"reason":"it is too large"`, command))
			again.ID = death
			w.changesNothing(func() { w.expect(workflow.Duplicate, again) })
		}},
		{"if its order cannot be told, a command does not die", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("sender", time.Minute)
			for _, f := range []statement{{"INSERT", "journal"}, {"UPDATE", "orders"}, {"UPDATE", "outbox"}} {
				w.changesNothing(func() {
					allow := w.db.Refuse(f.verb, f.table)
					err := w.Bury(w.Context(), "sender", claimed[0], "it is too large")
					allow()
					require.ErrorContains(w, err, command, "%s %s", f.verb, f.table)
				})
			}
			w.buries("sender", claimed[0])
			require.Equal(w, "reserve-inventory:1 dead", w.emitted(theOrder)[0])
			require.Equal(w, []string{"order-42/placed Applied", death + " Applied"}, w.journal(theOrder))
		}},
		{"a command that is given up twice at once, in two processes, dies once", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			for n := range 40 {
				order := fmt.Sprint("order-", n)
				w.takes(placed(order))
				claimed, err := w.Claim(w.Context(), order, workflow.Want{Commands: true}, 100, time.Minute)
				require.NoError(w, err)
				require.Len(w, claimed, 1)
				var wg sync.WaitGroup
				for i, s := range processes {
					wg.Go(func() {
						if err := s.Bury(w.Context(), order, claimed[0], []string{"it is too large", "it is too large, I say"}[i*(n%2)]); err != nil {
							w.Errorf("%s: %v", order, err)
						}
					})
				}
				wg.Wait()
				s := w.story(order)
				require.Equal(w, []any{"dead", 1, 1}, []any{s.Outbox[0].State, s.Outbox[0].Deaths, s.Outbox[0].Refusals})
				require.Equal(w, "AwaitingInventory 2", w.stands(order))
				require.Len(w, s.Journal, 2)
				require.Empty(w, s.Rejected, "the second is no message of its own")
			}
			require.Equal(w, 40, w.backlog().Dead)
		}},
		{"a death and a message to its order at once are decided one after the other", func(w *world) {
			other := w.open(store.Options{})
			for n := range 40 {
				order := fmt.Sprint("order-", n)
				w.takes(placed(order))
				claimed, err := w.Claim(w.Context(), order, workflow.Want{Commands: true}, 100, time.Minute)
				require.NoError(w, err)
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := w.Bury(w.Context(), order, claimed[0], "refused"); err != nil {
						w.Errorf("%s: %v", order, err)
					}
				})
				wg.Go(func() {
					if _, err := other.Handle(w.Context(), reserved(order)); err != nil {
						w.Errorf("%s: %v", order, err)
					}
				})
				wg.Wait()
				s := w.story(order)
				require.Equal(w, workflow.AwaitingPayment, s.Order.Status)
				require.Empty(w, s.Order.Problem)
				require.Equal(w, "reserve-inventory:1 closed", w.emitted(order)[0], "whoever came first")
				switch s.Outbox[0].Deaths {
				case 0:
					require.Equal(w, "AwaitingPayment 2", w.stands(order))
					require.Len(w, s.Journal, 2)
				case 1:
					require.Equal(w, "AwaitingPayment 3", w.stands(order))
					require.Equal(w, order+":reserve-inventory:1:dead:1", s.Journal[1].MessageID)
				}
				_, ids := w.claim("after "+order, time.Minute)
				require.Equal(w, []string{order + ":capture-payment:1"}, ids, "nothing is left in anyone's hands")
			}
		}},
		{"a command that is not in its owner's hands any more, or in another's, does not die of it", func(w *world) {
			w.takes(placed(theOrder), placed("order-43"))
			w.db.Pass(24 * time.Hour)
			claimed, _ := w.claim("sender", time.Minute)
			row := of(claimed, command)
			w.changesNothing(func() { w.buries("other", row) })
			w.changesNothing(func() { w.buries("sender", of(claimed, "order-42:inventory-timeout:1")) }) // deadlines never die
			elsewhere := row
			elsewhere.Seq += 500
			w.changesNothing(func() { w.buries("sender", elsewhere) })

			w.mark("sender", []workflow.Claimed{row}, workflow.Mark{Sent: true})
			w.changesNothing(func() { w.buries("sender", row) }) // it was sent
			row = of(claimed, "order-43:reserve-inventory:1")
			w.buries("sender", row)
			w.changesNothing(func() { w.buries("sender", row) }) // it is dead
		}},
		{"a command that nobody wants any more does not die, but lets go of what follows it", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("sender", time.Minute)
			w.takes(sorry(theOrder, workflow.CancellationRequested))
			before := w.rows("orders", "journal", "rejected")
			w.buries("sender", claimed[0])
			require.Equal(w, before, w.rows("orders", "journal", "rejected"), "its order hears nothing")
			d := w.story(theOrder).Outbox[0]
			require.Equal(w, []any{"closed", 0, "it is too large"}, []any{d.State, d.Deaths, d.LastError})
			_, ids := w.claim("next", time.Minute)
			require.Equal(w, []string{"order-42:cancel-order:1"}, ids, "at once, and not when the lease ends")
		}},
		{"a dead command is out of the way of those that follow, and other orders do not notice", func(w *world) {
			w.lineOfThree(theOrder)
			w.lineOfThree("order-43")
			claimed, ids := w.claim("sender", time.Minute)
			require.Equal(w, []string{"order-42:cancel-order:1", "order-43:cancel-order:1"}, sorted(ids))
			w.buries("sender", of(claimed, "order-42:cancel-order:1"))
			claimed, ids = w.claim("next", time.Minute)
			require.Equal(w, []string{"order-42:refund-payment:1"}, ids)
			w.buries("next", claimed[0])
			_, ids = w.claim("third", time.Minute)
			require.Equal(w, []string{"order-42:release-inventory:1"}, ids)
			require.Equal(w, 2, w.backlog().Dead)
			require.Contains(w, w.emitted("order-43"), "cancel-order:1 waiting")
		}},
		{"when its order turns back or goes on all the same, a dead command is closed in that commit", func(w *world) {
			for n, m := range []func(string) workflow.Message{
				func(order string) workflow.Message { return sorry(order, workflow.CancellationRequested) },
				reserved, // it was sent after all, or answered by hand
				func(order string) workflow.Message { return expired(order, "inventory-timeout:1") },
			} {
				order := fmt.Sprint("order-", n)
				w.takes(placed(order))
				w.dies(order)
				if n == 2 {
					w.db.Pass(24 * time.Hour)
				}
				before := w.story(order).Revision
				w.expect(workflow.Applied, m(order))
				s := w.story(order)
				require.Equal(w, before+1, s.Revision)
				require.Equal(w, "closed", s.Outbox[0].State)
				require.Equal(w, s.UpdatedAt, s.Outbox[0].ClosedAt)
				require.Equal(w, 1, s.Outbox[0].Deaths, "that it died can be read")
				require.Empty(w, s.Order.Problem)
			}
			require.Zero(w, w.backlog().Dead)
			w.db.Pass(time.Hour)
			for _, id := range w.wants("t", workflow.Want{Commands: true}, 100) {
				require.NotContains(w, id, "reserve-inventory")
			}
		}},
		{"a command that was discarded was closed then, whatever its order does later", func(w *world) {
			w.takes(placed(theOrder))
			w.dies(theOrder)
			w.acts(workflow.Applied, workflow.DiscardCommand, command)
			discarded := w.story(theOrder).Outbox[0]
			require.Equal(w, []any{"closed", w.db.Now().Truncate(time.Microsecond)}, []any{discarded.State, discarded.ClosedAt})
			w.db.Pass(time.Hour)
			w.takes(sorry(theOrder, workflow.CancellationRequested))
			require.Equal(w, discarded, w.story(theOrder).Outbox[0])
		}},
		{"each death of a command that is sent again has an ID of its own", func(w *world) {
			w.takes(placed(theOrder))
			for n := 1; n <= 3; n++ {
				w.dies(theOrder)
				s := w.story(theOrder)
				require.Equal(w, n, s.Outbox[len(s.Outbox)-1].Deaths+s.Outbox[0].Deaths)
				require.Equal(w, fmt.Sprintf("%s:dead:%d", command, n), s.Journal[len(s.Journal)-1].MessageID)
				require.NotEmpty(w, s.Order.Problem)
				w.acts(workflow.Applied, workflow.SendAgain, command)
				require.Empty(w, w.story(theOrder).Order.Problem)
				require.Zero(w, w.backlog().Dead)
			}
			require.Equal(w, "AwaitingInventory 4", w.stands(theOrder))
			claimed, ids := w.claim("last", time.Minute)
			require.Equal(w, []string{command}, ids)
			require.Zero(w, claimed[0].Refusals, "it begins anew")
		}},
		{"what was sent again is late since then, and not since it was first wanted", func(w *world) {
			w.takes(placed(theOrder))
			w.dies(theOrder)
			w.db.Pass(3 * time.Hour)
			w.acts(workflow.Applied, workflow.SendAgain, command)
			require.Equal(w, workflow.Backlog{Waiting: 1}, w.backlog())
			w.db.Pass(time.Minute)
			require.Equal(w, workflow.Backlog{Waiting: 1, Lag: time.Minute}, w.backlog())
		}},
		{"a command that is not awaited any more may die unnoticed", func(w *world) {
			w.takes(placed(theOrder), sorry(theOrder, workflow.CancellationRequested))
			w.tamper("UPDATE outbox SET state = 'waiting' WHERE message_id = '" + command + "'")
			w.dies(theOrder)
			require.Equal(w, "reserve-inventory:1 dead", w.emitted(theOrder)[0])
			require.Equal(w, death+" Stale", w.journal(theOrder)[2])
			require.Equal(w, "Cancelled 2", w.stands(theOrder), "its version is the same")
			require.Empty(w, w.story(theOrder).Order.Problem)
		}},
		{"the command of an order at its end may die too, and is noted there", func(w *world) {
			w.takes(placed(theOrder), sorry(theOrder, workflow.CancellationRequested))
			w.dies(theOrder)
			require.Equal(w, "Cancelled 3", w.stands(theOrder))
			require.Contains(w, w.story(theOrder).Order.Problem, "order-42:cancel-order:1 could not be sent")
			require.Equal(w, "cancel-order:1 dead", w.emitted(theOrder)[2])
		}},
		{"the death of a command waits in the line of an order that is blocked, in the same commit", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder))
			claimed, _ := w.claim("sender", time.Minute)
			b.expect(workflow.Blocked, reserved(theOrder))
			w.changesNothing(func() {
				allow := w.db.Refuse("INSERT", "journal")
				err := w.Bury(w.Context(), "sender", claimed[0], "it is too large")
				allow()
				require.Error(w, err)
			})
			before := w.story(theOrder)
			w.buries("sender", claimed[0])
			s := w.story(theOrder)
			require.Equal(w, before.Revision+1, s.Revision)
			require.Equal(w, before.Order, s.Order)
			require.Equal(w, "order-42/reserved", s.BlockedBy)
			require.Equal(w, []string{"order-42/placed Applied", "order-42/reserved Blocked", death + " Blocked"}, w.journal(theOrder))
			require.Equal(w, "reserve-inventory:1 dead", w.emitted(theOrder)[0])
			require.Equal(w, workflow.Backlog{Dead: 1, Blocked: 1}, w.backlog())

			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, death+" Stale", w.journal(theOrder)[3], "by then the goods are there")
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
			require.Equal(w, "reserve-inventory:1 closed", w.emitted(theOrder)[0])
		}},
		{"a death that cannot be decided about blocks its order, and the command is dead all the same", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("sender", time.Minute)
			w.broken(death).buries("sender", claimed[0])
			s := w.story(theOrder)
			require.Equal(w, death, s.BlockedBy)
			require.Equal(w, "reserve-inventory:1 dead", w.emitted(theOrder)[0])
			require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
			w.acts(workflow.Applied, workflow.RetryMessage, death)
			require.Equal(w, "AwaitingInventory 2", w.stands(theOrder))
			require.Contains(w, w.story(theOrder).Order.Problem, "could not be sent")
			require.Equal(w, 1, w.story(theOrder).Outbox[0].Deaths)
		}},
		{"whatever the broker gives as its reason can be kept", func(w *world) {
			for n, odd := range []string{"", "a\x00b", "\xff\xfe", "'; DROP TABLE outbox; --", strings.Repeat("€", 5000), strings.Repeat("x", 300_000)} {
				order := fmt.Sprint("order-", n)
				w.takes(placed(order))
				claimed, err := w.Claim(w.Context(), order, workflow.Want{Commands: true}, 100, time.Minute)
				require.NoError(w, err)
				require.NoError(w, w.Bury(w.Context(), order, claimed[0], odd), "%.20q", odd)
				s := w.story(order)
				require.Equal(w, "dead", s.Outbox[0].State)
				require.LessOrEqual(w, len(s.Outbox[0].LastError), 2000)
				require.Contains(w, s.Order.Problem, "could not be sent")
				require.Less(w, len(s.Order.Problem), 5000)
			}
		}},
		{"a command too large to be sent dies alone", func(w *world) {
			w.takes(placed("order-1"), placed(theOrder), placed("order-3"))
			claimed, _ := w.claim("sender", time.Minute)
			w.buries("sender", of(claimed, command))
			for _, c := range claimed {
				if c.ID != command {
					w.mark("sender", []workflow.Claimed{c}, workflow.Mark{Sent: true})
				}
			}
			for order, state := range map[string]string{"order-1": "sent", theOrder: "dead", "order-3": "sent"} {
				require.Equal(w, "reserve-inventory:1 "+state, w.emitted(order)[0])
			}
			require.Equal(w, workflow.Backlog{Dead: 1}, w.backlog())
		}},
	}
}
