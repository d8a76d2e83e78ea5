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

type body map[string]any

// saying is something that may be said to an order, said in terms of the order
// as it stands: "the armed deadline", "the version that is seen".
type saying struct {
	Type workflow.MessageType
	// of gives the body besides orderId.
	of func(workflow.Order) body
	// early marks a deadline that comes before it is due.
	early bool
}

// to makes the saying a message to an order, through Decode like any other.
func (s saying) to(o workflow.Order, id string) workflow.Message {
	content := s.of(o)
	content["orderId"] = o.ID
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	m, err := workflow.Envelope{
		ID: id, Type: s.Type, OrderID: o.ID, Conversation: theConversation,
		ParentID: "parent-of-" + id, OriginID: theOrigin, Body: text,
	}.Decode()
	if err != nil {
		panic(fmt.Sprintf("%s: %v", s.Type, err))
	}
	if s.early {
		m.NotDue, m.DueAt = true, noon
	}
	return m
}

func plain(t workflow.MessageType, b body) saying {
	return saying{Type: t, of: func(workflow.Order) body {
		c := body{}
		for k, v := range b {
			c[k] = v
		}
		return c
	}}
}

func placed() saying { return placedFor(12990) }

func placedFor(amount int) saying {
	return plain(workflow.OrderPlaced, body{
		"customerId": "customer-9", "currency": "EUR", "amount": amount,
		"lines": []body{{"sku": "sku-1", "quantity": 2}},
	})
}

func reserved(id string) saying {
	return plain(workflow.InventoryReserved, body{"reservationId": id})
}

func captured(id string) saying { return plain(workflow.PaymentCaptured, body{"paymentId": id}) }

func shipped(id string) saying { return plain(workflow.ShipmentConfirmed, body{"shipmentId": id}) }

// because is a message of which only its type and a reason count.
func because(t workflow.MessageType) saying { return plain(t, body{"reason": "no luck"}) }

var (
	notReserved = because(workflow.InventoryRejected)
	notPaid     = because(workflow.PaymentFailed)
	notShipped  = because(workflow.ShipmentFailed)
	cancelled   = because(workflow.CancellationRequested)
)

func refunded(payment, refund string) saying {
	return plain(workflow.PaymentRefunded, body{"paymentId": payment, "refundId": refund})
}

func released(id string) saying {
	return plain(workflow.InventoryReleased, body{"reservationId": id})
}

func refundFailed(payment string, attempt int) saying {
	return plain(workflow.PaymentRefundFailed, body{
		"paymentId": payment, "reason": "no luck",
		"commandId": fmt.Sprintf("%s:refund-payment:%d", theOrder, attempt),
	})
}

func releaseFailed(reservation string, attempt int) saying {
	return plain(workflow.InventoryReleaseFailed, body{
		"reservationId": reservation, "reason": "no luck",
		"commandId": fmt.Sprintf("%s:release-inventory:%d", theOrder, attempt),
	})
}

// dead says that a command could not be sent: "capture-payment:1".
func dead(command string) saying {
	return plain(workflow.DispatchFailed, body{"commandId": theOrder + ":" + command, "reason": "no such topic"})
}

// expired says that a deadline passed: "payment-timeout:1".
func expired(deadline string) saying {
	name, _, _ := strings.Cut(deadline, ":")
	return plain(workflow.Purpose(name).Expired(), body{
		"timeoutId": theOrder + ":" + deadline, "dueAt": noon.Format(time.RFC3339),
	})
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
	return saying{Type: action, of: func(o workflow.Order) body {
		return body{"version": max(0, o.Version-since), "reason": "asked for by phone"}
	}}
}

var (
	retry            = acted(workflow.Retry)
	resolveCancelled = acted(workflow.ResolveCancelled)
	resolveCompleted = acted(workflow.ResolveCompleted)
)
