package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func lineage() []scenario {
	return []scenario{
		{"whatever an order sends carries its session, conversation and origin, and as parent what caused it", func(w *world) {
			w.takes(placed(theOrder))
			other := reserved(theOrder)
			other.Conversation, other.OriginID, other.ParentID = "another-conversation", "another-origin", "another-parent"
			w.takes(other)
			w.db.Pass(24 * time.Hour)
			w.takes(expired(theOrder, "payment-timeout:1"))
			w.takes(said(theOrder, "failed", workflow.InventoryReleaseFailed,
				`"reservationId":"reservation-9001","commandId":"order-42:release-inventory:1","reason":"no luck"`))
			w.takes(said(theOrder, "order-42:retry:4", workflow.Retry, `"version":4,"reason":"again"`))
			parents := map[string]string{}
			for _, d := range w.story(theOrder).Outbox {
				require.Equal(w, theOrder, d.OrderID)
				require.Equal(w, "conv-7", d.Conversation, d.ID)
				require.Equal(w, "orders:order-placed:42", d.OriginID, d.ID)
				parents[strings.TrimPrefix(d.ID, "order-42:")] = d.ParentID
			}
			require.Equal(w, map[string]string{
				"reserve-inventory:1": "order-42/placed", "inventory-timeout:1": "order-42/placed",
				"capture-payment:1": "order-42/reserved", "payment-timeout:1": "order-42/reserved",
				"release-inventory:1": "order-42:payment-timeout:1", "compensation-timeout:1": "order-42:payment-timeout:1",
				"release-inventory:2": "order-42:retry:4", "compensation-timeout:2": "order-42:retry:4",
			}, parents)
		}},
		{"without a conversation it is the MessageId, and without an origin too", func(w *world) {
			m, err := workflow.Envelope{ID: "m1", Type: workflow.OrderPlaced, OrderID: theOrder, OriginID: "SELF", Body: placed(theOrder).Body}.Decode()
			require.NoError(w, err)
			w.takes(m)
			d := w.story(theOrder).Outbox[0]
			require.Equal(w, []string{"m1", "m1", "m1"}, []string{d.Conversation, d.OriginID, d.ParentID})
			require.Equal(w, "m1", w.story(theOrder).Journal[0].ParentID)
		}},
		{"the longest IDs come back as they were", func(w *world) {
			order := strings.Repeat("o", workflow.MaxOrderIDLength)
			id := strings.Repeat("é", workflow.MaxIDLength)
			w.expect(workflow.Applied, as(placed(order), id))
			w.expect(workflow.Duplicate, as(placed(order), id))
			s := w.story(order)
			require.Equal(w, id, s.Journal[0].MessageID)
			require.Equal(w, order+":reserve-inventory:1", s.Outbox[0].ID)
			require.Equal(w, id, s.Outbox[0].ParentID)
		}},
		{"IDs that look like SQL, quotes and letters of any script are kept as they are, and never run", func(w *world) {
			for n, odd := range []string{
				`'; DROP TABLE orders; --`, `" OR "1"="1`, `O'Neill`, `a%b_c`, `[brackets]`, `back\slash`, `{"json":1}`,
				`Straße-№5`, `注文`, `😀`, `e` + "\u0301", `NULL`, `0`, `1e3`, `007`, `?1`, `@p1`, `$1`,
			} {
				order := fmt.Sprint("order-", n)
				m := said(order, odd, workflow.OrderPlaced,
					fmt.Sprintf(`"customerId":%q,"currency":"EUR","amount":0,"lines":[{"sku":%q,"quantity":9007199254740993}]`, odd, odd))
				m.Conversation, m.OriginID, m.ParentID, m.TraceParent = odd, odd, odd, odd
				w.expect(workflow.Applied, m)
				w.expect(workflow.Duplicate, m)
				early := said(order, odd+"!", workflow.PaymentCaptured, fmt.Sprintf(`"paymentId":%q`, odd))
				w.expect(workflow.Held, early)
				s := w.story(order)
				require.Equal(w, []workflow.Envelope{early.Envelope}, s.Held)
				require.Equal(w, odd, s.Journal[0].MessageID)
				require.Equal(w, odd, s.Order.CustomerID)
				require.Equal(w, []workflow.Line{{SKU: odd, Quantity: 9007199254740993}}, s.Order.Lines)
				d := s.Outbox[0]
				require.Equal(w, []string{odd, odd, odd, odd}, []string{d.Conversation, d.OriginID, d.ParentID, d.TraceParent})
			}
			require.Equal(w, 18, w.count("orders"))
		}},
		{"the largest amounts are exact", func(w *world) {
			m := said(theOrder, "m", workflow.OrderPlaced,
				`"customerId":"c","currency":"EUR","amount":9223372036854775807,"lines":[{"sku":"s","quantity":1}]`)
			w.takes(m, reserved(theOrder))
			s := w.story(theOrder)
			require.EqualValues(w, 9223372036854775807, s.Order.Amount)
			require.Contains(w, string(s.Outbox[2].Body), `"amount":9223372036854775807`)
		}},
		{"a body of 2 MB is kept to the last byte, held and taken up", func(w *world) {
			big := said(theOrder, "big", workflow.OrderPlaced, fmt.Sprintf(
				`"note":%q,"customerId":"c","currency":"EUR","amount":1,"lines":[{"sku":"s","quantity":1}]`, strings.Repeat("äöü🎁", 200_000)))
			w.expect(workflow.Applied, big)
			early := said(theOrder, "early", workflow.PaymentCaptured, fmt.Sprintf(`"paymentId":"p","note":%q`, strings.Repeat("x", 2<<20)))
			w.expect(workflow.Held, early)
			require.Equal(w, []workflow.Envelope{early.Envelope}, w.story(theOrder).Held)
			w.takes(reserved(theOrder))
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			require.Equal(w, string(big.Body), w.text("SELECT body FROM journal WHERE message_id = 'big'"))
		}},
		{"the journal tells of every decision: when, what, from where to where, and what it sent", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(time.Hour)
			w.takes(as(placed(theOrder), "again"), reserved(theOrder))
			j := w.story(theOrder).Journal
			require.Equal(w, []workflow.Entry{
				{
					At: j[0].At, MessageID: "order-42/placed", Type: workflow.OrderPlaced, ParentID: "parent-of-order-42/placed",
					Outcome: workflow.Applied, Reason: "the order was placed", From: workflow.NotStarted, To: workflow.AwaitingInventory, Version: 1,
					Emitted: []string{"order-42:reserve-inventory:1", "order-42:inventory-timeout:1"},
				},
				{
					At: j[0].At.Add(time.Hour), MessageID: "again", Type: workflow.OrderPlaced, ParentID: "parent-of-order-42/placed",
					Outcome: workflow.Stale, Reason: "the order was placed before, with the same content",
					From: workflow.AwaitingInventory, To: workflow.AwaitingInventory, Version: 1, Emitted: []string{},
				},
				{
					At: j[0].At.Add(time.Hour), MessageID: "order-42/reserved", Type: workflow.InventoryReserved, ParentID: "parent-of-order-42/reserved",
					Outcome: workflow.Applied, Reason: "the goods are reserved", From: workflow.AwaitingInventory, To: workflow.AwaitingPayment, Version: 2,
					Emitted: []string{"order-42:capture-payment:1", "order-42:payment-timeout:1"},
				},
			}, j)
		}},
		{"the journal and the audit believe no message that claims to be an operator's", func(w *world) {
			w.withAudit()
			for _, function := range []string{"cancellation-requested", "operation-actions", ""} {
				m := said("order-"+function, "asked", workflow.CancellationRequested, `"reason":"asked by phone","actor":"ada"`)
				m.Delivery.Function = function
				w.takes(placed(m.OrderID), m)
				last := w.story(m.OrderID).Journal[1]
				require.Equal(w, []string{"asked by phone", ""}, []string{last.Said, last.Actor}, function)
				for _, e := range w.unaudited() {
					require.Empty(w, e.Actor, function)
				}
			}
		}},
		{"the journal and the audit tell who asked an order to be cancelled, tried again or settled, and why", func(w *world) {
			w.withAudit()
			for _, kind := range []workflow.MessageType{
				workflow.CancellationRequested, workflow.Retry, workflow.ResolveCancelled, workflow.ResolveCompleted,
			} {
				order := "order-" + strings.ToLower(string(kind))
				w.takes(placed(order), reserved(order))
				if kind.Action() {
					w.takes(said(order, "failed", workflow.PaymentFailed, `"reason":"declined"`),
						said(order, "kept", workflow.InventoryReleaseFailed, fmt.Sprintf(`"reservationId":"reservation-9001","commandId":"%s:release-inventory:1","reason":"kept"`, order)))
				}
				m := said(order, "asked", kind, fmt.Sprintf(`"version":%d,"reason":"as \"agreed\"","actor":"ada"`, w.story(order).Order.Version))
				m.Delivery.Function = "order-actions"
				w.expect(workflow.Applied, m)
				for _, e := range w.story(order).Journal {
					if e.MessageID == "asked" {
						require.Equal(w, workflow.Entry{Function: "order-actions", Said: `as "agreed"`, Actor: "ada"},
							workflow.Entry{Function: e.Function, Said: e.Said, Actor: e.Actor}, "%s", kind)
					} else {
						require.Empty(w, e.Function+e.Said+e.Actor, "%s", e.Type)
					}
				}
				for _, e := range w.unaudited() {
					want := []string{"", ""}
					if e.OrderID == order && e.MessageID == "asked" {
						want = []string{`as "agreed"`, "ada"}
					}
					if e.OrderID == order {
						require.Equal(w, want, []string{e.Said, e.Actor}, "%s of %s", e.Type, kind)
					}
				}
			}
		}},
		{"all orders can be listed, and each says how it stands", func(w *world) {
			w.takes(placed("b"), placed("a"), captured("c"), reserved("b"))
			orders, err := w.List(w.Context())
			require.NoError(w, err)
			var told []string
			for _, o := range orders {
				told = append(told, fmt.Sprint(o.ID, " ", o.Status, " ", o.Version))
			}
			require.Equal(w, []string{"a AwaitingInventory 1", "b AwaitingPayment 2", "c NotStarted 0"}, told)
		}},
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
