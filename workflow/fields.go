package workflow

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// field is one member of a body: its name on the wire, what it must be, and
// how it is read into Facts.
type field struct {
	name string
	want string
	read func(*Facts, any) bool
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

	currency = field{"currency", `three capital letters, such as "EUR"`, func(f *Facts, value any) bool {
		return isText(value, &f.Currency) && len(f.Currency) == 3 && isUpper(f.Currency)
	}}
	amount = field{"amount", "a whole number in the currency's smallest unit, not negative", func(f *Facts, value any) bool {
		return isWhole(value, &f.Amount) && f.Amount >= 0
	}}
	lines = field{"lines", `a list of at least one {"sku","quantity"} with a quantity of at least 1`, func(f *Facts, value any) bool {
		return isLines(value, &f.Lines)
	}}
	reason = field{"reason", "a text", func(f *Facts, value any) bool { return isText(value, &f.Reason) }}
	dueAt  = field{"dueAt", "a time as in RFC 3339", func(f *Facts, value any) bool {
		var text string
		if !isText(value, &text) {
			return false
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		f.DueAt = at.UTC()
		return err == nil
	}}
	version = field{"version", "the version of the order that was seen, a whole number", func(f *Facts, value any) bool {
		return isWhole(value, &f.Version) && f.Version >= 0
	}}
)

func reference(name string, of func(*Facts) *string) field {
	want := fmt.Sprintf("a text of 1 to %d printable characters", MaxIDLength)
	return field{name, want, func(f *Facts, value any) bool {
		return isText(value, of(f)) && IDFault(*of(f)) == ""
	}}
}

// isText reads a JSON string; null and an absent member are none.
func isText(value any, to *string) (is bool) {
	*to, is = value.(string)
	return is
}

// isWhole reads a JSON number written without fraction and exponent.
func isWhole(value any, to *int64) bool {
	number, is := value.(json.Number)
	if !is {
		return false
	}
	n, err := strconv.ParseInt(number.String(), 10, 64)
	*to = n
	return err == nil
}

func isUpper(s string) bool {
	for _, r := range s {
		if r < 'A' || r > 'Z' {
			return false
		}
	}
	return true
}

// isLines reads the positions of an order.
func isLines(value any, to *[]Line) bool {
	list, _ := value.([]any)
	*to = make([]Line, len(list))
	for i := range list {
		members, _ := list[i].(map[string]any)
		l := &(*to)[i]
		if !isText(members["sku"], &l.SKU) || IDFault(l.SKU) != "" {
			return false
		}
		if !isWhole(members["quantity"], &l.Quantity) || l.Quantity < 1 {
			return false
		}
	}
	return len(list) > 0
}

// decodeFacts reads what a body of a type must say.
func decodeFacts(t MessageType, orderID string, object map[string]any) (Facts, error) {
	fields, known := fieldsOf[t]
	if !known {
		return Facts{}, malformed("the message type (Subject) %s is not known", quote(string(t)))
	}
	var id string
	if !isText(object["orderId"], &id) {
		return Facts{}, malformed("%s: the field orderId is missing or not a text", t)
	}
	if id != orderID {
		return Facts{}, malformed("%s: the body speaks of order %s, its SessionId is %q", t, quote(id), orderID)
	}
	var facts Facts
	for _, f := range fields {
		value, present := object[f.name]
		if !present {
			return Facts{}, malformed("%s: the field %s is missing; it must be %s", t, f.name, f.want)
		}
		if !f.read(&facts, value) {
			return Facts{}, malformed("%s: the field %s must be %s; it is %s", t, f.name, f.want, shown(value))
		}
	}
	return facts, nil
}

// shown is a JSON value as a person may read it in a reason: in quotes, as is
// all that a reason takes from a body, so that it can be left out of a log.
func shown(value any) string {
	if text, is := value.(string); is {
		return quote(text)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "unreadable"
	}
	return quote(string(text))
}
