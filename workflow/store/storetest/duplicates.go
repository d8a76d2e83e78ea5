package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func duplicates() []scenario {
	return []scenario{
		{"the same message again writes nothing, however late", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder), shipped(theOrder))
			before := w.everything()
			for _, m := range []workflow.Message{placed(theOrder), reserved(theOrder), captured(theOrder), shipped(theOrder)} {
				w.db.Pass(31 * 24 * time.Hour)
				d := w.expect(workflow.Duplicate, m)
				require.EqualValues(w, 4, d.Version)
			}
			require.Equal(w, before, w.everything())
		}},
		{"the same content spelled another way is the same message", func(w *world) {
			w.takes(placed(theOrder))
			again := placed(theOrder)
			again.Body = []byte(`{ "lines":[{"quantity":2,"sku":"sku-1"}], "amount":12990, "currency":"EUR", "customerId":"customer-9", "orderId":"order-42" }`)
			again, err := again.Decode()
			require.NoError(w, err)
			w.expect(workflow.Duplicate, again)
		}},
		{"the same MessageId with other content is a conflict that names both fingerprints", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			before := w.story(theOrder)
			other := said(theOrder, "order-42/reserved", workflow.InventoryReserved, `"reservationId":"reservation-9002"`)
			d := w.expect(workflow.Rejected, other)
			require.Contains(w, d.Reason, "conflict")
			require.Contains(w, d.Reason, other.Fingerprint)
			require.Contains(w, d.Reason, reserved(theOrder).Fingerprint)
			w.expect(workflow.Rejected, other)
			after := w.story(theOrder)
			require.Len(w, after.Rejected, 1)
			require.Equal(w, d.Reason, after.Rejected[0].Reason)
			require.Equal(w, 2, after.Rejected[0].Times)
			after.Rejected = nil
			require.Equal(w, before, after)
			w.expect(workflow.Duplicate, reserved(theOrder))
		}},
		{"an order placed again under a new MessageId is stale, or a conflict where it says otherwise", func(w *world) {
			w.takes(placed(theOrder))
			w.expect(workflow.Stale, as(placed(theOrder), "second"))
			w.expect(workflow.Duplicate, as(placed(theOrder), "second"))
			d := w.expect(workflow.Rejected, said(theOrder, "third", workflow.OrderPlaced,
				`"customerId":"customer-9","currency":"EUR","amount":1,"lines":[{"sku":"sku-1","quantity":2}]`))
			require.Contains(w, d.Reason, "conflict: amount is recorded as")
			s := w.story(theOrder)
			require.EqualValues(w, 12990, s.Order.Amount)
			require.EqualValues(w, 1, s.Order.Version)
			require.Equal(w, "third", s.Rejected[0].MessageID)
		}},
		{"a message that could not be handled is handled when it comes again", func(w *world) {
			for _, table := range []string{"orders", "journal"} {
				order := "order-of-" + table
				allow := w.db.Refuse("INSERT", table)
				_, err := w.Handle(w.Context(), placed(order))
				require.Error(w, err)
				allow()
				w.expect(workflow.Applied, placed(order))
			}
		}},
		{"m1 and M1 are two messages, and so are orders that differ in case", func(w *world) {
			w.takes(placed(theOrder))
			w.expect(workflow.Stale, as(placed(theOrder), "m1"))
			w.expect(workflow.Stale, as(placed(theOrder), "M1"))
			w.expect(workflow.Duplicate, as(placed(theOrder), "M1"))
			w.expect(workflow.Applied, as(placed("ORDER-42"), "m1"))
			w.expect(workflow.Stale, as(placed(theOrder), "\u00e9"))
			w.expect(workflow.Stale, as(placed(theOrder), "e\u0301"))
			w.expect(workflow.Stale, as(placed(theOrder), "\uff4d1"))
		}},
		{"the same MessageId about two orders is two messages", func(w *world) {
			w.expect(workflow.Applied, as(placed("order-1"), "m1"))
			w.expect(workflow.Applied, as(placed("order-2"), "m1"))
		}},
		{"of twenty copies at once, in two processes, one is applied and all succeed", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			for _, m := range []workflow.Message{placed(theOrder), reserved(theOrder), captured(theOrder)} {
				outcomes := w.atOnce(20, func(n int) (*store.Store, workflow.Message) { return processes[n%2], m })
				require.Equal(w, map[workflow.Outcome]int{workflow.Applied: 1, workflow.Duplicate: 19}, outcomes)
			}
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			require.Len(w, w.story(theOrder).Outbox, 6)
			require.Len(w, w.story(theOrder).Journal, 3)
		}},
		{"of two valid messages at once one is decided on what the other left", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			for n := range 10 {
				order := fmt.Sprint("order-", n)
				w.takes(placed(order), reserved(order))
				outcomes := w.atOnce(2, func(n int) (*store.Store, workflow.Message) {
					return processes[n], []workflow.Message{captured(order), sorry(order, workflow.CancellationRequested)}[n]
				})
				s := w.story(order)
				require.EqualValues(w, 4, s.Revision)
				commands := fmt.Sprint(w.emitted(order))
				if s.Order.Status == workflow.AwaitingShipment { // captured first: too late to cancel
					require.Equal(w, map[workflow.Outcome]int{workflow.Applied: 1, workflow.Rejected: 1}, outcomes)
					require.NotContains(w, commands, "refund")
				} else { // cancelled first: the money goes back
					require.Equal(w, map[workflow.Outcome]int{workflow.Applied: 2}, outcomes)
					require.EqualValues(w, 4, s.Order.Version)
					require.Contains(w, commands, "refund-payment:1 waiting")
					require.NotContains(w, commands, "ship-order")
				}
			}
		}},
		{"of a payment and its deadline at once, one wins and the order is never shipped and released", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			for n := range 10 {
				order := fmt.Sprint("order-", n)
				w.takes(placed(order), reserved(order))
				w.db.Pass(24 * time.Hour)
				w.atOnce(2, func(n int) (*store.Store, workflow.Message) {
					return processes[n], []workflow.Message{captured(order), expired(order, "payment-timeout:1")}[n]
				})
				commands := fmt.Sprint(w.emitted(order))
				if w.story(order).Order.Status == workflow.AwaitingShipment {
					require.NotContains(w, commands, "release")
					require.NotContains(w, commands, "refund")
				} else {
					require.Contains(w, commands, "refund-payment:1 waiting")
					require.NotContains(w, commands, "ship-order")
				}
			}
		}},
		{"many different messages about one order at once are all decided", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			w.takes(placed(theOrder))
			outcomes := w.atOnce(16, func(n int) (*store.Store, workflow.Message) {
				return processes[n%2], as(placed(theOrder), fmt.Sprint("copy-", n))
			})
			require.Equal(w, map[workflow.Outcome]int{workflow.Stale: 16}, outcomes)
			require.Len(w, w.story(theOrder).Journal, 17)
		}},
	}
}

// atOnce has messages handled at the same moment, and counts what became of
// them. Any error fails the test.
func (w *world) atOnce(n int, message func(n int) (*store.Store, workflow.Message)) map[workflow.Outcome]int {
	w.Helper()
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		start    = make(chan struct{})
		outcomes = map[workflow.Outcome]int{}
		failures []error
	)
	for i := range n {
		s, m := message(i)
		wg.Go(func() {
			<-start
			d, err := s.Handle(w.Context(), m)
			mu.Lock()
			defer mu.Unlock()
			if outcomes[d.Outcome]++; err != nil {
				failures = append(failures, err)
			}
		})
	}
	close(start)
	wg.Wait()
	require.Empty(w, failures)
	return outcomes
}
