package storetest

import (
	"fmt"
	"strings"

	"orderflow/workflow"
	"orderflow/workflow/store"

	"github.com/stretchr/testify/require"
)

// failing is workflow.Apply, which panics as soon as one of these messages would
// be decided about.
func failing(ids ...string) func(workflow.Order, workflow.Message, []workflow.Message) workflow.Result {
	return func(o workflow.Order, m workflow.Message, held []workflow.Message) workflow.Result {
		r := workflow.Apply(o, m, held)
		for _, d := range r.Decisions {
			for _, id := range ids {
				if d.Message.ID == id && d.Outcome != workflow.Held {
					panic("no luck with " + id)
				}
			}
		}
		return r
	}
}

// broken is the same database in the hands of a program that fails at messages.
func (w *world) broken(ids ...string) *world {
	w.Helper()
	return &world{T: w.T, db: w.db, Store: w.open(store.Options{Apply: failing(ids...)})}
}

// line lists what waits in the order's line.
func (w *world) line() (ids []string) {
	w.Helper()
	for _, e := range w.story(theOrder).Line {
		ids = append(ids, strings.TrimPrefix(e.ID, theOrder+"/"))
	}
	return ids
}

func lines() []scenario {
	return []scenario{
		{"a message that fails for good blocks its order, what comes after waits behind it, and other orders go on", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder))
			outbox := w.rows("outbox")
			d := b.expect(workflow.Blocked, reserved(theOrder))
			require.Equal(w, "panic: no luck with order-42/reserved", d.Reason)
			require.Contains(w, d.Trouble, "goroutine")
			b.expect(workflow.Blocked, captured(theOrder))
			b.expect(workflow.Blocked, shipped(theOrder))
			require.Equal(w, []string{"reserved", "captured", "shipped"}, w.line())
			require.Equal(w, "order-42/reserved", w.story(theOrder).BlockedBy)
			require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
			require.Equal(w, outbox, w.rows("outbox"))
			b.takes(placed("order-43"), as(reserved("order-43"), "m"))
			require.Equal(w, "AwaitingPayment 2", w.stands("order-43"))

			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Empty(w, w.line())
			require.Empty(w, w.story(theOrder).BlockedBy)
			require.Equal(w, "Completed 4", w.stands(theOrder))
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42:retry-message:4 Applied",
				"order-42/reserved Applied", "order-42/captured Applied", "order-42/shipped Applied",
			}, w.journal(theOrder))
			w.expect(workflow.Duplicate, captured(theOrder))
		}},
		{"250 messages wait and are handled in order, as they came", func(w *world) {
			b := w.broken("order-42/placed")
			b.expect(workflow.Blocked, placed(theOrder))
			for n := range 250 {
				b.expect(workflow.Blocked, as(placed(theOrder), fmt.Sprintf("m-%03d", n)))
			}
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/placed")
			swept, err := w.Sweep(w.Context())
			require.NoError(w, err)
			require.Equal(w, 100, swept.Replayed)
			_, err = w.Sweep(w.Context())
			require.NoError(w, err)
			require.Empty(w, w.line())
			s := w.story(theOrder)
			require.Len(w, s.Journal, 252)
			for n := range 250 {
				require.Equal(w, fmt.Sprintf("m-%03d", n), s.Journal[2+n].MessageID)
				require.Equal(w, workflow.Stale, s.Journal[2+n].Outcome)
			}
		}},
	}
}
