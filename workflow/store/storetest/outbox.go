package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func outboxes() []scenario {
	return []scenario{
		{"a committed row is sent with all that belongs to it, and marked", func(w *world) {
			m := placed(theOrder)
			w.takes(m)
			var bus broker
			require.Equal(w, 1, w.drain(&bus))
			require.Equal(w, []workflow.Outgoing{{
				ID: "order-42:reserve-inventory:1", Type: workflow.ReserveInventory, OrderID: theOrder, Conversation: "conv-7",
				ParentID: "order-42/placed", OriginID: "orders:order-placed:42", TraceParent: m.TraceParent,
				Body: []byte(`{"orderId":"order-42","lines":[{"sku":"sku-1","quantity":2}]}`),
			}}, bus.sent)
			d := w.story(theOrder).Outbox[0]
			require.Equal(w, "sent", d.State)
			require.Equal(w, 1, d.Attempts)
			require.Equal(w, w.db.Now().Truncate(time.Microsecond), d.SentAt)
			require.Zero(w, w.drain(&bus), "and not again")
		}},
		{"what was sent by a process that ended before its mark is sent again under its ID", func(w *world) {
			w.takes(placed(theOrder))
			w.claim("gone", time.Minute) // and sent
			w.reopen()
			var bus broker
			require.Zero(w, w.drain(&bus), "its lease still holds")
			w.db.Pass(time.Minute)
			require.Equal(w, 1, w.drain(&bus))
			require.Equal(w, []string{"reserve-inventory:1"}, bus.ids(theOrder))
			require.Equal(w, 2, w.story(theOrder).Outbox[0].Attempts)
		}},
		{"a duplicate sends nothing again", func(w *world) {
			w.takes(placed(theOrder))
			var bus broker
			w.drain(&bus)
			for range 3 {
				w.expect(workflow.Duplicate, placed(theOrder))
				require.Zero(w, w.drain(&bus))
			}
		}},
		{"an order whose first row cannot be sent waits, in order, and another does not", func(w *world) {
			w.lineOfThree(theOrder)
			w.lineOfThree("order-43")
			bus := broker{refuse: func(m workflow.Outgoing) error {
				if m.ID == "order-42:cancel-order:1" {
					return errRefused
				}
				return nil
			}}
			w.drain(&bus)
			require.Empty(w, bus.ids(theOrder))
			require.Equal(w, []string{"cancel-order:1", "refund-payment:1", "release-inventory:1"}, bus.ids("order-43"))
			stuck := w.story(theOrder).Outbox[1]
			require.Equal(w, errRefused.Error(), stuck.LastError)
			require.Equal(w, 1, stuck.Attempts)
			require.Equal(w, w.db.Now().Add(500*time.Millisecond).Truncate(time.Microsecond), stuck.NextAttemptAt)
			bus.refuse = nil
			require.Zero(w, w.drain(&bus), "it is not tried again at once")
			w.db.Pass(time.Second)
			w.drain(&bus)
			require.Equal(w, []string{"cancel-order:1", "refund-payment:1", "release-inventory:1"}, bus.ids(theOrder))
		}},
		{"many stuck rows of one order do not hide the others", func(w *world) {
			w.takes(placed(theOrder), placed("order-43"))
			for n := range 150 {
				w.tamper(fmt.Sprintf(`INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
					body, state, visible_at, attempts, last_error, created_at)
					SELECT order_id, seq + %d, 'stuck-%d', message_type, conversation, parent_id, origin_id, traceparent,
					body, state, visible_at, attempts, last_error, created_at FROM outbox WHERE message_id = 'order-42:reserve-inventory:1'`, n+2, n))
			}
			bus := broker{refuse: func(m workflow.Outgoing) error {
				if m.OrderID == theOrder {
					return errRefused
				}
				return nil
			}}
			w.drain(&bus)
			require.Equal(w, []string{"reserve-inventory:1"}, bus.ids("order-43"))
			bus.refuse = nil
			w.db.Pass(time.Minute)
			require.Equal(w, 151, w.drain(&bus), "a line is sent in one drain once it moves")
		}},
		{"two dispatchers at once claim each row once, and keep each order's order", func(w *world) {
			other := w.open(store.Options{})
			for n := range 20 {
				w.lineOfThree(fmt.Sprint("order-", n))
			}
			var bus broker
			var wg sync.WaitGroup
			for _, s := range []*store.Store{w.Store, other, w.Store} {
				wg.Go(func() { w.drainWith(s, &bus) })
			}
			wg.Wait()
			w.drain(&bus) // what one held while another looked
			for n := range 20 {
				require.Equal(w, []string{"cancel-order:1", "refund-payment:1", "release-inventory:1"}, bus.ids(fmt.Sprint("order-", n)))
			}
		}},
		{"of an order nobody else claims a command while one is claimed", func(w *world) {
			w.lineOfThree(theOrder)
			_, ids := w.claim("first", time.Minute)
			require.Equal(w, []string{"order-42:cancel-order:1"}, ids)
			_, ids = w.claim("second", time.Minute)
			require.Empty(w, ids)
		}},
		{"a claim whose lease has passed can be taken over, and the late owner's mark changes nothing", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("late", time.Minute)
			w.db.Pass(time.Minute)
			for _, m := range []workflow.Mark{{Sent: true}, {GiveBack: true}, {Error: "late", RetryAfter: time.Hour}} {
				before := w.everything()
				w.mark("late", claimed, m)
				require.Equal(w, before, w.everything(), "nobody took it over, and still it is too late")
			}
			again, ids := w.claim("next", time.Minute)
			require.Equal(w, []string{"order-42:reserve-inventory:1"}, ids)
			require.Equal(w, 2, again[0].Attempt)
			before := w.everything()
			w.mark("late", claimed, workflow.Mark{Sent: true})
			require.Equal(w, before, w.everything())
			w.mark("next", again, workflow.Mark{Sent: true})
			require.Equal(w, "reserve-inventory:1 sent", w.emitted(theOrder)[0])
		}},
		{"what is given back can be claimed at once, and does not count as an attempt", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("one", time.Minute)
			w.mark("one", claimed, workflow.Mark{GiveBack: true})
			again, _ := w.claim("two", time.Minute)
			require.Equal(w, 1, again[0].Attempt)
		}},
		{"of an error that is long a part is kept", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("t", time.Minute)
			w.mark("t", claimed, workflow.Mark{Error: strings.Repeat("€", 5000)})
			last := w.story(theOrder).Outbox[0].LastError
			require.Equal(w, strings.Repeat("€", len(last)/3), last, "whole letters")
			require.Less(w, len(last), 2001)
		}},
		{"rows written at the same instant go out in the order of insertion", func(w *world) {
			w.lineOfThree(theOrder) // the clock stood still
			var bus broker
			w.drain(&bus)
			require.Equal(w, []string{"cancel-order:1", "refund-payment:1", "release-inventory:1"}, bus.ids(theOrder))
		}},
		{"a command that is not awaited any more is closed, and never sent", func(w *world) {
			w.takes(placed(theOrder), sorry(theOrder, workflow.CancellationRequested))
			var bus broker
			w.drain(&bus)
			require.Equal(w, []string{"cancel-order:1"}, bus.ids(theOrder))
		}},
		{"a command in a sender's hands that is not awaited any more counts as sent if it got through", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("sender", time.Minute)
			w.takes(sorry(theOrder, workflow.CancellationRequested))
			_, ids := w.claim("other", time.Minute)
			require.Empty(w, ids, "what follows waits for the sender")
			w.mark("sender", claimed, workflow.Mark{Sent: true, Sequence: 7})
			require.Equal(w, []string{"reserve-inventory:1 sent", "inventory-timeout:1 closed", "cancel-order:1 waiting"}, w.emitted(theOrder))
			var bus broker
			w.drain(&bus)
			require.Equal(w, []string{"cancel-order:1"}, bus.ids(theOrder))
		}},
		{"a command in a sender's hands that is not awaited any more is not tried again when it did not get through", func(w *world) {
			for n, end := range []func(token string, claimed []workflow.Claimed){
				func(token string, c []workflow.Claimed) { w.mark(token, c, workflow.Mark{Error: "down"}) },
				func(token string, c []workflow.Claimed) { w.mark(token, c, workflow.Mark{GiveBack: true}) },
				func(string, []workflow.Claimed) {}, // the sender is gone
			} {
				order := fmt.Sprint("order-", n)
				w.takes(placed(order))
				claimed, _ := w.claim(order, time.Minute)
				w.takes(sorry(order, workflow.CancellationRequested))
				end(order, claimed)
				w.db.Pass(time.Minute)
				var bus broker
				w.drain(&bus)
				require.Equal(w, []string{"cancel-order:1"}, bus.ids(order))
			}
		}},
		{"what is sent now is counted as pending, a deadline far ahead is not", func(w *world) {
			w.takes(placed(theOrder), placed("order-43"))
			pending, err := w.Pending(w.Context())
			require.NoError(w, err)
			require.Equal(w, 2, pending)
			w.drain(&broker{})
			pending, err = w.Pending(w.Context())
			require.NoError(w, err)
			require.Zero(w, pending)
		}},
		{"whoever sends is woken by a commit that left something to send, and by no other", func(w *world) {
			var wakes atomic.Int64
			s := w.open(store.Options{Wake: func() { wakes.Add(1) }})
			for _, step := range []struct {
				m     workflow.Message
				wakes int64
			}{
				{placed(theOrder), 1}, {placed(theOrder), 1}, {as(placed(theOrder), "stale"), 1}, {refunded(theOrder), 1},
				{captured(theOrder), 1}, {reserved(theOrder), 2},
			} {
				_, err := s.Handle(w.Context(), step.m)
				require.NoError(w, err)
				require.Equal(w, step.wakes, wakes.Load(), step.m.ID)
			}
		}},
		{"a claim takes the oldest first, and no more than was asked for", func(w *world) {
			var want []string
			for n := range 5 {
				w.takes(placed(fmt.Sprint("order-", 9-n)))
				w.db.Pass(time.Second)
				want = append(want, fmt.Sprintf("order-%d:reserve-inventory:1", 9-n))
			}
			claimed, err := w.Claim(w.Context(), "t", everyKind, 2, time.Minute)
			require.NoError(w, err)
			require.ElementsMatch(w, want[:2], []string{claimed[0].ID, claimed[1].ID})
			require.Len(w, claimed, 2)
			_, ids := w.claim("u", time.Minute)
			require.ElementsMatch(w, want[2:], ids)
		}},
		{"a mark says which row it is about, and others are untouched", func(w *world) {
			w.takes(placed("order-1"), placed("order-2"))
			claimed, _ := w.claim("t", time.Minute)
			i := slices.IndexFunc(claimed, func(c workflow.Claimed) bool { return c.OrderID == "order-2" })
			w.mark("t", claimed[i:i+1], workflow.Mark{Sent: true})
			require.Equal(w, "reserve-inventory:1 waiting", w.emitted("order-1")[0])
			require.Equal(w, "reserve-inventory:1 sent", w.emitted("order-2")[0])
			require.NoError(w, w.Mark(w.Context(), "t", nil), "to mark nothing is no harm")
		}},
	}
}
