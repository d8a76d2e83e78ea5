package workflow

import (
	"encoding/json"
	"fmt"
	"time"
)

// field is one member of a body: its name on the wire, what it must be, and
// how it is read into Facts.
type field struct {
	name string
	want string
	read func(*Facts, json.RawMessage) bool
}

// fieldsOf lists the members that a message of each type must have besides
// orderId. Others are ignored on reading and kept in what is stored.
//
//nolint:gochecknoglobals // read-only: the bodies of process.md
var fieldsOf = map[MessageType][]field{
	OrderPlaced:            {customerID, currency, amount, lines},
	InventoryReserved:      {reservationID},
	InventoryRejected:      {reason},
	PaymentCaptured:        {paymentID},
	PaymentFailed:          {reason},
	ShipmentConfirmed:      {shipmentID},
	ShipmentFailed:         {reason},
	PaymentRefunded:        {paymentID, refundID},
	PaymentRefundFailed:    {paymentID, commandID, reason},
	InventoryReleased:      {reservationID},
	InventoryReleaseFailed: {reservationID, commandID, reason},
	CancellationRequested:  {reason},

	InventoryDeadlineExpired:    {timeoutID, dueAt},
	PaymentDeadlineExpired:      {timeoutID, dueAt},
	ShipmentDeadlineExpired:     {timeoutID, dueAt},
	CompensationDeadlineExpired: {timeoutID, dueAt},

	DispatchFailed:   {commandID, reason},
	Retry:            {version, reason},
	ResolveCancelled: {version, reason},
	ResolveCompleted: {version, reason},
}

//nolint:gochecknoglobals // read-only: the vocabulary of fieldsOf
var (
	customerID    = reference("customerId", func(f *Facts) *string { return &f.CustomerID })
	reservationID = reference("reservationId", func(f *Facts) *string { return &f.ReservationID })
	paymentID     = reference("paymentId", func(f *Facts) *string { return &f.PaymentID })
	refundID      = reference("refundId", func(f *Facts) *string { return &f.RefundID })
	shipmentID    = reference("shipmentId", func(f *Facts) *string { return &f.ShipmentID })
	commandID     = reference("commandId", func(f *Facts) *string { return &f.CommandID })
	timeoutID     = reference("timeoutId", func(f *Facts) *string { return &f.TimeoutID })

	currency = field{"currency", `three capital letters, such as "EUR"`, func(f *Facts, raw json.RawMessage) bool {
		return into(raw, &f.Currency) && len(f.Currency) == 3 && isUpper(f.Currency)
	}}
	amount = field{"amount", "a whole number in the currency's smallest unit, not negative", func(f *Facts, raw json.RawMessage) bool {
		return into(raw, &f.Amount) && f.Amount >= 0
	}}
	lines = field{"lines", `a list of at least one {"sku","quantity"} with a quantity of at least 1`, func(f *Facts, raw json.RawMessage) bool {
		return intoLines(raw, &f.Lines)
	}}
	reason = field{"reason", "a text", func(f *Facts, raw json.RawMessage) bool { return into(raw, &f.Reason) }}
	dueAt  = field{"dueAt", "a time as in RFC 3339", func(f *Facts, raw json.RawMessage) bool {
		var text string
		if !into(raw, &text) {
			return false
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		f.DueAt = at.UTC()
		return err == nil
	}}
	version = field{"version", "the version of the order that was seen, a whole number", func(f *Facts, raw json.RawMessage) bool {
		return into(raw, &f.Version) && f.Version >= 0
	}}
)

func reference(name string, of func(*Facts) *string) field {
	want := fmt.Sprintf("a text of 1 to %d printable characters", MaxIDLength)
	return field{name, want, func(f *Facts, raw json.RawMessage) bool {
		return into(raw, of(f)) && validID(*of(f)) == ""
	}}
}

// into reads a JSON value that must be of the target's kind; null and an absent
// member are not.
func into(raw json.RawMessage, target any) bool {
	return string(raw) != "null" && json.Unmarshal(raw, target) == nil
}

func isUpper(s string) bool {
	for _, r := range s {
		if r < 'A' || r > 'Z' {
			return false
		}
	}
	return true
}

// intoLines reads the positions of an order. Their members are looked up by
// name: decoding into the struct would also take "SKU" for "sku".
func intoLines(raw json.RawMessage, lines *[]Line) bool {
	var list []map[string]json.RawMessage
	if !into(raw, &list) || len(list) == 0 {
		return false
	}
	*lines = make([]Line, len(list))
	for i, members := range list {
		l := &(*lines)[i]
		if !into(members["sku"], &l.SKU) || validID(l.SKU) != "" {
			return false
		}
		if !into(members["quantity"], &l.Quantity) || l.Quantity < 1 {
			return false
		}
	}
	return true
}

// decodeFacts reads what a body of a type must say.
func decodeFacts(t MessageType, orderID string, object map[string]json.RawMessage) (Facts, error) {
	fields, known := fieldsOf[t]
	if !known {
		return Facts{}, malformed("the message type (Subject) %s is not known", quote(string(t)))
	}
	var id string
	if raw, present := object["orderId"]; !present || !into(raw, &id) {
		return Facts{}, malformed("%s: the field orderId is missing or not a text", t)
	}
	if id != orderID {
		return Facts{}, malformed("%s: the body speaks of order %s, its SessionId is %q", t, quote(id), orderID)
	}
	var facts Facts
	for _, f := range fields {
		raw, present := object[f.name]
		if !present {
			return Facts{}, malformed("%s: the field %s is missing; it must be %s", t, f.name, f.want)
		}
		if !f.read(&facts, raw) {
			return Facts{}, malformed("%s: the field %s must be %s; it is %s", t, f.name, f.want, quote(string(raw)))
		}
	}
	return facts, nil
}
