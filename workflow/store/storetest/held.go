package storetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func held() []scenario {
	return []scenario{
		{"a payment before its order is held, and taken up with the step that makes it acceptable", func(w *world) {
			early := captured(theOrder)
			d := w.expect(workflow.Held, early)
			require.Contains(w, d.Reason, "too early")
			w.expect(workflow.Duplicate, early)
			s := w.story(theOrder)
			require.Equal(w, workflow.NotStarted, s.Order.Status)
			require.Equal(w, []workflow.Envelope{early.Envelope}, s.Held)

			w.takes(placed(theOrder))
			require.Len(w, w.story(theOrder).Held, 1, "it is still too early")
			revision := w.story(theOrder).Revision
			w.db.Pass(time.Minute)
			w.expect(workflow.Applied, reserved(theOrder))

			s = w.story(theOrder)
			require.Equal(w, revision+1, s.Revision, "one commit")
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			require.Empty(w, s.Held)
			require.Equal(w, []string{"order-42/placed Applied", "order-42/reserved Applied", "order-42/captured Applied"}, w.journal(theOrder),
				"each has a row of its own, in the order of decision")
			require.Equal(w, []string{"order-42:ship-order:1", "order-42:shipment-timeout:1"}, s.Journal[2].Emitted)
			require.Equal(w, s.UpdatedAt, s.Journal[2].At)
			require.Equal(w, "order-42/captured", s.Outbox[len(s.Outbox)-1].ParentID)
			require.Equal(w, []string{"capture-payment:1 closed", "ship-order:1 waiting", "shipment-timeout:1 waiting"}, w.emitted(theOrder)[2:],
				"what the same commit turned back from is kept for the record, and not sent")
			w.expect(workflow.Duplicate, early)
		}},
		{"held messages are taken up oldest first", func(w *world) {
			w.takes(sorry(theOrder, workflow.CancellationRequested), captured(theOrder))
			w.takes(placed(theOrder))
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42/CancellationRequested Applied", "order-42/captured Applied",
			}, w.journal(theOrder))
			require.Equal(w, "Compensating 3", w.stands(theOrder))
			require.Equal(w, []string{
				"reserve-inventory:1 closed", "cancel-order:1 waiting", "refund-payment:1 waiting", "compensation-timeout:1 waiting",
			}, w.emitted(theOrder))
		}},
		{"a held message that turns out too late is stale, in the same commit", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			w.expect(workflow.Held, sorry(theOrder, workflow.ShipmentFailed))
			w.takes(sorry(theOrder, workflow.PaymentFailed))
			require.Empty(w, w.story(theOrder).Held)
			require.Equal(w, "order-42/ShipmentFailed Stale", w.journal(theOrder)[3])
		}},
		{"a held message that is refused when it is taken up is kept with its bytes and does not occupy its ID", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), shipped(theOrder))
			other := said(theOrder, "other", workflow.ShipmentConfirmed, `"shipmentId":"shipment-2"`)
			w.expect(workflow.Held, other)
			w.takes(captured(theOrder))
			require.Equal(w, "Completed 4", w.stands(theOrder))
			s := w.story(theOrder)
			require.Empty(w, s.Held)
			require.Equal(w, "other Rejected", w.journal(theOrder)[4])
			require.Len(w, s.Rejected, 1)
			require.Contains(w, s.Rejected[0].Reason, "conflict")
			require.Equal(w, string(other.Body), w.text("SELECT body FROM rejected"))
			require.Equal(w, workflow.Rejected, w.takes(other).Outcome, "it is decided again when it comes again")
			require.Equal(w, 2, w.story(theOrder).Rejected[0].Times)
		}},
		{"250 held messages are kept in order, and taken up in order", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			for n := range 250 {
				w.expect(workflow.Held, as(sorry(theOrder, workflow.ShipmentFailed), fmt.Sprintf("held-%03d", n)))
			}
			w.takes(sorry(theOrder, workflow.PaymentFailed))
			s := w.story(theOrder)
			require.Empty(w, s.Held)
			for n := range 250 {
				e := s.Journal[3+n]
				require.Equal(w, fmt.Sprintf("held-%03d", n), e.MessageID)
				require.Equal(w, workflow.Stale, e.Outcome)
			}
		}},
		{"a thousand early messages are held for an order, and further ones are rejected, where they can be seen", func(w *world) {
			w.takes(placed(theOrder))
			w.tamper(`INSERT INTO journal (order_id, revision, place, message_id, message_type, conversation, parent_id, origin_id, schema_version,
				traceparent, fingerprint, outcome, reason, from_status, to_status, version, emitted, "function", delivery_count, received_at, decided_at, body)
				SELECT 'order-42', 10000 + a.n * 100 + b.n * 10 + c.n, 0, CONCAT('early-', a.n * 100 + b.n * 10 + c.n), 'PaymentFailed', j.conversation, j.parent_id,
				j.origin_id, j.schema_version, j.traceparent, 'f', 'Held', '', j.from_status, j.to_status, 1, '[]', '', 0, j.received_at, j.decided_at, j.body
				FROM journal AS j CROSS JOIN (` + digits + `) AS a CROSS JOIN (` + digits + `) AS b CROSS JOIN (` + digits + `) AS c WHERE j.message_id = 'order-42/placed'`)
			d := w.expect(workflow.Rejected, captured(theOrder))
			require.Equal(w, "too early while the order is AwaitingInventory, and 1000 messages are held for it already", d.Reason)
			require.Len(w, w.story(theOrder).Rejected, 1)
			w.tamper("DELETE FROM journal WHERE message_id = 'early-7'")
			w.expect(workflow.Held, captured(theOrder))
		}},
		{"held messages survive the process", func(w *world) {
			w.takes(captured(theOrder))
			w.reopen()
			w.takes(placed(theOrder), reserved(theOrder))
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
		}},
		{"an early message and the order itself at once lose nothing", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			for n := range 10 {
				order := fmt.Sprint("order-", n)
				w.atOnce(2, func(n int) (*store.Store, workflow.Message) {
					return processes[n], []workflow.Message{placed(order), sorry(order, workflow.CancellationRequested)}[n]
				})
				require.Equal(w, "Cancelled 2", w.stands(order))
				require.Empty(w, w.story(order).Held)
			}
		}},
		{"a rejected message is kept once, with its reason and how often it came", func(w *world) {
			r := workflow.Rejection{
				Envelope: workflow.Envelope{ID: "m1", Type: "Nonsense", OrderID: "nobody", Body: []byte("{]")},
				Delivery: workflow.Delivery{Function: "order-placed", Count: 1},
				Reason:   "malformed message",
			}
			for range 3 {
				require.NoError(w, w.Reject(w.Context(), r))
				w.db.Pass(time.Minute)
			}
			require.Equal(w, 1, w.count("rejected"))
			require.Equal(w, 3, w.number("SELECT times FROM rejected"))
			require.Zero(w, w.count("orders"), "nothing of an order is touched")
			require.Zero(w, w.count("journal"))
			r.Body = []byte("{)")
			require.NoError(w, w.Reject(w.Context(), r))
			require.Equal(w, 2, w.count("rejected"), "other bytes are another message")
		}},
		{"of a rejected message so many bytes are kept, and its true size", func(w *world) {
			s := w.open(store.Options{KeepBytes: 10})
			require.NoError(w, s.Reject(w.Context(), workflow.Rejection{Envelope: workflow.Envelope{ID: "m1", Body: bytes.Repeat([]byte("x"), 1000)}, Reason: "too large"}))
			require.Len(w, w.text("SELECT body FROM rejected"), 10)
			require.Equal(w, 1000, w.number("SELECT size FROM rejected"))
			require.NoError(w, s.Reject(w.Context(), workflow.Rejection{Envelope: workflow.Envelope{ID: "m1", Body: bytes.Repeat([]byte("x"), 1001)}, Reason: "too large"}))
			require.Equal(w, 2, w.count("rejected"), "they differ where nothing is kept")
		}},
		{"a rejected copy does not make the valid message a duplicate", func(w *world) {
			broken := workflow.Rejection{Envelope: placed(theOrder).Envelope, Reason: "malformed"}
			broken.Body = []byte("not JSON")
			require.NoError(w, w.Reject(w.Context(), broken))
			w.expect(workflow.Applied, placed(theOrder))
			require.Equal(w, "order-42/placed", w.story(theOrder).Rejected[0].MessageID)
		}},
		{"whatever a rejected message says of itself is kept as it came", func(w *world) {
			for n, odd := range []string{
				"", " ", "a\x00b", "\r\n", `'; DROP TABLE orders; --`, `"`, "\xff\xfe", "😀\u202e", "100% & ?", strings.Repeat("x", 10_000),
			} {
				r := workflow.Rejection{
					Envelope: workflow.Envelope{ID: odd, Type: workflow.MessageType(odd), OrderID: fmt.Sprint(n, odd), Conversation: odd, Body: []byte(odd)},
					Reason:   "odd: " + odd,
				}
				require.NoError(w, w.Reject(w.Context(), r), "%q", odd)
				require.NoError(w, w.Reject(w.Context(), r), "%q", odd)
				var id, kind, reason string
				var body []byte
				var times int
				rows := w.db.SQL.QueryRowContext(w.Context(), "SELECT message_id, message_type, reason, body, times FROM rejected ORDER BY first_at DESC, last_at DESC")
				require.NoError(w, rows.Scan(&id, &kind, &reason, &body, &times))
				require.Equal(w, []string{odd, odd, "odd: " + odd, odd}, []string{id, kind, reason, string(body)})
				require.Equal(w, 2, times)
				w.db.Pass(time.Second)
			}
		}},
		{"a refusal about an order that is not known leaves no order behind", func(w *world) {
			w.expect(workflow.Rejected, refunded(theOrder))
			require.Zero(w, w.count("orders"))
			require.Equal(w, 1, w.count("rejected"))
			w.expect(workflow.Applied, placed(theOrder))
			require.Len(w, w.story(theOrder).Rejected, 1)
		}},
	}
}

// text and number read one value by hand.
func (w *world) text(query string) (s string) {
	w.Helper()
	require.NoError(w, w.db.SQL.QueryRowContext(context.Background(), query).Scan(&s))
	return s
}

func (w *world) number(query string) (n int) {
	w.Helper()
	require.NoError(w, w.db.SQL.QueryRowContext(context.Background(), query).Scan(&n))
	return n
}

// digits is a table of the numbers from 0 to 9.
const digits = "SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9"
