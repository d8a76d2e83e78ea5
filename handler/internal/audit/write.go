package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"orderflow/workflow"
)

const (
	// passSize is how many events a pass lists, writes and confirms at most.
	passSize = 500
	// passTime bounds a pass, confirmTime the confirmation after it, and lastTime
	// what is left of that when the caller's context has ended.
	passTime    = 30 * time.Second
	confirmTime = 15 * time.Second
	lastTime    = 2 * time.Second
	// parallel is how many orders are written at once, when the table was seen
	// to work.
	parallel = 8
	// tolerated is how many orders may fail in a pass before it is given up:
	// more than one, since a part of the table may be away.
	tolerated = 3
	// mostRows and mostBytes bound a batch. The service's limits are 100 and 4
	// MiB, with what surrounds each entity.
	mostRows  = 100
	mostBytes = 4<<20 - 64<<10
	rowExtra  = 2 << 10
)

// line is the events of one order, oldest first.
type line []row

// row is an event, with all the times that it was listed.
type row struct {
	entity entity
	size   int
	events []workflow.Event
}

// Write makes one bounded pass: it lists events, writes them, and confirms those
// that are in the table. It returns how many that were, and whether there may be
// more. The error is about the table, which it names by its setting, or about
// the source. Events that were written and not confirmed are written again.
func (w *Writer) Write(ctx context.Context) (written int, more bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	events, err := w.source.Unaudited(bounded, passSize)
	if err != nil {
		return 0, false, of("list events", err)
	}
	done, err := w.writeAll(bounded, lines(events))
	if len(done) > 0 && ctx.Err() == nil && bounded.Err() != nil {
		err = nil // it was too much for one pass, and is less for the next
	}
	if failed := w.confirm(ctx, done); failed != nil {
		return 0, true, errors.Join(err, failed)
	}
	return len(done), len(done) < len(events) || len(events) >= passSize, err
}

// confirm confirms events, also when writing them took all the time that there
// was: else the next pass takes as long, and the one after it.
func (w *Writer) confirm(ctx context.Context, done []workflow.Event) error {
	if len(done) == 0 {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastTime, cancel) })()
	if err := w.source.Audited(last, done); err != nil {
		return of("confirm events", err)
	}
	return nil
}

// lines sorts events by order, in the order in which the orders first come. An
// event that is listed more than once is one row.
func lines(events []workflow.Event) []line {
	var sorted []line
	places := make(map[string]int)                                     // of a line, by partition
	rows := make(map[struct{ partition, row string }]int, len(events)) // place in the line
	for _, e := range events {
		made := entityOf(e, kept)
		at, known := places[made.PartitionKey]
		if !known {
			at = len(sorted)
			places[made.PartitionKey] = at
			sorted = append(sorted, nil)
		}
		id := struct{ partition, row string }{made.PartitionKey, made.RowKey}
		place, repeated := rows[id]
		if !repeated {
			place = len(sorted[at])
			rows[id] = place
			sorted[at] = append(sorted[at], row{})
		}
		r := &sorted[at][place]
		encoded, _ := json.Marshal(made) // texts, numbers and times can be encoded
		r.entity, r.size, r.events = made, len(encoded)+rowExtra, append(r.events, e)
	}
	return sorted
}

// batches cuts a line into what can be written at once.
func (l line) batches() (all []line) {
	begin, size := 0, 0
	for i, r := range l {
		if i > begin && (i-begin == mostRows || size+r.size > mostBytes) {
			all = append(all, l[begin:i])
			begin, size = i, 0
		}
		size += r.size
	}
	return append(all, l[begin:])
}

// writeAll writes lines: one after the other until one gets through, and then
// several at once. It returns the events that are in the table.
func (w *Writer) writeAll(ctx context.Context, all []line) (done []workflow.Event, err error) {
	var mu sync.Mutex
	failed := 0
	write := func(l line) {
		rows, failure := w.writeLine(ctx, l)
		mu.Lock()
		defer mu.Unlock()
		for _, r := range l[:rows] {
			done = append(done, r.events...)
		}
		if failure != nil {
			failed++
			if err == nil {
				err = failure
			}
		}
	}
	givenUp := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return failed >= tolerated || ctx.Err() != nil
	}
	for len(all) > 0 && len(done) == 0 && !givenUp() {
		write(all[0])
		all = all[1:]
	}
	var running sync.WaitGroup
	turns := make(chan struct{}, parallel)
	for _, l := range all {
		turns <- struct{}{}
		if givenUp() {
			break
		}
		running.Go(func() {
			write(l)
			<-turns
		})
	}
	running.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return done, err
}

// writeLine writes a line, oldest first, and returns how many of its rows are
// done with. A panic, such as the library's at an answer that it did not expect,
// is no reason for the process to end.
func (w *Writer) writeLine(ctx context.Context, l line) (done int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("write the audit: panic: %v", p)
		}
	}()
	for _, batch := range l.batches() {
		rows, err := w.writeRows(ctx, batch)
		done += rows
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// writeRows writes rows at once. If they are refused it halves them, so that at
// last the one that is meant is refused by itself.
func (w *Writer) writeRows(ctx context.Context, l line) (done int, err error) {
	err = w.table.put(ctx, l.entities())
	switch {
	case err == nil:
		return len(l), nil
	case !errors.Is(err, errRefused):
		return 0, err
	case len(l) == 1:
		return w.refused(ctx, l[0], err)
	}
	half := len(l) / 2
	done, err = w.writeRows(ctx, l[:half])
	if err != nil {
		return done, err
	}
	rest, err := w.writeRows(ctx, l[half:])
	return done + rest, err
}

// refused does what can be done about a row that the table does not take: it is
// written in a plain form, and given up if that is refused too, though the table
// can be read. A table that refuses everything is taken for one that is away.
func (w *Writer) refused(ctx context.Context, r row, why error) (done int, err error) {
	e := r.events[len(r.events)-1]
	about := []slog.Attr{
		slog.String("orderId", kept(e.OrderID, plainText)), slog.String("event", kept(e.Key, plainText)), slog.String("error", why.Error()),
	}
	err = w.table.put(ctx, []entity{plain(e, why)})
	if err == nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "an event is in the audit in part only", about...)
		return 1, nil
	}
	if !errors.Is(err, errRefused) {
		return 0, err
	}
	if _, away := w.table.list(ctx, r.entity.PartitionKey, "", 1); away != nil {
		return 0, err
	}
	w.log.LogAttrs(ctx, slog.LevelError, "an event is not in the audit", about...)
	return 1, nil
}

func (l line) entities() []entity {
	all := make([]entity, len(l))
	for i, r := range l {
		all[i] = r.entity
	}
	return all
}
