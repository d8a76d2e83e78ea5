package busserver

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// Annotations of Service Bus.
const (
	annScheduled    = "x-opt-scheduled-enqueue-time"
	annPartition    = "x-opt-partition-key"
	annSequence     = "x-opt-sequence-number"
	annEnqueuedSeq  = "x-opt-enqueue-sequence-number"
	annEnqueuedTime = "x-opt-enqueued-time"
	annLockedUntil  = "x-opt-locked-until"
	annState        = "x-opt-message-state"
	annLockToken    = "x-opt-lock-token"

	propReason      = "DeadLetterReason"
	propDescription = "DeadLetterErrorDescription"
)

// fromWire is a message as the bus takes it. One without a MessageId gets a
// random one, as the bus needs one. An error is an *amqp.Error.
func fromWire(w *amqp.Message) (localbus.Message, error) {
	if w.HasValue || w.Sequences != nil {
		return localbus.Message{}, amqp.Errorf(amqp.NotImplemented, "The body must be data sections.")
	}
	var m localbus.Message
	for _, data := range w.Data {
		m.Body = append(m.Body, data...)
	}
	if p := w.Properties; p != nil {
		m.MessageID = text(p.MessageID)
		m.CorrelationID = text(p.CorrelationID)
		m.SessionID = value(p.GroupID)
		m.Subject = value(p.Subject)
		m.ContentType = string(value(p.ContentType))
		m.To = value(p.To)
		m.ReplyTo = value(p.ReplyTo)
		m.ReplyToSessionID = value(p.ReplyToGroupID)
	}
	if m.MessageID == "" {
		m.MessageID = uuid.NewString()
	}
	if w.Header != nil && w.Header.TTL != nil {
		m.TimeToLive = time.Duration(*w.Header.TTL) * time.Millisecond
	}
	m.ScheduledAt, _ = w.Annotations.Get(annScheduled).(time.Time)
	m.PartitionKey, _ = w.Annotations.Get(annPartition).(string)
	for _, e := range w.ApplicationProperties {
		name, ok := e.Key.(string)
		if !ok {
			return localbus.Message{}, amqp.Errorf(amqp.InvalidField, "An application property's name is a %T.", e.Key)
		}
		if e.Value == nil {
			continue
		}
		v, ok := property(e.Value)
		if !ok {
			return localbus.Message{}, amqp.Errorf(amqp.InvalidField, "The application property '%s' has a type that is not kept here: %T.", name, e.Value)
		}
		if m.Properties == nil {
			m.Properties = map[string]any{}
		}
		m.Properties[name] = v
	}
	return m, nil
}

// value is what p points at, zero for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// text is a message-id or correlation-id as a string.
func text(id any) string {
	switch id := id.(type) {
	case string:
		return id
	case uint64:
		return strconv.FormatUint(id, 10)
	case amqp.UUID:
		return uuid.UUID(id).String()
	case []byte:
		return hex.EncodeToString(id)
	}
	return ""
}

// property is an application property as the bus keeps it.
func property(v any) (any, bool) {
	switch v := v.(type) {
	case string, bool, int32, int64, float64, []byte, time.Time:
		return v, true
	case int8:
		return int32(v), true
	case int16:
		return int32(v), true
	case uint8:
		return int32(v), true
	case uint16:
		return int32(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case float32:
		return float64(v), true
	case amqp.Symbol:
		return string(v), true
	case amqp.UUID:
		return uuid.UUID(v), true
	}
	return nil, false
}

// toWire is a message of the bus as a client gets it. Header and properties are
// always there: some clients read the delivery count only then.
func toWire(m *localbus.Message) *amqp.Message {
	w := &amqp.Message{
		Header: &amqp.Header{DeliveryCount: failedDeliveries(m)},
		Properties: &amqp.Properties{
			MessageID: m.MessageID,
			GroupID:   given(m.SessionID),
			Subject:   given(m.Subject),
			To:        given(m.To),
			ReplyTo:   given(m.ReplyTo), ReplyToGroupID: given(m.ReplyToSessionID),
			ContentType: given(amqp.Symbol(m.ContentType)),
		},
		Data: [][]byte{m.Body},
	}
	if m.CorrelationID != "" {
		w.Properties.CorrelationID = m.CorrelationID
	}
	if m.TimeToLive > 0 {
		ttl := uint32(min(m.TimeToLive.Milliseconds(), math.MaxUint32))
		expiry := m.EnqueuedAt.Add(m.TimeToLive)
		w.Header.TTL = &ttl
		w.Properties.CreationTime, w.Properties.AbsoluteExpiryTime = &m.EnqueuedAt, &expiry
	}
	annotate := func(name amqp.Symbol, v any) {
		w.Annotations = append(w.Annotations, amqp.Entry{Key: name, Value: v})
	}
	annotate(annSequence, m.SequenceNumber)
	annotate(annEnqueuedSeq, m.SequenceNumber)
	annotate(annEnqueuedTime, m.EnqueuedAt)
	annotate(annState, stateCode(m.State))
	if !m.LockedUntil.IsZero() {
		annotate(annLockedUntil, m.LockedUntil)
	}
	if !m.ScheduledAt.IsZero() {
		annotate(annScheduled, m.ScheduledAt)
	}
	if m.PartitionKey != "" {
		annotate(annPartition, m.PartitionKey)
	}
	for name, v := range m.Properties {
		if name == propReason && m.DeadLetterReason != "" || name == propDescription && m.DeadLetterDescription != "" {
			continue // the bus's own come below
		}
		if id, ok := v.(uuid.UUID); ok {
			v = amqp.UUID(id)
		}
		w.ApplicationProperties = append(w.ApplicationProperties, amqp.Entry{Key: name, Value: v})
	}
	if m.DeadLetterReason != "" {
		w.ApplicationProperties = append(w.ApplicationProperties, amqp.Entry{Key: propReason, Value: m.DeadLetterReason})
	}
	if m.DeadLetterDescription != "" {
		w.ApplicationProperties = append(w.ApplicationProperties, amqp.Entry{Key: propDescription, Value: m.DeadLetterDescription})
	}
	return w
}

// failedDeliveries is what the header says. The bus counts a delivery that is
// going on as well.
func failedDeliveries(m *localbus.Message) uint32 {
	if m.LockToken == "" {
		return uint32(m.DeliveryCount)
	}
	return uint32(max(m.DeliveryCount-1, 0))
}

// given points at v, nil for zero.
func given[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func stateCode(s localbus.State) int32 {
	switch s {
	case localbus.StateDeferred:
		return 1
	case localbus.StateScheduled:
		return 2
	default:
		return 0
	}
}

// lockToken is a message's lock token; zero when it has none.
func lockToken(m *localbus.Message) uuid.UUID {
	token, _ := uuid.Parse(m.LockToken)
	return token
}

// deliveryTag is a lock token as a delivery tag, in the byte order of a .NET
// Guid: the first three groups are little-endian.
func deliveryTag(token uuid.UUID) []byte {
	t := token
	t[0], t[1], t[2], t[3] = token[3], token[2], token[1], token[0]
	t[4], t[5] = token[5], token[4]
	t[6], t[7] = token[7], token[6]
	return t[:]
}
