package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// wants claims rows of some kinds and returns their IDs, sorted.
func (w *world) wants(token string, want workflow.Want, most int) (ids []string) {
	w.Helper()
	claimed, err := w.Claim(w.Context(), token, want, most, time.Minute)
	require.NoError(w, err)
	for _, c := range claimed {
		ids = append(ids, c.ID)
	}
	return sorted(ids)
}

// renews makes a lease end later and says for how many rows that must be so.
func (w *world) renews(token string, lease time.Duration, held int) {
	w.Helper()
	n, err := w.Renew(w.Context(), token, lease)
	require.NoError(w, err)
	require.Equal(w, held, n)
}

// changesNothing does something that must leave every row as it is.
func (w *world) changesNothing(do func()) {
	w.Helper()
	before := w.everything()
	do()
	require.Equal(w, before, w.everything())
}

// of is the claimed row of a message.
func of(claimed []workflow.Claimed, id string) workflow.Claimed {
	return claimed[slices.IndexFunc(claimed, func(c workflow.Claimed) bool { return c.ID == id })]
}

func leases() []scenario {
	var (
		both      = workflow.Want{Commands: true, Deadlines: true}
		commands  = workflow.Want{Commands: true}
		deadlines = workflow.Want{Deadlines: true}
	)
	return []scenario{
		{"a sender claims the kinds that it wants, and leaves the others alone", func(w *world) {
			w.takes(placed("order-1"), placed("order-2"))
			w.db.Pass(24 * time.Hour)
			w.changesNothing(func() { require.Empty(w, w.wants("none", workflow.Want{}, 100)) })
			require.Equal(w, []string{"order-1:reserve-inventory:1", "order-2:reserve-inventory:1"}, w.wants("c", commands, 100))
			require.Empty(w, w.wants("c2", commands, 100))
			require.Equal(w, []string{"order-1:inventory-timeout:1", "order-2:inventory-timeout:1"}, w.wants("d", deadlines, 100))
			require.Empty(w, w.wants("b", both, 100))
		}},
		{"rows that are not wanted do not count as claimed", func(w *world) {
			for n := range 5 {
				w.takes(placed(fmt.Sprint("order-", n)))
			}
			w.db.Pass(24 * time.Hour)
			require.Len(w, w.wants("d", deadlines, 2), 2, "although five commands are older")
			require.Len(w, w.wants("d2", deadlines, 100), 3)
			require.Len(w, w.wants("c", commands, 100), 5)
		}},
		{"a renewed lease holds beyond its first end, and no further than that", func(w *world) {
			w.takes(placed("order-1"), placed("order-2"), placed("order-3"))
			mine, _ := w.Claim(w.Context(), "mine", both, 2, time.Minute)
			require.Len(w, w.wants("other", both, 100), 1)
			others := "outbox WHERE token = 'other' AND visible_at > created_at"
			before := w.text("SELECT visible_at FROM " + others)
			w.db.Pass(50 * time.Second)
			w.renews("mine", time.Minute, 2)
			w.renews("nobody", time.Minute, 0)
			require.Equal(w, before, w.text("SELECT visible_at FROM "+others), "another's is not touched")
			for _, c := range mine {
				require.Equal(w, w.db.Now().Add(time.Minute).Truncate(time.Microsecond), w.story(c.OrderID).Outbox[0].NextAttemptAt)
			}
			w.db.Pass(time.Minute - time.Microsecond)
			require.Len(w, w.wants("next", both, 100), 1, "only the other's has ended")
			w.mark("mine", mine[:1], workflow.Mark{Sent: true})
			require.Equal(w, "reserve-inventory:1 sent", w.emitted(mine[0].OrderID)[0])
			w.renews("mine", time.Minute, 1) // what is marked is not held any more
			w.db.Pass(time.Minute)
			w.changesNothing(func() { w.renews("mine", time.Minute, 0) })
			require.Contains(w, w.wants("last", both, 100), mine[1].ID)
		}},
		{"a lease can be renewed again and again", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("mine", time.Minute)
			for range 10 {
				w.db.Pass(59 * time.Second)
				w.renews("mine", time.Minute, 1)
				_, ids := w.claim(w.db.Now().String(), time.Minute)
				require.Empty(w, ids)
			}
			w.mark("mine", claimed, workflow.Mark{Sent: true})
			require.Equal(w, "reserve-inventory:1 sent", w.emitted(theOrder)[0])
			require.Equal(w, 1, w.story(theOrder).Outbox[0].Attempts, "it was one attempt")
		}},
		{"a row that was closed in its owner's hands is held on to, and keeps its line waiting until it is marked", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("mine", time.Minute)
			w.takes(sorry(theOrder, workflow.CancellationRequested))
			w.db.Pass(50 * time.Second)
			w.renews("mine", time.Minute, 1)
			w.db.Pass(50 * time.Second)
			_, ids := w.claim("other", time.Minute)
			require.Empty(w, ids, "it may still be on its way")
			w.mark("mine", claimed, workflow.Mark{Error: "down", RetryAfter: time.Hour})
			w.renews("mine", time.Minute, 0)
			_, ids = w.claim("third", time.Minute)
			require.Equal(w, []string{"order-42:cancel-order:1"}, ids)
			require.Equal(w, "reserve-inventory:1 closed", w.emitted(theOrder)[0])
		}},
		{"whoever comes too late changes nothing, whatever it has to say, with the row taken over or not", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24 * time.Hour)
			late, _ := w.claim("late", time.Minute)
			require.Len(w, late, 2)
			w.db.Pass(time.Minute)
			for _, over := range []bool{false, true} {
				if over {
					_, ids := w.claim("next", time.Minute)
					require.Len(w, ids, 2)
				}
				for _, m := range []workflow.Mark{
					{Sent: true, Sequence: 7}, {GiveBack: true}, {Error: "late", RetryAfter: time.Hour}, {Error: "late", Refused: true},
				} {
					w.changesNothing(func() { w.mark("late", late, m) })
				}
				w.changesNothing(func() { w.renews("late", time.Hour, 0) })
				for _, c := range late {
					w.changesNothing(func() { require.NoError(w, w.Bury(w.Context(), "late", c, "refused")) })
				}
			}
		}},
		{"of two kinds of senders in two processes each takes its own, and no row is claimed twice", func(w *world) {
			other := w.open(store.Options{})
			const orders = 30
			for n := range orders {
				w.takes(placed(fmt.Sprint("order-", n)))
			}
			w.db.Pass(24 * time.Hour)
			var mu sync.Mutex
			taken := make(map[string]int)
			var wg sync.WaitGroup
			for n, want := range []workflow.Want{commands, deadlines, both, commands, deadlines, both} {
				s := []*store.Store{w.Store, other}[n%2]
				wg.Go(func() {
					for round := 0; ; round++ {
						claimed, err := s.Claim(w.Context(), fmt.Sprint("claim-", n, "-", round), want, 7, time.Hour)
						if err != nil {
							w.Errorf("claim: %v", err)
						}
						if len(claimed) == 0 {
							return
						}
						mu.Lock()
						for _, c := range claimed {
							taken[c.ID]++
							if c.Purpose == "" && !want.Commands || c.Purpose != "" && !want.Deadlines {
								w.Errorf("%s was not wanted", c.ID)
							}
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			require.Len(w, taken, 2*orders)
			for id, n := range taken {
				require.Equal(w, 1, n, id)
			}
			require.Equal(w, 2*orders, w.number("SELECT COUNT(*) FROM outbox WHERE token IS NOT NULL AND attempts = 1"))
		}},
		{"an application's clock that is wrong by an hour changes nothing", func(w *world) {
			for n, wrong := range []time.Duration{-time.Hour, time.Hour} {
				s := w.open(store.Options{Now: func() time.Time { return w.db.Now().Add(wrong) }})
				order := fmt.Sprint("order-", n)
				_, err := s.Handle(w.Context(), placed(order))
				require.NoError(w, err)
				require.Equal(w, w.db.Now().Add(24*time.Hour).Truncate(time.Microsecond), w.story(order).DeadlineAt)
				claimed, err := s.Claim(w.Context(), order, both, 100, time.Minute)
				require.NoError(w, err)
				require.Len(w, claimed, 1, "a command is due at once, a deadline is not")
				require.NoError(w, s.Mark(w.Context(), order, []workflow.Mark{{OrderID: order, Seq: claimed[0].Seq, Sent: true}}))
				require.Equal(w, w.db.Now().Truncate(time.Microsecond), w.story(order).Outbox[0].SentAt)
				d, err := s.Handle(w.Context(), expired(order, "inventory-timeout:1"))
				require.NoError(w, err)
				require.Equal(w, workflow.AwaitingInventory, d.To, "it is armed again, not due")
				b, err := s.Backlog(w.Context())
				require.NoError(w, err)
				require.Equal(w, workflow.Backlog{}, b)
				swept, err := s.Sweep(w.Context())
				require.NoError(w, err)
				require.Equal(w, workflow.Swept{}, swept)
			}
		}},
		{"rows of an order that wait in back-off hold back what follows them, also from a sender that asks for more", func(w *world) {
			w.lineOfThree(theOrder)
			claimed, _ := w.claim("one", time.Minute)
			require.Len(w, claimed, 1)
			w.mark("one", claimed, workflow.Mark{Error: "down", RetryAfter: 5 * time.Minute})
			w.db.Pass(5*time.Minute - time.Microsecond)
			require.Empty(w, w.wants("two", commands, 100))
			w.db.Pass(time.Microsecond)
			for _, id := range []string{"cancel-order:1", "refund-payment:1", "release-inventory:1"} {
				claimed, ids := w.claim(id, time.Minute)
				require.Equal(w, []string{"order-42:" + id}, ids)
				w.mark(id, claimed, workflow.Mark{Sent: true})
			}
		}},
		{"an order's commands go in the order of their commits, whatever their IDs", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			w.takes(sorry(theOrder, workflow.ShipmentFailed), refunded(theOrder), released(theOrder))
			w.tamper("UPDATE outbox SET state = 'waiting' WHERE purpose IS NULL")
			var went []string
			for {
				claimed, ids := w.claim(fmt.Sprint(len(went)), time.Minute)
				if len(ids) == 0 {
					break
				}
				w.mark(fmt.Sprint(len(went)), claimed, workflow.Mark{Sent: true})
				went = append(went, strings.TrimPrefix(ids[0], "order-42:"))
			}
			require.Equal(w, []string{
				"reserve-inventory:1", "capture-payment:1", "ship-order:1", "refund-payment:1", "release-inventory:1", "cancel-order:1",
			}, went)
		}},
	}
}
