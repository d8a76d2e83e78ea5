package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// poisoned are messages that fail elsewhere than in their own turn: as they are
// taken up, as they are written, before they reach the store.
func poisoned() []scenario {
	return []scenario{
		{"an early message that fails as it is taken up blocks the order, and the transition is committed without it", func(w *world) {
			w.takes(placed(theOrder), sorry(theOrder, workflow.ShipmentFailed), captured(theOrder), shipped(theOrder))
			require.Equal(w, []string{"ShipmentFailed", "captured", "shipped"}, w.early())
			revision := w.story(theOrder).Revision
			b := w.broken("order-42/captured")
			d := b.expect(workflow.Applied, reserved(theOrder))
			require.Contains(w, d.Trouble, "the order is blocked by order-42/captured: panic: no luck with order-42/captured")
			require.Contains(w, d.Trouble, "goroutine")
			s := w.story(theOrder)
			require.Equal(w, revision+1, s.Revision, "one commit")
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
			require.Equal(w, "order-42/captured", s.BlockedBy)
			require.Equal(w, []string{"captured", "shipped"}, w.line(), "those after it wait behind it")
			require.Equal(w, []string{"ShipmentFailed"}, w.early(), "those before it were looked at")
			require.Equal(w, "panic: no luck with order-42/captured", s.Journal[2].Reason)
			require.Equal(w, "it waits behind order-42/captured, which blocks the order", s.Journal[3].Reason)
			require.Equal(w, []string{"capture-payment:1 waiting", "payment-timeout:1 waiting"}, w.emitted(theOrder)[2:])
			b.expect(workflow.Blocked, as(placed(theOrder), "order-42/again"))
			w.expect(workflow.Duplicate, captured(theOrder))
			w.replays(theOrder)

			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42/reserved Applied", "order-42:retry-message:6 Applied", "order-42/captured Applied",
				"order-42/ShipmentFailed Applied", "order-42/shipped Applied", "order-42/again Stale",
			}, w.journal(theOrder))
			require.Equal(w, "NeedsAttention 5", w.stands(theOrder))
			w.replays(theOrder)
		}},
		{"whichever early message fails as it is taken up, once it is retried the order is as if it had not", func(w *world) {
			for n, messages := range takenUp() {
				straight := w.straight(messages...)
				for _, m := range messages {
					w.empty()
					b := w.broken(m.ID)
					for _, next := range messages {
						b.takes(next)
					}
					if at := w.story(theOrder).BlockedBy; at != "" {
						require.Equal(w, m.ID, at, "the one that fails blocks, not another")
						require.Equal(w, workflow.Blocked, w.outcome(m.ID))
						w.acts(workflow.Applied, workflow.RetryMessage, m.ID)
					}
					require.Equal(w, straight, w.told(theOrder), "story %d: %s", n, m.ID)
					require.Empty(w, w.acceptable(), "story %d: %s", n, m.ID)
					w.replays(theOrder)
				}
			}
		}},
		{"whichever early message fails as it is taken up, once it is skipped the order is as if it had not come", func(w *world) {
			for n, messages := range takenUp() {
				for at, m := range messages {
					var others []workflow.Message
					others = append(append(others, messages[:at]...), messages[at+1:]...)
					straight := w.straight(others...)
					w.empty()
					b := w.broken(m.ID)
					for _, next := range messages {
						b.takes(next)
					}
					if w.story(theOrder).BlockedBy == "" {
						continue // it was never decided about
					}
					w.acts(workflow.Applied, workflow.SkipMessage, m.ID)
					require.Equal(w, workflow.Skipped, w.outcome(m.ID))
					require.Equal(w, straight, w.told(theOrder), "story %d: %s", n, m.ID)
					require.Empty(w, w.acceptable(), "story %d: %s", n, m.ID)
					w.replays(theOrder)
				}
			}
		}},
		{"an older early message that a younger one makes acceptable is the one to blame when it fails", func(w *world) {
			w.takes(placed(theOrder), shipped(theOrder), as(placed(theOrder), "order-42/again"), sorry(theOrder, workflow.ShipmentFailed), captured(theOrder))
			require.Equal(w, []string{"shipped", "ShipmentFailed", "captured"}, w.early())
			b := w.broken("order-42/shipped")
			d := b.expect(workflow.Applied, reserved(theOrder))
			require.Contains(w, d.Trouble, "no luck with order-42/shipped")
			require.Equal(w, "order-42/shipped", w.story(theOrder).BlockedBy)
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder), "the payment is no part of it")
			require.Equal(w, []string{"shipped", "ShipmentFailed"}, w.line())
			require.Empty(w, w.early())
			w.acts(workflow.Applied, workflow.SkipMessage, "order-42/shipped")
			require.Equal(w, "Compensating 4", w.stands(theOrder))
		}},
		{"an early message that fails once and not again, as it is looked at, blocks nothing", func(w *world) {
			messages := []workflow.Message{placed(theOrder), captured(theOrder), shipped(theOrder), reserved(theOrder)}
			straight := w.straight(messages...)
			for _, unreadable := range []bool{false, true} {
				w.empty()
				w.takes(messages[:3]...)
				if unreadable {
					w.tamper("UPDATE journal SET schema_version = '9' WHERE message_id = 'order-42/shipped'")
				}
				failed := false
				once := &world{T: w.T, db: w.db, Store: w.open(store.Options{
					Apply: func(o workflow.Order, m workflow.Message, held []workflow.Message) workflow.Result {
						if !failed {
							failed = true
							panic("once")
						}
						return workflow.Apply(o, m, held)
					},
				})}
				once.expect(workflow.Applied, messages[3])
				if unreadable {
					require.Equal(w, "order-42/shipped", w.story(theOrder).BlockedBy, "what cannot be read does")
					w.tamper("UPDATE journal SET schema_version = '1' WHERE message_id = 'order-42/shipped'")
					w.acts(workflow.Applied, workflow.RetryMessage, "order-42/shipped")
				}
				require.Equal(w, straight, w.told(theOrder))
			}
		}},
		{"an early message fails while a line is handled: it and the early ones after it come before the rest of the line", func(w *world) {
			w.takes(placed(theOrder), captured(theOrder), shipped(theOrder))
			w.broken("order-42/reserved").expect(workflow.Blocked, reserved(theOrder))
			w.expect(workflow.Blocked, as(placed(theOrder), "order-42/again"))
			require.Equal(w, []string{"reserved", "again"}, w.line())
			w.broken("order-42/shipped").acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, "order-42/shipped", w.story(theOrder).BlockedBy)
			require.Equal(w, []string{"shipped", "again"}, w.line())
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/shipped")
			require.Equal(w, "Completed 4", w.stands(theOrder))
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42:retry-message:5 Applied", "order-42/reserved Applied", "order-42/captured Applied",
				"order-42:retry-message:7 Applied", "order-42/shipped Applied", "order-42/again Stale",
			}, w.journal(theOrder))
		}},
		{"what turns out early in its turn keeps its place: it is still before the rest of the line if it fails as it is taken up", func(w *world) {
			messages := []workflow.Message{
				placed(theOrder), as(placed(theOrder), "order-42/again"), captured(theOrder), shipped(theOrder), reserved(theOrder),
				sorry(theOrder, workflow.CancellationRequested),
			}
			straight := w.straight(messages...)
			w.broken("order-42/again").takes(messages...)
			w.broken("order-42/captured").acts(workflow.Applied, workflow.RetryMessage, "order-42/again")
			require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy)
			require.Equal(w, []string{"captured", "shipped", "CancellationRequested"}, w.line())
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Equal(w, straight, w.told(theOrder), "nothing overtook it")
		}},
		{"what turns out early in its turn is told so", func(w *world) {
			w.broken("order-42/again").takes(placed(theOrder), as(placed(theOrder), "order-42/again"), shipped(theOrder), captured(theOrder))
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/again")
			require.Equal(w, []string{"shipped", "captured"}, w.early())
			s := w.story(theOrder)
			for _, e := range s.Journal[1:3] {
				require.Equal(w, workflow.Held, e.Outcome)
				require.Equal(w, "too early while the order is AwaitingInventory", e.Reason)
				require.Equal(w, []workflow.Status{workflow.AwaitingInventory, workflow.AwaitingInventory}, []workflow.Status{e.From, e.To})
			}
			require.EqualValues(w, 4+1+3, s.Revision, "each is a decision")
			w.expect(workflow.Applied, reserved(theOrder))
			require.Equal(w, "Completed 4", w.stands(theOrder))
		}},
		{"an early message that cannot be read any more blocks the order when it would be looked at", func(w *world) {
			for _, action := range []workflow.ActionKind{workflow.RetryMessage, workflow.SkipMessage} {
				w.empty()
				w.takes(placed(theOrder), sorry(theOrder, workflow.ShipmentFailed), captured(theOrder), shipped(theOrder))
				w.takes(placed("order-43"), captured("order-43"))
				switch action {
				case workflow.RetryMessage:
					w.tamper(`UPDATE journal SET schema_version = '9' WHERE message_id = 'order-42/captured'`)
				default:
					w.tamper(`UPDATE journal SET body = (SELECT body FROM journal WHERE message_id = 'order-43/captured') WHERE message_id = 'order-42/captured'`)
				}
				w.expect(workflow.Stale, as(placed(theOrder), "order-42/stale"))
				require.Empty(w, w.story(theOrder).BlockedBy, "what is not applied takes up nothing")
				d := w.expect(workflow.Applied, reserved(theOrder))
				require.Contains(w, d.Trouble, "the order is blocked by order-42/captured: what was kept of it cannot be read")
				require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy)
				require.Equal(w, []string{"captured", "shipped"}, w.line())
				require.Equal(w, []string{"ShipmentFailed"}, w.early())
				require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
				w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
				require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy, "it fails again")
				if action == workflow.RetryMessage {
					w.tamper(`UPDATE journal SET schema_version = '1' WHERE message_id = 'order-42/captured'`)
				}
				w.acts(workflow.Applied, action, "order-42/captured")
				require.Empty(w, w.line())
				if action == workflow.RetryMessage {
					require.Equal(w, "NeedsAttention 5", w.stands(theOrder), "as if nothing had been")
					require.Empty(w, w.early())
				} else {
					require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
					require.Equal(w, []string{"ShipmentFailed", "shipped"}, w.early())
				}
			}
		}},
		{"nothing overtakes an early message that cannot be read", func(w *world) {
			messages := []workflow.Message{captured(theOrder), sorry(theOrder, workflow.CancellationRequested), placed(theOrder)}
			straight := w.straight(messages...)
			w.takes(messages[:2]...)
			w.tamper("UPDATE journal SET schema_version = '9' WHERE message_id = 'order-42/captured'")
			w.takes(messages[2])
			require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
			require.Equal(w, []string{"captured", "CancellationRequested"}, w.line())
			w.tamper("UPDATE journal SET schema_version = '1' WHERE message_id = 'order-42/captured'")
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Equal(w, straight, w.told(theOrder))
		}},
		{"what waits because the order's state cannot be read is journalled at the status that is known", func(w *world) {
			w.takes(placed(theOrder))
			w.tamper(`UPDATE orders SET state = '{"schema":1,"order":{"amount":"much"}}'`)
			d := w.expect(workflow.Blocked, reserved(theOrder))
			require.EqualValues(w, 1, d.Version)
			w.expect(workflow.Blocked, captured(theOrder))
			for _, e := range w.story(theOrder).Journal[1:] {
				require.Equal(w, []any{workflow.AwaitingInventory, workflow.AwaitingInventory, int64(1)}, []any{e.From, e.To, e.Version})
			}
		}},
		{"the order's beginning may fail: early messages are kept, and taken up when it is retried", func(w *world) {
			messages := []workflow.Message{sorry(theOrder, workflow.CancellationRequested), captured(theOrder), placed(theOrder), reserved(theOrder)}
			straight := w.straight(messages...)
			b := w.broken("order-42/placed")
			b.takes(messages...)
			require.Equal(w, "NotStarted 0", w.stands(theOrder))
			require.Equal(w, "order-42/placed", w.story(theOrder).BlockedBy)
			require.Equal(w, []string{"placed", "reserved"}, w.line())
			require.Equal(w, []string{"CancellationRequested", "captured"}, w.early())
			w.db.Pass(48 * time.Hour)
			require.Zero(w, w.swept())
			require.Equal(w, []string{"CancellationRequested", "captured"}, w.early(), "the order has not failed to start, it is held up")
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/placed")
			require.Equal(w, straight, w.told(theOrder))
		}},
		{"a message that was given up and comes again is another: the first stays as it ended", func(w *world) {
			w.takes(captured(theOrder))
			w.db.Pass(24 * time.Hour)
			done, err := w.Sweep(w.Context())
			require.NoError(w, err)
			require.Equal(w, 1, done.TooEarly)
			w.broken("order-42/placed").takes(placed(theOrder), captured(theOrder))
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/placed")
			require.Equal(w, []string{"captured"}, w.early())
			b := w.broken("order-42/captured")
			b.expect(workflow.Applied, reserved(theOrder))
			require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy)
			b.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Equal(w, []string{"captured"}, w.line())
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			s := w.story(theOrder)
			require.Equal(w, "order-42/captured Rejected", w.says(s.Journal[0]))
			require.Equal(w, "it came before its order, which did not start within 24h0m0s", s.Journal[0].Reason)
			require.Equal(w, "order-42/captured Applied", w.says(s.Journal[len(s.Journal)-1]))
		}},
		{"the order's beginning fails as the first that is heard of it: the order is known, and blocked", func(w *world) {
			b := w.broken("order-42/placed")
			d := b.expect(workflow.Blocked, placed(theOrder))
			require.Equal(w, workflow.NotStarted, d.From)
			s := w.story(theOrder)
			require.Equal(w, "order-42/placed", s.BlockedBy)
			require.EqualValues(w, 1, s.Revision)
			require.Equal(w, workflow.Order{ID: theOrder, Status: workflow.NotStarted}, s.Order)
			require.Empty(w, s.Outbox)
			w.acts(workflow.Applied, workflow.SkipMessage, "order-42/placed")
			w.expect(workflow.Duplicate, placed(theOrder))
			w.expect(workflow.Applied, as(placed(theOrder), "order-42/anew"))
			require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
		}},
		{"what is decided and cannot be written blocks the order; where nothing can be written, nothing is", func(w *world) {
			w.takes(placed(theOrder))
			outbox := w.rows("outbox")
			allow := w.db.Refuse("INSERT", "outbox")
			d := w.expect(workflow.Blocked, reserved(theOrder))
			allow()
			require.Contains(w, d.Reason, "what was decided could not be written: the database refuses it")
			require.Equal(w, outbox, w.rows("outbox"))
			require.Equal(w, "order-42/reserved", w.story(theOrder).BlockedBy)
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))

			for _, f := range []statement{{"UPDATE", "orders"}, {"INSERT", "journal"}} {
				before := w.everything()
				allow := w.db.Refuse(f.verb, f.table)
				_, err := w.Handle(w.Context(), captured(theOrder))
				allow()
				require.ErrorContains(w, err, "handle PaymentCaptured order-42/captured of order order-42")
				require.Equal(w, before, w.everything(), "%s %s", f.verb, f.table)
			}
			w.expect(workflow.Applied, captured(theOrder))
			w.replays(theOrder)
		}},
		{"what cannot be written when its turn comes blocks the order where it is", func(w *world) {
			b := w.broken("order-42/again")
			b.takes(placed(theOrder), as(placed(theOrder), "order-42/again"), reserved(theOrder), captured(theOrder))
			allow := w.db.Refuse("INSERT", "outbox")
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/again")
			allow()
			require.Equal(w, "order-42/reserved", w.story(theOrder).BlockedBy)
			require.Equal(w, []string{"reserved", "captured"}, w.line())
			require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
		}},
		{"a message that could not even be held leaves nothing, and is held when it comes again", func(w *world) {
			b := w.broken("order-42/reserved", "order-43/placed")
			b.takes(placed(theOrder))
			for _, c := range []struct {
				m     workflow.Message
				fails []statement
			}{
				{reserved(theOrder), []statement{{"UPDATE", "orders"}, {"INSERT", "journal"}}},
				{placed("order-43"), []statement{{"INSERT", "orders"}, {"INSERT", "journal"}, {"UPDATE", "orders"}}},
			} {
				for _, f := range c.fails {
					before := w.everything()
					allow := w.db.Refuse(f.verb, f.table)
					_, err := b.Handle(w.Context(), c.m)
					require.Error(w, err)
					_, err = w.Hold(w.Context(), c.m, "it failed elsewhere")
					require.ErrorContains(w, err, "hold "+string(c.m.Type)+" "+c.m.ID)
					allow()
					require.Equal(w, before, w.everything(), "%s %s", f.verb, f.table)
				}
				b.expect(workflow.Blocked, c.m)
			}
		}},
		{"a transition whose early message fails is written whole or not at all", func(w *world) {
			w.takes(placed(theOrder), captured(theOrder), shipped(theOrder))
			b := w.broken("order-42/captured")
			allow := w.db.Refuse("UPDATE", "journal") // the early ones cannot be put in the line
			d := b.expect(workflow.Blocked, reserved(theOrder))
			allow()
			require.Contains(w, d.Reason, "could not be written")
			require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
			require.Equal(w, []string{"captured", "shipped"}, w.early())
			require.Equal(w, []string{"reserved"}, w.line())
			b.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy)
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
		}},
		{"a message may be held by whoever could not handle it", func(w *world) {
			var m workflow.Message
			m.Envelope, m.Delivery = placed(theOrder).Envelope, workflow.Delivery{Function: "order-placed", Count: 9}
			d := w.holds(workflow.Blocked, m, "it takes too long")
			require.Equal(w, "it takes too long", d.Reason)
			s := w.story(theOrder)
			require.Equal(w, m.ID, s.BlockedBy)
			require.Equal(w, []workflow.Envelope{m.Envelope}, s.Line)
			require.Equal(w, "it takes too long", s.Journal[0].Reason)
			require.Equal(w, 9, w.number("SELECT delivery_count FROM journal"))
			before := w.everything()
			w.holds(workflow.Duplicate, m, "it takes too long")
			w.expect(workflow.Duplicate, placed(theOrder))
			require.Equal(w, before, w.everything())

			d = w.holds(workflow.Blocked, reserved(theOrder), "it takes too long too")
			require.Equal(w, "it waits behind order-42/placed, which blocks the order", d.Reason)
			require.Equal(w, m.ID, w.story(theOrder).BlockedBy)
			require.Equal(w, []string{"placed", "reserved"}, w.line())
			w.acts(workflow.Applied, workflow.RetryMessage, m.ID)
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
			before = w.everything()
			w.expect(workflow.Duplicate, placed(theOrder))
			require.Equal(w, placed(theOrder).Fingerprint, w.text("SELECT fingerprint FROM journal WHERE message_id = 'order-42/placed'"))
			w.holds(workflow.Duplicate, placed(theOrder), "late")
			w.takes(shipped(theOrder))
			w.holds(workflow.Duplicate, shipped(theOrder), "it is kept already")
			require.NotEqual(w, before, w.everything())
			w.replays(theOrder)
		}},
		{"what was held unread and turns out early, or is skipped, is still told from another of its ID", func(w *world) {
			w.holds(workflow.Blocked, workflow.Message{Envelope: captured(theOrder).Envelope}, "nobody could read it")
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Equal(w, []string{"captured"}, w.early())
			w.expect(workflow.Duplicate, captured(theOrder))
			w.expect(workflow.Rejected, said(theOrder, "order-42/captured", workflow.PaymentCaptured, `"paymentId":"payment-2"`))
			w.broken("order-42/placed").takes(placed(theOrder))
			w.acts(workflow.Applied, workflow.SkipMessage, "order-42/placed")
			require.Equal(w, placed(theOrder).Fingerprint, w.text("SELECT fingerprint FROM journal WHERE message_id = 'order-42/placed'"))
		}},
		{"a message that is held behind a line that was left is handled with it", func(w *world) {
			b := w.broken("order-42/again")
			b.takes(placed(theOrder), as(placed(theOrder), "order-42/again"))
			w.tamper("UPDATE orders SET blocked_by = NULL")
			w.holds(workflow.Blocked, reserved(theOrder), "it failed elsewhere")
			require.Empty(w, w.line())
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
		}},
		{"a message without a body may be held, and skipped", func(w *world) {
			m := placed(theOrder)
			m.Body = nil
			w.holds(workflow.Blocked, m, "it has none")
			w.acts(workflow.Applied, workflow.RetryMessage, m.ID)
			require.Equal(w, m.ID, w.story(theOrder).BlockedBy)
			require.Contains(w, w.story(theOrder).Journal[0].Reason, "the body is empty")
			w.acts(workflow.Applied, workflow.SkipMessage, m.ID)
			require.Empty(w, w.line())
		}},
		{"a deadline that was heard of before it was armed may be held", func(w *world) {
			w.expect(workflow.Stale, expired(theOrder, "inventory-timeout:1"))
			w.takes(placed(theOrder))
			w.holds(workflow.Blocked, expired(theOrder, "inventory-timeout:1"), "it failed elsewhere")
			require.Equal(w, "order-42:inventory-timeout:1", w.story(theOrder).BlockedBy)
		}},
		{"a message that is held and handled at once is one of both", func(w *world) {
			other := w.open(store.Options{})
			for round := range 20 {
				order := fmt.Sprint("order-", round)
				w.takes(placed(order))
				var wg sync.WaitGroup
				var held, handled workflow.Decision
				wg.Go(func() {
					var err error
					if held, err = other.Hold(w.Context(), reserved(order), "it failed elsewhere"); err != nil {
						w.Error(err)
					}
				})
				wg.Go(func() {
					var err error
					if handled, err = w.Handle(w.Context(), reserved(order)); err != nil {
						w.Error(err)
					}
				})
				wg.Wait()
				if held.Outcome == workflow.Blocked {
					require.Equal(w, workflow.Duplicate, handled.Outcome)
					require.Equal(w, order+"/reserved", w.story(order).BlockedBy)
				} else {
					require.Equal(w, []workflow.Outcome{workflow.Duplicate, workflow.Applied}, []workflow.Outcome{held.Outcome, handled.Outcome})
					require.Equal(w, "AwaitingPayment 2", w.stands(order))
				}
			}
		}},
		{"a failure of any kind is told in words that can be kept", func(w *world) {
			for n, failure := range []any{
				nil, fmt.Errorf("an error"), "'; DROP TABLE orders; --", "a\x00b", "\xff", strings.Repeat("ä", 50_000), struct{ A, B int }{1, 2}, []int(nil),
			} {
				s := w.open(store.Options{Apply: func(workflow.Order, workflow.Message, []workflow.Message) workflow.Result { panic(failure) }})
				d, err := s.Handle(w.Context(), placed(fmt.Sprint("order-", n)))
				require.NoError(w, err)
				require.Equal(w, workflow.Blocked, d.Outcome)
				require.Contains(w, d.Reason, "panic: ")
			}
			require.Equal(w, 8, w.count("orders"))
		}},
	}
}

// takenUp are stories in which early messages are taken up: one by one, one by
// another, an older by a younger one, and in vain.
func takenUp() [][]workflow.Message {
	not := sorry(theOrder, workflow.ShipmentFailed)
	other := said(theOrder, "order-42/other", workflow.ShipmentConfirmed, `"shipmentId":"shipment-2"`)
	return [][]workflow.Message{
		{placed(theOrder), captured(theOrder), shipped(theOrder), reserved(theOrder)},
		{placed(theOrder), shipped(theOrder), captured(theOrder), reserved(theOrder)},
		{placed(theOrder), shipped(theOrder), not, captured(theOrder), other, reserved(theOrder), as(placed(theOrder), "order-42/again")},
		{other, shipped(theOrder), captured(theOrder), placed(theOrder), reserved(theOrder)},
		{captured(theOrder), sorry(theOrder, workflow.CancellationRequested), placed(theOrder), reserved(theOrder), refunded(theOrder)},
		{sorry(theOrder, workflow.CancellationRequested), captured(theOrder), shipped(theOrder), placed(theOrder)},
		{sorry(theOrder, workflow.PaymentFailed), not, captured(theOrder), placed(theOrder), reserved(theOrder), released(theOrder)},
	}
}

// holds has a message held, and says what must become of it.
func (w *world) holds(outcome workflow.Outcome, m workflow.Message, why string) workflow.Decision {
	w.Helper()
	d, err := w.Hold(w.Context(), m, why)
	require.NoError(w, err)
	require.Equal(w, outcome, d.Outcome, d.Reason)
	return d
}

// outcome is what became of a message, by the journal.
func (w *world) outcome(id string) workflow.Outcome {
	w.Helper()
	for _, e := range w.story(theOrder).Journal {
		if e.MessageID == id {
			return e.Outcome
		}
	}
	return ""
}

// acceptable lists early messages that the order as it stands would not hold.
func (w *world) acceptable() (ids []string) {
	w.Helper()
	s := w.story(theOrder)
	for _, e := range s.Held {
		m, err := e.Decode()
		require.NoError(w, err)
		if workflow.Apply(s.Order, m, nil).Decisions[0].Outcome != workflow.Held {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// replays sees that an order's journal, run through the process once more from
// the beginning, gives the order as it stands.
func (w *world) replays(order string) {
	w.Helper()
	s := w.story(order)
	due := make(map[string]workflow.Dispatch)
	for _, d := range s.Outbox {
		due[d.ID] = d
	}
	rows, err := w.db.SQL.QueryContext(w.Context(), `SELECT message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent, body
		FROM journal WHERE order_id = '`+order+`' AND outcome = 'Applied'`)
	require.NoError(w, err)
	defer rows.Close()
	applied := make(map[string]workflow.Envelope)
	for rows.Next() {
		e := workflow.Envelope{OrderID: order}
		require.NoError(w, rows.Scan(&e.ID, &e.Type, &e.Conversation, &e.ParentID, &e.OriginID, &e.Schema, &e.TraceParent, &e.Body))
		applied[e.ID] = e
	}
	require.NoError(w, rows.Err())
	o := workflow.Order{ID: order, Status: workflow.NotStarted}
	for _, line := range s.Journal {
		if line.Outcome != workflow.Applied {
			continue
		}
		switch e := applied[line.MessageID]; workflow.ActionKind(line.Type) {
		case workflow.SendAgain:
			var said struct{ MessageID string }
			require.NoError(w, json.Unmarshal(e.Body, &said))
			if strings.HasPrefix(o.Problem, said.MessageID+" ") {
				o.Problem = ""
			}
		case workflow.RetryMessage, workflow.SkipMessage, workflow.DiscardCommand:
		default:
			m, err := e.Decode()
			require.NoError(w, err)
			m.DueAt = due[m.Facts.TimeoutID].DueAt
			m.NotDue = m.DueAt.After(line.At)
			r := workflow.Apply(o, m, nil)
			require.Equal(w, workflow.Applied, r.Decisions[0].Outcome, "%s: %s", m.ID, r.Decisions[0].Reason)
			require.Equal(w, line.Version, r.Order.Version, m.ID)
			require.Equal(w, line.To, r.Order.Status, m.ID)
			o = r.Order
		}
	}
	want, err := json.Marshal(o)
	require.NoError(w, err)
	got, err := json.Marshal(s.Order)
	require.NoError(w, err)
	require.JSONEq(w, string(want), string(got))
	require.Equal(w, []any{o.Status, o.Version}, []any{s.Order.Status, s.Order.Version})
}
