package simulation

import (
	"maps"
	"strings"

	"orderflow/workflow"
)

// What an order asks for by its goods and its customer. Anything else goes
// well.
const (
	OutOfStock  = "OUT-OF-STOCK" // the warehouse rejects it
	SlowStock   = "SLOW-STOCK"   // the warehouse reserves it after the deadline
	Unshippable = "UNSHIPPABLE"  // shipping cannot ship it
	LostParcel  = "LOST-PARCEL"  // shipping never answers

	Declined       = "declined"           // the card is declined
	SilentBank     = "silent-bank"        // the payment never answers
	SlowBank       = "slow-bank"          // the payment is captured after the deadline
	StutteringBank = "stuttering-bank"    // the capture is reported twice
	StubbornBank   = "stubborn-bank"      // the first refund fails
	ChangesMind    = "changes-their-mind" // cancels instead of paying
)

// command is what a service is asked to do.
type command struct {
	ID            string               `json:"-"`
	Type          workflow.MessageType `json:"-"`
	OrderID       string               `json:"orderId"`
	CustomerID    string               `json:"customerId"`
	ReservationID string               `json:"reservationId"`
	PaymentID     string               `json:"paymentId"`
	Lines         []struct {
		SKU string `json:"sku"`
	} `json:"lines"`
}

// answer is one message back to the order.
type answer struct {
	id      string
	subject workflow.MessageType
	fields  map[string]any
	late    bool
}

func (a answer) body(orderID string) map[string]any {
	body := map[string]any{"orderId": orderID}
	maps.Copy(body, a.fields)
	return body
}

// answers is what the world says to a command. Message IDs come from the
// command's, references from the order's, so they are the same each time.
func answers(c command) []answer {
	say := func(subject workflow.MessageType, fields map[string]any) answer {
		return answer{id: c.ID + ":answer", subject: subject, fields: fields}
	}
	late := func(a answer) []answer {
		a.late = true
		return []answer{a}
	}
	reason := func(text string) map[string]any { return map[string]any{"reason": text} }

	switch c.Type {
	case workflow.ReserveInventory:
		reserved := say(workflow.InventoryReserved, map[string]any{"reservationId": "reservation-" + c.OrderID})
		switch {
		case c.has(OutOfStock):
			return []answer{say(workflow.InventoryRejected, reason("out of stock"))}
		case c.has(SlowStock):
			return late(reserved)
		}
		return []answer{reserved}

	case workflow.CapturePayment:
		captured := say(workflow.PaymentCaptured, map[string]any{"paymentId": payment(c)})
		switch c.CustomerID {
		case Declined:
			return []answer{say(workflow.PaymentFailed, reason("card declined"))}
		case SilentBank:
			return nil
		case SlowBank:
			return late(captured)
		case StutteringBank:
			again := captured
			again.id = c.ID + ":again"
			return []answer{captured, again}
		case ChangesMind:
			return []answer{say(workflow.CancellationRequested, reason("found it cheaper elsewhere"))}
		}
		return []answer{captured}

	case workflow.ShipOrder:
		switch {
		case c.has(Unshippable):
			return []answer{say(workflow.ShipmentFailed, reason("too heavy for every carrier"))}
		case c.has(LostParcel):
			return nil
		}
		return []answer{say(workflow.ShipmentConfirmed, map[string]any{"shipmentId": "shipment-" + c.OrderID})}

	case workflow.RefundPayment:
		if strings.HasSuffix(c.PaymentID, stubborn) && strings.HasSuffix(c.ID, ":1") {
			return []answer{say(workflow.PaymentRefundFailed, map[string]any{
				"paymentId": c.PaymentID, "commandId": c.ID, "reason": "the bank is closed",
			})}
		}
		return []answer{say(workflow.PaymentRefunded, map[string]any{"paymentId": c.PaymentID, "refundId": "refund-" + c.OrderID})}

	case workflow.ReleaseInventory:
		return []answer{say(workflow.InventoryReleased, map[string]any{"reservationId": c.ReservationID})}

	default: // CancelOrder: whoever placed the order is told, and says nothing
		return nil
	}
}

// stubborn marks a payment whose first refund fails: a refund no longer says
// who the customer is.
const stubborn = "-stubborn"

func payment(c command) string {
	id := "payment-" + c.OrderID
	if c.CustomerID == StubbornBank {
		id += stubborn
	}
	return id
}

func (c command) has(sku string) bool {
	for _, l := range c.Lines {
		if l.SKU == sku {
			return true
		}
	}
	return false
}
