package functions_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

const (
	zoe    = `{"orderId": "order-42", "customerId": "Zoë – 😀", "currency": "EUR", "amount": 12990, "lines": [{"sku": "A/1", "quantity": 2}]}`
	trace  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	origin = "orders:order-placed:42"
)

func enqueued() time.Time { return time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC) }

func placedEnvelope() workflow.Envelope {
	return workflow.Envelope{
		ID: origin, Type: workflow.OrderPlaced, OrderID: "order-42", Conversation: "conv-7",
		ParentID: origin, OriginID: origin, Schema: "1", TraceParent: trace, Body: []byte(zoe),
	}
}

func delivered(function string, count int) workflow.Delivery {
	return workflow.Delivery{Function: function, Count: count, Sequence: 9007199254740993, EnqueuedAt: enqueued()}
}

func placedFacts() workflow.Facts {
	return workflow.Facts{CustomerID: "Zoë – 😀", Currency: "EUR", Amount: 12990, Lines: []workflow.Line{{SKU: "A/1", Quantity: 2}}}
}

func TestEachKnownRequestOfTheHostIsReadExactly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		function string
		count    int
		facts    workflow.Facts
		envelope func(*workflow.Envelope)
	}{
		"order-placed.binary":         {"order-placed", 1, placedFacts(), func(*workflow.Envelope) {}},
		"order-placed.string":         {"order-placed", 1, placedFacts(), func(*workflow.Envelope) {}},
		"order-placed.no-correlation": {"order-placed", 1, placedFacts(), func(e *workflow.Envelope) { e.Conversation = "" }},
		"order-placed.numbers-quoted-twice": {
			"order-placed", 3, placedFacts(), func(*workflow.Envelope) {},
		},
		"order-placed.body-is-json-string": {"order-placed", 1, placedFacts(), func(*workflow.Envelope) {}},
		"order-placed.binary.body-with-metadata-names": {
			"order-placed", 1,
			workflow.Facts{CustomerID: "c-7", Currency: "EUR", Amount: 12990, Lines: []workflow.Line{{SKU: "A/1", Quantity: 2}}},
			func(e *workflow.Envelope) {
				e.Body = []byte(`{"orderId": "order-42", "customerId": "c-7", "currency": "EUR", "amount": 12990, "lines": [{"sku": "A/1", "quantity": 2}], ` +
					`"messageId": "m-EVIL", "sessionId": "order-999", "deliveryCount": 0, "sequenceNumber": 7, "subject": "PaymentCaptured", "correlationId": "conv-EVIL"}`)
			},
		},
		"inventory-reserved.binary": {
			"inventory-reserved", 1, workflow.Facts{ReservationID: "reservation-9001"},
			func(e *workflow.Envelope) {
				e.ID, e.Type, e.ParentID = "inventory:reserved:9001", workflow.InventoryReserved, "order-42:reserve-inventory:1"
				e.Body = []byte(`{"orderId": "order-42", "reservationId": "reservation-9001"}`)
			},
		},
		"payment-captured.binary": {
			"payment-result", 1, workflow.Facts{PaymentID: "payment-77"},
			func(e *workflow.Envelope) {
				e.ID, e.Type = "payments:captured:77", workflow.PaymentCaptured
				e.ParentID, e.OriginID = e.ID, e.ID
				e.Body = []byte(`{"orderId": "order-42", "paymentId": "payment-77"}`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			settled(t, 200, w.post(t, "/"+tt.function, fixture(t, name)))
			want := placedEnvelope()
			tt.envelope(&want)
			got := w.onlyMessage(t)
			require.Equal(t, want, got.Envelope)
			require.Equal(t, string(want.Body), string(got.Body), "byte for byte")
			require.Equal(t, tt.facts, got.Facts)
			require.Equal(t, delivered(tt.function, tt.count), got.Delivery)
			require.Len(t, got.Fingerprint, 64)
		})
	}
}

func TestTheSameMessageInEitherModeHasTheSameFingerprint(t *testing.T) {
	t.Parallel()
	var binary, text, wrapped world
	binary.post(t, "/order-placed", fixture(t, "order-placed.binary"))
	text.post(t, "/order-placed", fixture(t, "order-placed.string"))
	wrapped.post(t, "/order-placed", fixture(t, "order-placed.body-is-json-string"))
	require.Equal(t, binary.onlyMessage(t), text.onlyMessage(t))
	require.Equal(t, binary.onlyMessage(t), wrapped.onlyMessage(t))
}

func TestAPoisonedMessageIsKeptWithItsBytesAndAcknowledgedAtOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, reason string }{
		"poison.empty":       {"", "malformed message: the body is empty; a JSON object is expected"},
		"poison.not-json":    {"hello world", "malformed message: the body is not JSON: invalid character 'h' looking for beginning of value at byte 1"},
		"poison.wrong-types": {`{"orderId": 17, "amount": {"x": 1}}`, "malformed message: OrderPlaced: the field orderId is missing or not a text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			settled(t, 200, w.post(t, "/order-placed", fixture(t, name)))
			want := placedEnvelope()
			want.ParentID, want.OriginID = "self", "" // as they came
			want.Body = []byte(tt.body)
			got := w.onlyRejection(t)
			require.Equal(t, tt.body, string(got.Body))
			got.Body, want.Body = nil, nil
			require.Equal(t, want, got.Envelope)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, delivered("order-placed", 1), got.Delivery)
			require.Empty(t, got.Fingerprint)
		})
	}
}
