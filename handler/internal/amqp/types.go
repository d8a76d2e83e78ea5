package amqp

import "fmt"

// A value is held in Go as (1.6):
//
//	null nil            boolean bool
//	ubyte uint8         byte int8
//	ushort uint16       short int16
//	uint uint32         int int32
//	ulong uint64        long int64
//	float float32       double float64
//	char Char           timestamp time.Time, in milliseconds
//	binary []byte       string string
//	uuid UUID           symbol Symbol
//	list []any          map Map
//	array Array         described Described
//	decimal32, decimal64, decimal128: Decimal32, Decimal64, Decimal128

// Symbol is a value from a constrained domain, in ASCII (1.6.21).
type Symbol string

// Char is one Unicode character (1.6.16).
type Char rune

// UUID is in network byte order, as RFC 4122 has it (1.6.18).
type UUID [16]byte

// Decimal32 is carried, not understood (1.6.13).
type Decimal32 [4]byte

// Decimal64 is carried, not understood (1.6.14).
type Decimal64 [8]byte

// Decimal128 is carried, not understood (1.6.15).
type Decimal128 [16]byte

// Described is a value with a descriptor that says what it means (1.2).
type Described struct {
	Descriptor any
	Value      any
}

// Map keeps its entries in the order of the wire, so that encoding it again
// gives the same bytes (1.6.23).
type Map []Entry

// Entry is one key of a Map with its value.
type Entry struct {
	Key, Value any
}

// Get is the value under the key that is name as a symbol or as a string; nil
// when there is none.
func (m Map) Get(name string) any {
	v, _ := m.Lookup(name)
	return v
}

// Lookup is Get that tells a null value from none.
func (m Map) Lookup(name string) (v any, ok bool) {
	for _, e := range m {
		switch k := e.Key.(type) {
		case Symbol:
			ok = string(k) == name
		case string:
			ok = k == name
		}
		if ok {
			return e.Value, true
		}
	}
	return nil, false
}

// Array holds values of one type (1.6.24). Of is the format code of the type's
// widest encoding, which every item has; Descriptor is nil unless the items
// are described, and is then the same for all.
type Array struct {
	Of         byte
	Descriptor any
	Items      []any
}

// ArrayOf is an array of values of one Go type, which must be a primitive one.
func ArrayOf[T any](items []T) Array {
	var zero T
	a := Array{Of: widest(zero), Items: make([]any, len(items))}
	for i, item := range items {
		a.Items[i] = item
	}
	return a
}

// Error is why a link, session, connection or delivery failed (2.8.14).
type Error struct {
	Condition   Symbol
	Description string
	Info        Map
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", e.Condition, e.Description)
}

// Errorf is an Error without Info.
func Errorf(condition Symbol, format string, args ...any) *Error {
	return &Error{Condition: condition, Description: fmt.Sprintf(format, args...)}
}

// Error conditions of the standard (2.8.15 to 2.8.18).
const (
	InternalError         Symbol = "amqp:internal-error"
	NotFound              Symbol = "amqp:not-found"
	UnauthorizedAccess    Symbol = "amqp:unauthorized-access"
	DecodeFailed          Symbol = "amqp:decode-error"
	ResourceLimitExceeded Symbol = "amqp:resource-limit-exceeded"
	NotAllowed            Symbol = "amqp:not-allowed"
	InvalidField          Symbol = "amqp:invalid-field"
	NotImplemented        Symbol = "amqp:not-implemented"
	IllegalState          Symbol = "amqp:illegal-state"
	ConnectionForced      Symbol = "amqp:connection:forced"
	FramingError          Symbol = "amqp:connection:framing-error"
	WindowViolation       Symbol = "amqp:session:window-violation"
	HandleInUse           Symbol = "amqp:session:handle-in-use"
	UnattachedHandle      Symbol = "amqp:session:unattached-handle"
	TransferLimitExceeded Symbol = "amqp:link:transfer-limit-exceeded"
	MessageSizeExceeded   Symbol = "amqp:link:message-size-exceeded"
	DetachForced          Symbol = "amqp:link:detach-forced"
)
