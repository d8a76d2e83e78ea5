package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orderflow/workflow"
)

const (
	theOrder        = "order-42"
	theConversation = "conv-7"
	theOrigin       = "orders:order-placed:42"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// saying is something that may be said to an order, said in terms of the order
// as it stands: "the armed deadline", "the version that is seen".
type saying struct {
	Type workflow.MessageType
	of   func(workflow.Order) workflow.Facts
	// early marks a deadline that comes before it is due.
	early bool
}

// to makes the saying a message to an order, through Decode like any other.
func (s saying) to(o workflow.Order, id string) workflow.Message {
	m, err := s.envelope(o, id).Decode()
	if err != nil {
		panic(fmt.Sprintf("%s: %v", s.Type, err))
	}
	m.NotDue, m.DueAt = s.due()
	return m
}

// straight is the message that to gives, made without a body, for the walk.
func (s saying) straight(o workflow.Order, id string) workflow.Message {
	m := workflow.Message{
		Envelope: workflow.Envelope{
			ID: id, Type: s.Type, OrderID: o.ID, Conversation: theConversation,
			ParentID: "parent-of-" + id, OriginID: theOrigin, Schema: "1",
		},
		Facts: s.of(o),
	}
	m.NotDue, m.DueAt = s.due()
	return m
}

func (s saying) due() (bool, time.Time) {
	if s.early {
		return true, noon
	}
	return false, time.Time{}
}

func (s saying) envelope(o workflow.Order, id string) workflow.Envelope {
	return workflow.Envelope{
		ID: id, Type: s.Type, OrderID: o.ID, Conversation: theConversation,
		ParentID: "parent-of-" + id, OriginID: theOrigin, Body: bodyOf(s.Type, o.ID, s.of(o)),
	}
}

// members are the fields that a body of each type has besides orderId, as
// docs/process.md lists them.
var members = map[workflow.MessageType][]string{
	workflow.OrderPlaced:                 {"customerId", "currency", "amount", "lines"},
	workflow.InventoryReserved:           {"reservationId"},
	workflow.InventoryRejected:           {"reason"},
	workflow.PaymentCaptured:             {"paymentId"},
	workflow.PaymentFailed:               {"reason"},
	workflow.ShipmentConfirmed:           {"shipmentId"},
	workflow.ShipmentFailed:              {"reason"},
	workflow.PaymentRefunded:             {"paymentId", "refundId"},
	workflow.PaymentRefundFailed:         {"paymentId", "commandId", "reason"},
	workflow.InventoryReleased:           {"reservationId"},
	workflow.InventoryReleaseFailed:      {"reservationId", "commandId", "reason"},
	workflow.CancellationRequested:       {"reason"},
	workflow.InventoryDeadlineExpired:    {"timeoutId", "dueAt"},
	workflow.PaymentDeadlineExpired:      {"timeoutId", "dueAt"},
	workflow.ShipmentDeadlineExpired:     {"timeoutId", "dueAt"},
	workflow.CompensationDeadlineExpired: {"timeoutId", "dueAt"},
	workflow.DispatchFailed:              {"commandId", "reason"},
	workflow.Retry:                       {"version", "reason"},
	workflow.ResolveCancelled:            {"version", "reason"},
	workflow.ResolveCompleted:            {"version", "reason"},
}

// bodyOf writes what a message says as its body.
func bodyOf(t workflow.MessageType, orderID string, f workflow.Facts) []byte {
	all := map[string]any{
		"customerId": f.CustomerID, "currency": f.Currency, "amount": f.Amount, "lines": f.Lines,
		"reservationId": f.ReservationID, "paymentId": f.PaymentID, "refundId": f.RefundID,
		"shipmentId": f.ShipmentID, "commandId": f.CommandID, "reason": f.Reason,
		"timeoutId": f.TimeoutID, "dueAt": f.DueAt, "version": f.Version,
	}
	content := map[string]any{"orderId": orderID}
	for _, name := range members[t] {
		content[name] = all[name]
	}
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return text
}

func plain(t workflow.MessageType, f workflow.Facts) saying {
	return saying{Type: t, of: func(workflow.Order) workflow.Facts { return f }}
}

func placed() saying { return placedFor(12990) }

func placedFor(amount int64) saying {
	return plain(workflow.OrderPlaced, workflow.Facts{
		CustomerID: "customer-9", Currency: "EUR", Amount: amount,
		Lines: []workflow.Line{{SKU: "sku-1", Quantity: 2}},
	})
}

func reserved(id string) saying {
	return plain(workflow.InventoryReserved, workflow.Facts{ReservationID: id})
}

func captured(id string) saying {
	return plain(workflow.PaymentCaptured, workflow.Facts{PaymentID: id})
}

func shipped(id string) saying {
	return plain(workflow.ShipmentConfirmed, workflow.Facts{ShipmentID: id})
}

// because is a message of which only its type and a reason count.
func because(t workflow.MessageType) saying { return plain(t, workflow.Facts{Reason: "no luck"}) }

var (
	notReserved = because(workflow.InventoryRejected)
	notPaid     = because(workflow.PaymentFailed)
	notShipped  = because(workflow.ShipmentFailed)
	cancelled   = because(workflow.CancellationRequested)
)

func refunded(payment, refund string) saying {
	return plain(workflow.PaymentRefunded, workflow.Facts{PaymentID: payment, RefundID: refund})
}

func released(id string) saying {
	return plain(workflow.InventoryReleased, workflow.Facts{ReservationID: id})
}

func refundFailed(payment string, attempt int) saying {
	return plain(workflow.PaymentRefundFailed, workflow.Facts{
		PaymentID: payment, Reason: "no luck",
		CommandID: fmt.Sprintf("%s:refund-payment:%d", theOrder, attempt),
	})
}

func releaseFailed(reservation string, attempt int) saying {
	return plain(workflow.InventoryReleaseFailed, workflow.Facts{
		ReservationID: reservation, Reason: "no luck",
		CommandID: fmt.Sprintf("%s:release-inventory:%d", theOrder, attempt),
	})
}

// dead says that a command could not be sent: "capture-payment:1".
func dead(command string) saying {
	return plain(workflow.DispatchFailed, workflow.Facts{CommandID: theOrder + ":" + command, Reason: "no such topic"})
}

// expired says that a deadline passed: "payment-timeout:1".
func expired(deadline string) saying {
	name, _, _ := strings.Cut(deadline, ":")
	return plain(workflow.Purpose(name).Expired(), workflow.Facts{TimeoutID: theOrder + ":" + deadline, DueAt: noon})
}

// tooSoon is expired, before it is due by database time.
func tooSoon(deadline string) saying {
	s := expired(deadline)
	s.early = true
	return s
}

// acted is an operator's action on the order as it stands.
func acted(action workflow.MessageType) saying { return actedLate(action, 0) }

// actedLate is an operator's action on an order that has moved on since it was
// seen, by so many versions.
func actedLate(action workflow.MessageType, since int64) saying {
	return saying{Type: action, of: func(o workflow.Order) workflow.Facts {
		return workflow.Facts{Version: max(0, o.Version-since), Reason: "asked for by phone"}
	}}
}

var (
	retry            = acted(workflow.Retry)
	resolveCancelled = acted(workflow.ResolveCancelled)
	resolveCompleted = acted(workflow.ResolveCompleted)
)
