// Package audit keeps a copy of what happened to each order in Azure Table
// Storage, for operators. Nothing is decided by it and no message waits for it:
// what is missing in the table is still in the database, and is written again.
//
// An event carries no body. Its Reason may quote what another service said, such
// as why a payment failed: whoever may read the table can read that, as whoever
// may read the database can.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"orderflow/workflow"
)

// Source tells what happened and was not written yet.
type Source interface {
	// Unaudited lists events that were not confirmed yet, oldest first, at most
	// so many.
	Unaudited(ctx context.Context, most int) ([]workflow.Event, error)
	// Audited confirms events: they are not listed again. Some of them may have
	// been confirmed before, by another process.
	Audited(ctx context.Context, events []workflow.Event) error
}

// table is where events are written. Its errors name the setting that says
// where it is.
type table interface {
	// put writes entities of one partition, all or none, in place of what was
	// there under their keys. The error wraps errRefused if the table takes no
	// such entities, and is otherwise about the table.
	put(ctx context.Context, entities []entity) error
	// list returns entities of a partition after a row key, in the order of
	// their row keys. A table that was never written to is empty.
	list(ctx context.Context, partition, after string, most int) ([]entity, error)
}

// What is wrong, other than the table.
var (
	errRefused = errors.New("the table takes no such entity")
	errSource  = errors.New("the source of events")
)

// Writer writes events to the table. Several may work on one source and one
// table: an event that is written twice is the same entity.
type Writer struct {
	source Source
	table  table
	log    *slog.Logger
	jitter func() float64
}

// New prepares a writer. Nothing is dialled before the first event; the table is
// created when it is found missing. The error names the setting that is wrong.
func New(c Connection, source Source, log *slog.Logger) (*Writer, error) {
	t, err := c.table(nil)
	if err != nil {
		return nil, err
	}
	return &Writer{source: source, table: t, log: log, jitter: rand.Float64}, nil
}

const (
	// gather is how long Run waits after a wake, so that the events of one
	// moment are listed, written and confirmed together.
	gather = time.Second
	// idle is how long Run waits for a wake: what another process left, and what
	// nobody woke it for, is found by then.
	idle = 30 * time.Second

	restLeast = 100 * time.Millisecond
	restFirst = time.Second
	restMost  = time.Minute
)

// Run writes what was not written yet, at once and then whenever it is woken,
// and every half minute, until ctx ends. While the table or the source is away
// it rests, longer each time up to a minute, and nothing wakes it. The log has
// one line when that begins and one when it is over.
func (w *Writer) Run(ctx context.Context, wake <-chan struct{}) {
	for h := (health{}); ctx.Err() == nil; {
		written, more, err := w.Write(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			w.ill(ctx, &h, written, err)
			pause(ctx, nil, w.rest(h.inARow))
		default:
			w.well(ctx, &h)
			if !more && pause(ctx, wake, idle) {
				pause(ctx, nil, gather)
			}
		}
	}
}

// pause waits, and reports whether it was woken.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) (woken bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// rest is how long to leave alone what failed so often in a row.
func (w *Writer) rest(inARow int) time.Duration {
	most := min(restFirst<<min(inARow-1, 10), restMost)
	return max(restLeast, time.Duration(w.jitter()*float64(most)))
}

// health is what Run told the log last.
type health struct {
	what     string // what is away, empty if nothing is
	failures int    // since it is
	inARow   int    // with nothing written in between
}

func (w *Writer) ill(ctx context.Context, h *health, written int, err error) {
	what := "the audit cannot be written"
	if errors.Is(err, errSource) {
		what = "what is to be audited cannot be read or confirmed"
	}
	if h.what != what {
		w.log.LogAttrs(ctx, slog.LevelError, what, slog.String("error", err.Error()))
	}
	if written > 0 {
		h.inARow = 0 // it is slow or sick in part
	}
	h.what, h.failures, h.inARow = what, h.failures+1, h.inARow+1
}

func (w *Writer) well(ctx context.Context, h *health) {
	if h.what != "" {
		w.log.LogAttrs(ctx, slog.LevelInfo, "the audit is written again", slog.Int("failures", h.failures))
	}
	*h = health{}
}

// of says what was attempted at the source.
func of(attempt string, err error) error {
	return fmt.Errorf("%w: %s: %w", errSource, attempt, err)
}
