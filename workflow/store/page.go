package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"orderflow/workflow"
)

// cursor is a place in a list: behind the row that has this key. It travels as a
// text through the hands of whoever reads the list, and is believed no more than
// what that could ask for anyway: it holds no filter and no right, only a key to
// compare with.
type cursor struct {
	At    time.Time `json:"at,omitzero"`
	ID    string    `json:"id,omitempty"` // of the order, or the rejected message
	Seq   int64     `json:"seq,omitempty"`
	Place int64     `json:"place,omitempty"`
}

// sealed is how many bytes of a hash a cursor begins with. It binds the cursor
// to its list, so that one of another list, or a mutilated one, is an error and
// not a page that lacks something.
const sealed = 12

// cursorMost is how long a cursor may be as text: that of the longest ID.
const cursorMost = 1024

func (c cursor) text(list string) string {
	c.At = c.At.UTC()
	place, _ := json.Marshal(c) // a time of the database's, texts and numbers can be encoded
	return base64.RawURLEncoding.EncodeToString(append(seal(list, place), place...))
}

func seal(list string, place []byte) []byte {
	sum := sha256.Sum256(append(append([]byte(list), 0), place...))
	return sum[:sealed]
}

// cursorOf reads a cursor of a list; first is where the list begins. The error
// wraps workflow.ErrBadInput.
func cursorOf(list, text string, first cursor) (c cursor, err error) {
	if text == "" {
		return first, nil
	}
	if len(text) <= cursorMost {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err == nil && len(raw) > sealed && bytes.Equal(raw[:sealed], seal(list, raw[sealed:])) && json.Unmarshal(raw[sealed:], &c) == nil {
			c.At = latest(c.At, longAgo)
			return c, nil
		}
	}
	return cursor{}, fmt.Errorf("%w: the continuation is not one of this list", workflow.ErrBadInput)
}

// Bounds of time that every database can hold.
//
//nolint:gochecknoglobals // read-only
var (
	longAgo = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	farOff  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// topOf is how many rows a page has. The error wraps workflow.ErrBadInput.
func topOf(top int) (int, error) {
	switch {
	case top == 0:
		return workflow.TopDefault, nil
	case top < 0 || top > workflow.TopMost:
		return 0, fmt.Errorf("%w: a page has 1 to %d rows, not %d", workflow.ErrBadInput, workflow.TopMost, top)
	}
	return top, nil
}

// filling is a page while rows are read for it: one more than it has, to see
// whether there is another.
type filling[T any] struct {
	list string
	top  int
	page workflow.Page[T]
	last cursor
}

// add adds a row, whose key is its cursor.
func (f *filling[T]) add(item T, key cursor) {
	if len(f.page.Items) == f.top {
		f.page.Next = f.last.text(f.list)
		return
	}
	f.page.Items, f.last = append(f.page.Items, item), key
}
