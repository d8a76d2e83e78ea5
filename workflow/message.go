package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxNesting is how deep the JSON of a body may be nested.
const MaxNesting = 64

// Envelope is a message as it travels: who it is, what caused it, and its body
// as bytes. Nothing in it has been believed yet; Decode does that.
type Envelope struct {
	ID           string      // MessageId
	Type         MessageType // Subject
	OrderID      string      // SessionId
	Conversation string      // CorrelationId; empty when absent
	ParentID     string      // ParentMessageId, empty when absent
	OriginID     string      // OriginatingMessageId, empty when absent
	Schema       string      // SchemaVersion; absent means "1"
	TraceParent  string      // W3C trace context, empty when absent
	Body         []byte      // JSON, exactly as it came
}

// Message is an Envelope whose identity and body were found to be sound, with
// what the store knows about it.
type Message struct {
	Envelope
	Facts Facts
	// Fingerprint is the hex SHA-256 over the subject and the canonical JSON
	// body: equal for equal content, whatever its spacing and order of fields.
	Fingerprint string
	// Delivery says how it got here; the zero value for what never travelled.
	Delivery Delivery

	// DueAt is when the deadline this message speaks of is due, by database
	// time, and NotDue whether that is still ahead. Set by the store at load,
	// for deadlines only.
	DueAt  time.Time
	NotDue bool
}

// Delivery is how a message got here, for the record only: nothing is decided
// by it.
type Delivery struct {
	Function   string    // the function it arrived at
	Count      int       // DeliveryCount, 1 at the first delivery; 0 unknown
	Sequence   int64     // SequenceNumber at the broker
	EnqueuedAt time.Time // zero when unknown
}

// Facts is what a body says. Which fields a message of a type has stands in
// fields.go; the others are zero.
type Facts struct {
	CustomerID    string
	Currency      string // ISO 4217, three capital letters
	Amount        int64  // in the currency's smallest unit
	Lines         []Line
	ReservationID string
	PaymentID     string
	RefundID      string
	ShipmentID    string
	CommandID     string // the MessageId of the command that is spoken of
	Reason        string
	TimeoutID     string
	DueAt         time.Time
	Version       int64 // the business version an operator saw
}

// Line is one position of an order.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// ErrMalformed is wrapped by every error of Decode: the message can never be
// accepted, however often it is delivered.
var ErrMalformed = errors.New("malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Decode checks the identity and the body of a message and returns it ready to
// be applied. An absent origin, parent or schema takes its default; nothing is
// ever replaced by a random value. Errors wrap ErrMalformed and say what is
// wrong, where, in words for the person who has to mend it.
func (e Envelope) Decode() (Message, error) {
	if why := IDFault(e.ID); why != "" {
		return Message{}, malformed("MessageId %s", why)
	}
	if why := IDFault(e.OrderID); why != "" {
		return Message{}, malformed("SessionId %s", why)
	}
	if why := OrderIDFault(e.OrderID); why != "" {
		return Message{}, malformed("SessionId %q is no order ID: it %s", e.OrderID, why)
	}
	for _, id := range []struct{ name, value string }{
		{"CorrelationId", e.Conversation}, {"ParentMessageId", e.ParentID}, {"OriginatingMessageId", e.OriginID},
	} {
		if id.value == "" {
			continue
		}
		if why := IDFault(id.value); why != "" {
			return Message{}, malformed("%s %s", id.name, why)
		}
	}
	if e.Schema == "" {
		e.Schema = "1"
	}
	if e.Schema != "1" {
		return Message{}, malformed("SchemaVersion %q is not known; this program reads version 1", e.Schema)
	}
	e.ParentID = selfOr(e.ParentID, e.ID)
	e.OriginID = selfOr(e.OriginID, e.ID)

	object, body, err := parseBody(e.Body)
	if err != nil {
		return Message{}, err
	}
	e.Body = body
	facts, err := decodeFacts(e.Type, e.OrderID, object)
	if err != nil {
		return Message{}, err
	}
	if ownID(e.OrderID, e.ID) && !e.Type.Internal() && facts.TimeoutID != e.ID {
		return Message{}, malformed("MessageId %s is one that the order gives to its own messages; %s would make that one a duplicate", quote(e.ID), e.Type)
	}
	return Message{Envelope: e, Facts: facts, Fingerprint: fingerprint(e.Type, object)}, nil
}

// selfOr is the message's own ID where a lineage property is absent or says
// "self", in any case of letters.
func selfOr(id, self string) string {
	if id == "" || strings.EqualFold(id, "self") {
		return self
	}
	return id
}

// parseBody reads a body as one JSON object, unwrapping once a JSON string
// that holds it, and returns its members and the object's own bytes.
func parseBody(raw []byte) (map[string]any, []byte, error) {
	body := bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	if len(body) == 0 {
		return nil, nil, malformed("the body is empty; a JSON object is expected")
	}
	if !utf8.Valid(body) {
		return nil, nil, malformed("the body is not valid UTF-8")
	}
	if body[0] == '"' {
		var inner string
		if err := json.Unmarshal(body, &inner); err != nil {
			return nil, nil, malformed("the body is not JSON: %v", err)
		}
		body = bytes.TrimSpace([]byte(inner))
	}
	if depth := nesting(body); depth > MaxNesting {
		return nil, nil, malformed("the body is nested deeper than %d levels", MaxNesting)
	}
	if !json.Valid(body) { // to the end, unlike Decoder
		var whole json.RawMessage
		err := json.Unmarshal(body, &whole)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, nil, malformed("the body is not JSON: %v at byte %d", err, syntax.Offset)
		}
		return nil, nil, malformed("the body is not JSON: %v", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // an amount is never a float, not even for a moment
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, nil, malformed("the body is not a JSON object")
	}
	return object, body, nil
}

// nesting is the greatest depth of objects and arrays in JSON text, found
// without recursion.
func nesting(text []byte) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func printable(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }

// quote shortens a text from outside for use in a reason.
func quote(s string) string { return strconv.Quote(clip(s, 200)) }

// clip cuts a text after so many characters, and shows that it did.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
