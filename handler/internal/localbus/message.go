package localbus

import (
	"fmt"
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
		{"To", m.To},
		{"ReplyTo", m.ReplyTo},
		{"ReplyToSessionID", m.ReplyToSessionID},
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
	case m.PartitionKey != "" && m.PartitionKey != m.SessionID:
		return parcel{}, fmt.Errorf("PartitionKey is not the SessionID: %w", ErrInvalidMessage)
	case m.TimeToLive < 0:
		return parcel{}, fmt.Errorf("TimeToLive is negative: %w", ErrInvalidMessage)
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
