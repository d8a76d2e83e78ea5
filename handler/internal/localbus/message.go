package localbus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	maxMessageBytes = 256 << 10
	maxIDRunes      = 128
)

// parcel is a checked message with its properties as the file keeps them.
type parcel struct {
	Message
	properties string
}

// pack checks a message. Errors: ErrSessionRequired, ErrMessageTooLarge,
// ErrInvalidMessage.
func pack(m Message) (parcel, error) {
	size := len(m.Body)
	for _, field := range []struct{ name, value string }{
		{"MessageID", m.MessageID},
		{"SessionID", m.SessionID},
		{"CorrelationID", m.CorrelationID},
		{"Subject", m.Subject},
		{"ContentType", m.ContentType},
	} {
		if !utf8.ValidString(field.value) {
			return parcel{}, fmt.Errorf("%s is not UTF-8: %w", field.name, ErrInvalidMessage)
		}
		size += len(field.value)
	}
	switch {
	case m.SessionID == "":
		return parcel{}, ErrSessionRequired
	case m.MessageID == "":
		return parcel{}, fmt.Errorf("MessageID is missing: %w", ErrInvalidMessage)
	case utf8.RuneCountInString(m.MessageID) > maxIDRunes:
		return parcel{}, fmt.Errorf("MessageID is longer than %d characters: %w", maxIDRunes, ErrInvalidMessage)
	case utf8.RuneCountInString(m.SessionID) > maxIDRunes:
		return parcel{}, fmt.Errorf("SessionID is longer than %d characters: %w", maxIDRunes, ErrInvalidMessage)
	}
	properties, bytes, err := encodeProperties(m.Properties)
	if err != nil {
		return parcel{}, err
	}
	if size += bytes; size > maxMessageBytes {
		return parcel{}, fmt.Errorf("body and properties have %d bytes of at most %d: %w", size, maxMessageBytes, ErrMessageTooLarge)
	}
	return parcel{Message: m, properties: properties}, nil
}

// property is a type's name and the value in text, so that every value comes
// back as what it was: 1 as int64 or float64, and NaN, which JSON has not.
type property [2]string

// encodeProperties gives the properties as JSON text, empty when there are
// none, and their size as a message counts it.
func encodeProperties(properties map[string]any) (text string, size int, err error) {
	if len(properties) == 0 {
		return "", 0, nil
	}
	encoded := make(map[string]property, len(properties))
	for name, value := range properties {
		if name == "" || !utf8.ValidString(name) {
			return "", 0, fmt.Errorf("property name %q is empty or not UTF-8: %w", name, ErrInvalidMessage)
		}
		size += len(name)
		switch v := value.(type) {
		case string:
			if !utf8.ValidString(v) {
				return "", 0, fmt.Errorf("property %q is not UTF-8: %w", name, ErrInvalidMessage)
			}
			encoded[name] = property{"string", v}
			size += len(v)
		case bool:
			encoded[name] = property{"bool", strconv.FormatBool(v)}
			size++
		case int64:
			encoded[name] = property{"int64", strconv.FormatInt(v, 10)}
			size += 8
		case float64:
			encoded[name] = property{"float64", strconv.FormatFloat(v, 'g', -1, 64)}
			size += 8
		default:
			return "", 0, fmt.Errorf("property %q is a %T: %w", name, value, ErrInvalidMessage)
		}
	}
	b, err := json.Marshal(encoded)
	if err != nil {
		return "", 0, fmt.Errorf("encode properties: %w", err)
	}
	return string(b), size, nil
}

func decodeProperties(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	var encoded map[string]property
	if err := json.Unmarshal([]byte(text), &encoded); err != nil {
		return nil, fmt.Errorf("decode properties: %w", err)
	}
	properties := make(map[string]any, len(encoded))
	for name, p := range encoded {
		var err error
		switch kind, value := p[0], p[1]; kind {
		case "string":
			properties[name] = value
		case "bool":
			properties[name], err = strconv.ParseBool(value)
		case "int64":
			properties[name], err = strconv.ParseInt(value, 10, 64)
		case "float64":
			properties[name], err = strconv.ParseFloat(value, 64)
		default:
			err = fmt.Errorf("unknown type %q", kind)
		}
		if err != nil {
			return nil, fmt.Errorf("decode property %q: %w", name, err)
		}
	}
	return properties, nil
}

// stamp is a moment as the file keeps it, in microseconds, rounded up so that
// nothing is due early. Zero stays zero and means never.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if t.Nanosecond()%1000 != 0 {
		t = t.Add(time.Microsecond)
	}
	return t.UnixMicro()
}

func moment(stamp int64) time.Time {
	if stamp == 0 {
		return time.Time{}
	}
	return time.UnixMicro(stamp).UTC()
}
