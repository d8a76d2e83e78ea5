package amqp

import (
	"fmt"
	"time"
)

// Message is a message in its sections (3.2). The body is Data, Sequences or
// Value, whichever is not nil; HasValue tells a null value from none.
type Message struct {
	Header                *Header
	DeliveryAnnotations   Map
	Annotations           Map
	Properties            *Properties
	ApplicationProperties Map
	Data                  [][]byte
	Sequences             [][]any
	Value                 any
	HasValue              bool
	Footer                Map
}

// Header says how a message is to be delivered (3.2.1).
type Header struct {
	Durable       bool
	Priority      *uint8
	TTL           *uint32 // milliseconds
	FirstAcquirer bool
	// DeliveryCount counts the failed deliveries before this one.
	DeliveryCount uint32
}

// Properties are the standard ones (3.2.4). MessageID and CorrelationID are a
// uint64, UUID, []byte or string, nil when absent; strings are nil when absent.
type Properties struct {
	MessageID          any
	UserID             []byte
	To                 *string
	Subject            *string
	ReplyTo            *string
	CorrelationID      any
	ContentType        *Symbol
	ContentEncoding    *Symbol
	AbsoluteExpiryTime *time.Time
	CreationTime       *time.Time
	GroupID            *string
	GroupSequence      *uint32
	ReplyToGroupID     *string
}

// DecodeMessage reads the sections of a message. It takes them in any order,
// and a section that may be there once only once (3.2).
func DecodeMessage(b []byte) (*Message, error) {
	m := &Message{}
	seen := map[uint64]bool{}
	for len(b) > 0 {
		v, rest, err := Decode(b)
		if err != nil {
			return nil, err
		}
		code, value, ok := descriptor(v)
		if !ok {
			return nil, fmt.Errorf("amqp: decode: %T where a section belongs", v)
		}
		if seen[code] && code != descData && code != descSequence {
			return nil, fmt.Errorf("amqp: decode: section 0x%02x is there twice", code)
		}
		seen[code] = true
		if err := m.section(code, value); err != nil {
			return nil, err
		}
		b = rest
	}
	return m, nil
}

func (m *Message) section(code uint64, value any) error {
	f := &fields{of: "message", list: []any{value}}
	switch code {
	case descHeader:
		h := &fields{of: "header", list: required[[]any](f, "header")}
		m.Header = newHeader(h)
		f.adopt(h)
	case descDeliveryAnnotations:
		m.DeliveryAnnotations = optional[Map](f, "delivery-annotations")
	case descMessageAnnotations:
		m.Annotations = optional[Map](f, "message-annotations")
	case descProperties:
		p := &fields{of: "properties", list: required[[]any](f, "properties")}
		m.Properties = newProperties(p)
		f.adopt(p)
	case descApplicationProperties:
		m.ApplicationProperties = optional[Map](f, "application-properties")
	case descData:
		m.Data = append(m.Data, required[[]byte](f, "data"))
	case descSequence:
		m.Sequences = append(m.Sequences, required[[]any](f, "amqp-sequence"))
	case descValue:
		m.Value, m.HasValue = value, true
	case descFooter:
		m.Footer = optional[Map](f, "footer")
	default:
		f.fail("section", "0x%02x is not defined", code)
	}
	return f.err
}

func newHeader(f *fields) *Header {
	return &Header{
		Durable:       optional[bool](f, "durable"),
		Priority:      pointer[uint8](f, "priority"),
		TTL:           pointer[uint32](f, "ttl"),
		FirstAcquirer: optional[bool](f, "first-acquirer"),
		DeliveryCount: optional[uint32](f, "delivery-count"),
	}
}

func newProperties(f *fields) *Properties {
	return &Properties{
		MessageID:          identifier(f, "message-id"),
		UserID:             optional[[]byte](f, "user-id"),
		To:                 pointer[string](f, "to"),
		Subject:            pointer[string](f, "subject"),
		ReplyTo:            pointer[string](f, "reply-to"),
		CorrelationID:      identifier(f, "correlation-id"),
		ContentType:        pointer[Symbol](f, "content-type"),
		ContentEncoding:    pointer[Symbol](f, "content-encoding"),
		AbsoluteExpiryTime: pointer[time.Time](f, "absolute-expiry-time"),
		CreationTime:       pointer[time.Time](f, "creation-time"),
		GroupID:            pointer[string](f, "group-id"),
		GroupSequence:      pointer[uint32](f, "group-sequence"),
		ReplyToGroupID:     pointer[string](f, "reply-to-group-id"),
	}
}

// identifier reads a message-id or correlation-id (3.2.11 to 3.2.14).
func identifier(f *fields, name string) any {
	v := f.any()
	switch v.(type) {
	case nil, uint64, UUID, []byte, string:
		return v
	}
	f.fail(name, "%T is no message-id", v)
	return nil
}

// Append appends the message's encoding to b, sections in the standard's order.
func (m *Message) Append(b []byte) []byte {
	if h := m.Header; h != nil {
		b = Append(b, composite(descHeader, null(h.Durable), deref(h.Priority), deref(h.TTL), null(h.FirstAcquirer), h.DeliveryCount))
	}
	b = appendMap(b, descDeliveryAnnotations, m.DeliveryAnnotations)
	b = appendMap(b, descMessageAnnotations, m.Annotations)
	if p := m.Properties; p != nil {
		var user any
		if p.UserID != nil {
			user = p.UserID
		}
		b = Append(b, composite(descProperties, p.MessageID, user, deref(p.To), deref(p.Subject), deref(p.ReplyTo),
			p.CorrelationID, deref(p.ContentType), deref(p.ContentEncoding), deref(p.AbsoluteExpiryTime),
			deref(p.CreationTime), deref(p.GroupID), deref(p.GroupSequence), deref(p.ReplyToGroupID)))
	}
	b = appendMap(b, descApplicationProperties, m.ApplicationProperties)
	for _, data := range m.Data {
		b = Append(b, Described{Descriptor: descData, Value: data})
	}
	for _, sequence := range m.Sequences {
		b = Append(b, Described{Descriptor: descSequence, Value: sequence})
	}
	if m.HasValue {
		b = Append(b, Described{Descriptor: descValue, Value: m.Value})
	}
	return appendMap(b, descFooter, m.Footer)
}

func appendMap(b []byte, code uint64, m Map) []byte {
	if m == nil {
		return b
	}
	return Append(b, Described{Descriptor: code, Value: m})
}
