package workflow

import (
	"encoding/json"
	"time"
)

// commandBody is the JSON body of a command: what its service needs, from what
// is recorded. Equal orders give equal bytes.
func commandBody(o *Order, t MessageType) []byte {
	type body struct {
		OrderID       string `json:"orderId"`
		CustomerID    string `json:"customerId,omitempty"`
		Amount        *int64 `json:"amount,omitempty"`
		Currency      string `json:"currency,omitempty"`
		Lines         []Line `json:"lines,omitempty"`
		ReservationID string `json:"reservationId,omitempty"`
		PaymentID     string `json:"paymentId,omitempty"`
		Reason        string `json:"reason,omitempty"`
	}
	b := body{OrderID: o.ID}
	switch t {
	case ReserveInventory:
		b.Lines = o.Lines
	case CapturePayment:
		b.CustomerID, b.Amount, b.Currency, b.ReservationID = o.CustomerID, &o.Amount, o.Currency, o.ref(Goods)
	case ShipOrder:
		b.Lines, b.ReservationID, b.PaymentID = o.Lines, o.ref(Goods), o.ref(Money)
	case RefundPayment:
		b.PaymentID, b.Amount, b.Currency = o.ref(Money), &o.Amount, o.Currency
	case ReleaseInventory:
		b.ReservationID = o.ref(Goods)
	case CancelOrder:
		b.Reason = o.Because
	default:
	}
	return mustJSON(b)
}

// ref is the recorded reference of an effect, empty when unknown.
func (o *Order) ref(kind EffectKind) string {
	if e := o.effect(kind); e != nil {
		return e.Ref
	}
	return ""
}

// DeadlineBody is the JSON body of a deadline that is due at a time by the
// database's clock.
func DeadlineBody(orderID, timeoutID string, dueAt time.Time) []byte {
	return mustJSON(struct {
		OrderID   string    `json:"orderId"`
		TimeoutID string    `json:"timeoutId"`
		DueAt     time.Time `json:"dueAt"`
	}{orderID, timeoutID, dueAt.UTC()})
}

// DeathBody is the JSON body of the message that tells an order that one of its
// commands could not be sent.
func DeathBody(orderID, commandID, reason string) []byte {
	return mustJSON(struct {
		OrderID   string `json:"orderId"`
		CommandID string `json:"commandId"`
		Reason    string `json:"reason"`
	}{orderID, commandID, reason})
}

// ActionBody is the JSON body of an operator's action on an order as seen at a
// version.
func ActionBody(orderID string, version int64, reason string) []byte {
	return mustJSON(struct {
		OrderID string `json:"orderId"`
		Version int64  `json:"version"`
		Reason  string `json:"reason"`
	}{orderID, version, reason})
}

// mustJSON encodes a struct of texts and numbers, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
