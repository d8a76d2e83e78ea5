package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// A key in the table is of [A-Za-z0-9_-] only. Any other alphabet fails
// somewhere: the service forbids some characters, and libraries and the emulator
// quote or decode others once too often or not at all.
const (
	// mostKey bounds what a text takes in a key: an order ID of 96 characters
	// that are all escaped fits. The service's limit is 512.
	mostKey = 300
	// keyBegin is how much of a longer text can be read in its key.
	keyBegin = 64
)

// key is a text as part of a key, a different one for each text: letters, digits
// and hyphens are themselves, and of all else each byte is an underscore and two
// hexadecimal digits. A text that is too long is its beginning and its SHA-256,
// after an underscore that no digit follows; so is one that is empty.
func key(text string) string {
	if text == "" {
		return "__"
	}
	var b strings.Builder
	for i := 0; i < len(text) && b.Len() <= mostKey; i++ {
		if c := text[i]; 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() <= mostKey {
		return b.String()
	}
	sum := sha256.Sum256([]byte(text))
	return b.String()[:keyBegin] + "_h" + hex.EncodeToString(sum[:])
}

// rowKey is the key of an event among those of its order. Row keys are in the
// order of their text, so time is counted down, in steps of 100 ns as the table
// has them: what happened last comes first. What happened at the same time is in
// the order of the events' keys.
func rowKey(at time.Time, eventKey string) string {
	return fmt.Sprintf("%019d-%s", lastTick-tick(at), key(eventKey))
}

// lastTick is the last of the year 9999, the table's last.
const lastTick = 3155378975999999999

// tick counts from the year 1, the zero time.
func tick(at time.Time) int64 {
	const ticksInSecond, secondsToUnix = 10_000_000, 62_135_596_800
	seconds := at.Unix() + secondsToUnix
	switch {
	case seconds < 0:
		return 0
	case seconds > lastTick/ticksInSecond:
		return lastTick
	default:
		return seconds*ticksInSecond + int64(at.Nanosecond())/100
	}
}
