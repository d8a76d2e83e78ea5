package audit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"orderflow/workflow"
)

// Entry is an event as the audit holds it.
type Entry struct {
	workflow.Event

	// Written is when it was written last, by the table's clock.
	Written time.Time
	// Note says what was changed about the event so that the table took it;
	// mostly empty. A text that was too long says so itself.
	Note string
}

// ErrContinuation means that a continuation is none that Trail returned.
var ErrContinuation = errors.New("this is no continuation of a trail")

const (
	defaultEntries = 100
	mostEntries    = 500
)

// Trail returns entries of an order, newest first: those after a continuation,
// or from the newest one if it is empty, at most top of them: up to 500, and 100
// if it is zero. What it returns to continue with is empty when there is no more.
func (w *Writer) Trail(ctx context.Context, orderID string, top int, continuation string) (trail []Entry, next string, err error) {
	if !continues(continuation) {
		return nil, "", ErrContinuation
	}
	if top <= 0 {
		top = defaultEntries
	}
	top = min(top, mostEntries)
	found, err := w.table.list(ctx, key(orderID), continuation, top+1)
	if err != nil {
		return nil, "", fmt.Errorf("read the audit: %w", err)
	}
	if len(found) > top {
		found = found[:top]
		next = found[top-1].RowKey
	}
	for _, from := range found {
		e, note := eventOf(from)
		trail = append(trail, Entry{Event: e, Written: time.Time(from.Timestamp).UTC(), Note: note})
	}
	return trail, next, nil
}

// continues reports whether a continuation may be a row key. It becomes part of
// a query.
func continues(continuation string) bool {
	return continuation == "" || regexp.MustCompile(`^[0-9]{19}-[A-Za-z0-9_-]{1,300}$`).MatchString(continuation)
}
