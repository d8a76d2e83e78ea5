package functions

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"orderflow/workflow"
)

// metadata is what the host says of a message, as far as it is read here. Each
// key may be absent, and none is trusted to have the form it should have.
type metadata struct {
	MessageID       metadataText `json:"MessageId"`
	SessionID       metadataText `json:"SessionId"`
	CorrelationID   metadataText `json:"CorrelationId"`
	Subject         metadataText `json:"Subject"`
	Label           metadataText `json:"Label"`
	DeliveryCount   metadataText `json:"DeliveryCount"`
	SequenceNumber  metadataText `json:"SequenceNumber"`
	EnqueuedTimeUTC metadataText `json:"EnqueuedTimeUtc"`
	EnqueuedTime    metadataText `json:"EnqueuedTime"`
	Properties      properties   `json:"ApplicationProperties"`
}

// metadataKey is one key that is read here.
type metadataKey struct {
	name   string
	forget func()
}

// keys lists all that is read, by the names that the host gives it.
func (m *metadata) keys() []metadataKey {
	text := func(name string, value *metadataText) metadataKey {
		return metadataKey{name, func() { *value = "" }}
	}
	return []metadataKey{
		text("MessageId", &m.MessageID),
		text("SessionId", &m.SessionID),
		text("CorrelationId", &m.CorrelationID),
		text("Subject", &m.Subject),
		text("Label", &m.Label),
		text("DeliveryCount", &m.DeliveryCount),
		text("SequenceNumber", &m.SequenceNumber),
		text("EnqueuedTimeUtc", &m.EnqueuedTimeUTC),
		text("EnqueuedTime", &m.EnqueuedTime),
		{"ApplicationProperties", func() { m.Properties = properties{} }},
	}
}

// describe writes who a message is and how it came into its arrival.
func (m *metadata) describe(a *arrival, traceHeader string) {
	e, d := &a.envelope, &a.delivery
	e.ID = string(m.MessageID)
	e.OrderID = string(m.SessionID)
	e.Conversation = string(m.CorrelationID)
	e.Type = workflow.MessageType(m.Subject)
	if e.Type == "" {
		e.Type = workflow.MessageType(m.Label)
	}
	e.ParentID = string(m.Properties.Parent)
	e.OriginID = string(m.Properties.Origin)
	e.Schema = string(m.Properties.Schema)
	e.TraceParent = traceParent(traceHeader, string(m.Properties.TraceParent), string(m.Properties.DiagnosticID))

	d.Count = int(max(0, m.DeliveryCount.number(32)))
	d.Sequence = m.SequenceNumber.number(64)
	if d.EnqueuedAt = m.EnqueuedTimeUTC.time(); d.EnqueuedAt.IsZero() {
		d.EnqueuedAt = m.EnqueuedTime.time()
	}
}

// metadataText is one metadata value as text. The host writes a value that is
// no object as its JSON text inside a JSON string, and a time bare: 3 comes as
// "3", abc as "\"abc\"". Less quoting and more is understood as well; a value
// of another kind counts as absent.
type metadataText string

// UnmarshalJSON never fails: an odd value must not spoil the others.
func (t *metadataText) UnmarshalJSON(raw []byte) error {
	*t = metadataText(plainText(raw))
	return nil
}

func plainText(raw []byte) string {
	// The usual form of a text, "\"abc\"", without two rounds of decoding.
	if inner, ok := bytes.CutPrefix(raw, []byte(`"\"`)); ok {
		if inner, ok = bytes.CutSuffix(inner, []byte(`\""`)); ok && isPlain(inner) {
			return string(inner)
		}
	}
	content, isString := unquote(raw)
	if !isString {
		return numberText(raw)
	}
	if inner, isQuoted := unquote(content); isQuoted {
		return string(inner)
	}
	return string(content)
}

// numberText is a bare JSON number as it was written, empty for anything else.
func numberText(raw []byte) string {
	if c := raw[0]; c == '-' || ('0' <= c && c <= '9') {
		return string(raw)
	}
	return ""
}

// number is a whole number of so many bits, 0 when it is none.
func (t metadataText) number(bits int) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(string(t)), 10, bits)
	if err != nil {
		return 0
	}
	return n
}

// time is a point in time, zero when it is none. One without a zone is in UTC.
func (t metadataText) time() time.Time {
	if t == "" {
		return time.Time{}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", time.RFC3339} { // both take a fraction
		if at, err := time.Parse(layout, string(t)); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// properties are the application properties that are read here.
type properties struct {
	Parent       nativeText `json:"ParentMessageId"`
	Origin       nativeText `json:"OriginatingMessageId"`
	Schema       nativeText `json:"SchemaVersion"`
	TraceParent  nativeText `json:"traceparent"`
	DiagnosticID nativeText `json:"Diagnostic-Id"`
}

// UnmarshalJSON never fails: properties that are no object count as none.
func (p *properties) UnmarshalJSON(raw []byte) error {
	type plain properties // without this method
	if content, isString := unquote(raw); isString {
		raw = content
	}
	var read plain
	if json.Unmarshal(raw, &read) != nil {
		read = plain{}
	}
	*p = properties(read)
	return nil
}

// nativeText is a property's value as text. Properties keep their JSON type and
// are quoted once; a number may stand where a text is meant.
type nativeText string

// UnmarshalJSON never fails: an odd property must not spoil the others.
func (t *nativeText) UnmarshalJSON(raw []byte) error {
	if content, isString := unquote(raw); isString {
		*t = nativeText(content)
		return nil
	}
	text := numberText(raw)
	if f, err := strconv.ParseFloat(text, 64); err == nil && f == float64(int64(f)) && strings.ContainsAny(text, ".eE") {
		text = strconv.FormatInt(int64(f), 10) // 1.0 is 1
	}
	*t = nativeText(text)
	return nil
}
