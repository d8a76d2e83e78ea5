package funchost

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderflow/handler/internal/localbus"
)

// occasion is what every payload needs beside its data: where and when it is
// made, and by whom.
type occasion struct {
	function string
	binding  string
	now      time.Time
	// id is the invocation's random GUID, which sys carries.
	id string
}

func (o occasion) sys() object {
	return object{
		{"MethodName", o.function},
		{"UtcNow", o.now.UTC().Format("2006-01-02T15:04:05.0000000Z")},
		{"RandGuid", o.id},
	}
}

func payload(binding string, data any, metadata object) []byte {
	return appendJSON(nil, object{
		{"Data", object{{binding, data}}},
		{"Metadata", metadata},
	})
}

// client is the ServiceBusClient that Metadata describes.
type client struct {
	namespace  string
	identifier string
}

// messagePayload is the body of a serviceBusTrigger's invocation, cardinality
// one. A zero lockedUntil stands for a message outside any session.
func messagePayload(o occasion, c client, m *localbus.Message, lockedUntil time.Time, binary bool) []byte {
	metadata := messageMetadata(c, m, lockedUntil)
	if binary {
		metadata = append(metadata, property{"sys", o.sys()})
		return payload(o.binding, base64.StdEncoding.EncodeToString(m.Body), metadata)
	}
	metadata = append(poison(metadata, m.Body), property{"sys", o.sys()})
	return payload(o.binding, jsonText(string(m.Body)), metadata)
}

func messageMetadata(c client, m *localbus.Message, lockedUntil time.Time) object {
	actions := object{}
	if !lockedUntil.IsZero() {
		actions = object{{"SessionLockedUntil", lockedUntil}}
	}
	metadata := object{
		{"MessageReceiver", actions},
		{"MessageSession", actions},
		{"MessageActions", actions},
		{"SessionActions", actions},
		{"ReceiveActions", object{}},
		{"Client", object{
			{"FullyQualifiedNamespace", c.namespace},
			{"IsClosed", false},
			{"TransportType", 0},
			{"Identifier", c.identifier},
		}},
		{"DeliveryCount", jsonText(m.DeliveryCount)},
	}
	text := func(key, value string) {
		if value != "" { // null on the host: the key is absent
			metadata = append(metadata, property{key, jsonText(value)})
		}
	}
	moment := func(key string, t time.Time) {
		metadata = append(metadata,
			property{key + "Utc", t.UTC().Format("2006-01-02T15:04:05")},
			property{key, t.UTC().Format("2006-01-02T15:04:05-07:00")})
	}
	text("LockToken", m.LockToken)
	moment("ExpiresAt", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)) // no time to live
	moment("EnqueuedTime", m.EnqueuedAt)
	text("MessageId", m.MessageID)
	text("ContentType", m.ContentType)
	metadata = append(metadata, property{"SequenceNumber", jsonText(m.SequenceNumber)})
	text("Subject", m.Subject)
	text("Label", m.Subject)
	text("CorrelationId", m.CorrelationID)
	properties := applicationProperties(m)
	metadata = append(metadata, property{"ApplicationProperties", properties}, property{"UserProperties", properties})
	text("SessionId", m.SessionID)
	text("PartitionKey", m.SessionID) // the broker's: the two are the same in a session
	return metadata
}

func applicationProperties(m *localbus.Message) object {
	properties := object{}
	for _, name := range slices.Sorted(maps.Keys(m.Properties)) {
		properties = append(properties, property{name, m.Properties[name]})
	}
	return properties
}

// poison does to metadata what the host does in string mode: the top-level
// properties of a body that is a JSON object are merged into it, and overwrite
// what is there in whatever case. Arrays and nulls are spared. sys is added
// later, so it stays genuine.
func poison(metadata object, body []byte) object {
	if !bytes.HasPrefix(body, []byte("{")) || !bytes.HasSuffix(body, []byte("}")) {
		return metadata
	}
	all, err := members(body)
	if err != nil {
		return metadata
	}
	for _, m := range all {
		value, spared := poisonValue(m.value)
		if spared || strings.HasSuffix(strings.ToLower(m.key), "trigger") || strings.EqualFold(m.key, "sys") {
			continue
		}
		metadata = metadata.with(m.key, value)
	}
	return metadata
}

// with overwrites the property that has this name in any case, whose casing
// stays, or appends a new one.
func (o object) with(name string, value any) object {
	for i := range o {
		if strings.EqualFold(o[i].name, name) {
			o[i].value = value
			return o
		}
	}
	return append(o, property{name, value})
}

func poisonValue(raw json.RawMessage) (value any, spared bool) {
	switch raw[0] {
	case '[', 'n':
		return nil, true
	case '{':
		var compact bytes.Buffer
		if json.Compact(&compact, raw) != nil {
			return nil, true
		}
		return verbatim(compact.String()), false
	case 't':
		return jsonText("True"), false
	case 'f':
		return jsonText("False"), false
	case '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil, true
		}
		return jsonText(reformatDate(text)), false
	}
	number := string(raw)
	if f, err := strconv.ParseFloat(number, 64); err == nil && strings.ContainsAny(number, ".eE") {
		number = netFloat(f)
	}
	return jsonText(number), false
}

// reformatDate is Json.NET's reading of anything like an ISO date and .NET's
// invariant way to print it.
func reformatDate(text string) string {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().Format("01/02/2006 15:04:05")
		}
	}
	return text
}

// timerStatus is what the schedule monitor remembers between runs.
type timerStatus struct {
	last, next, lastUpdated time.Time
}

// timerPayload is the body of a timerTrigger's invocation. The status is nil
// for a schedule that is not monitored.
func timerPayload(o occasion, status *timerStatus) []byte {
	var monitored any
	if status != nil {
		monitored = object{
			{"Last", localTime(status.last)},
			{"Next", localTime(status.next)},
			{"LastUpdated", localTime(status.lastUpdated)},
		}
	}
	return payload(o.binding, object{
		{"Schedule", object{{"AdjustForDST", true}}},
		{"ScheduleStatus", monitored},
		{"IsPastDue", false}, // nothing is remembered from one start to the next
	}, object{{"sys", o.sys()}})
}

// localTime is a DateTime inside an object; .NET's zero has no zone.
func localTime(t time.Time) string {
	if t.IsZero() {
		return "0001-01-01T00:00:00"
	}
	return netTime(t)
}
