package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderflow/workflow"
)

// How much one sweep does at most. What is left is for the next.
const (
	sweepRows    = 500  // deadlines sent again, early messages given up
	sweepOrders  = 100  // orders looked at together whose line is gone on with
	sweepLine    = 1000 // messages of one line
	purgeBatches = 50   // times purgeOrders
	purgeOrders  = 20   // orders looked at together
	purgeRows    = 1000 // rows deleted of a table in one transaction
)

// resendGrace is what a deadline is given beyond the broker's own duplicate
// detection before it counts as lost.
const resendGrace = time.Minute

// Sweep does what no message does by coming: it has deadlines sent again that
// should have fired, gives up early messages of orders that never started, goes
// on with lines that were left, and deletes what is old of orders at rest. Each
// step is small transactions of its own, so it may be stopped at any moment, run
// twice at once, and meet any traffic.
func (s *Store) Sweep(ctx context.Context) (done workflow.Swept, err error) {
	for _, step := range []struct {
		what string
		do   func(context.Context, *workflow.Swept) error
	}{
		{"send lost deadlines again", s.resendLost},
		{"give up early messages", s.giveUpEarly},
		{"go on with the lines of orders", s.replayLines},
		{"purge orders at rest", s.purge},
		{"forget settled messages", s.forgetSettled},
	} {
		stepErr := step.do(ctx, &done)
		if ctx.Err() != nil {
			done.More = true
			if err == nil && done == (workflow.Swept{More: true}) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				// Nothing was done in all that time.
				err = fmt.Errorf("%s: %w", step.what, transient(errors.Join(stepErr, ctx.Err())))
			}
			return done, err // told to stop: the next sweep goes on
		}
		if stepErr != nil { // the other steps may work
			err = errors.Join(err, fmt.Errorf("%s: %w", step.what, stepErr))
		}
	}
	return done, err
}

// resendLost has deadlines sent again that the broker was given, that are due
// for longer than it remembers MessageIds, and that never came. It forgets
// those that were to be cancelled there and are due by now.
func (s *Store) resendLost(ctx context.Context, done *workflow.Swept) error {
	before := relative(-s.duplicateDetection() - resendGrace)
	var b batch
	err := s.engine.read(ctx, question{text: s.text.lost, args: []any{before, int64(sweepRows)}, row: func(r row) error {
		var order string
		var seq int64
		err := r.Scan(&order, &seq)
		b = append(b, statement{s.text.resend, []any{now, order, seq, before}, anyRows})
		return err
	}})
	if err != nil {
		return err
	}
	lost := len(b)
	b = append(b, statement{s.text.forgetRecalls, []any{now}, anyRows})
	if err := s.insist(ctx, func() error { return s.engine.write(ctx, b) }); err != nil {
		return err
	}
	done.Resent = lost
	done.More = done.More || lost == sweepRows
	if lost > 0 && s.options.Wake != nil {
		s.options.Wake()
	}
	return nil
}

// giveUpEarly rejects messages that were held for orders that did not start in
// time.
func (s *Store) giveUpEarly(ctx context.Context, done *workflow.Swept) error {
	limit := or(s.options.EarlyLimit, 24*time.Hour)
	reason := fmt.Sprintf("it came before its order, which did not start within %s", limit)
	revisions := make(map[string]int64)
	late := make(map[string][]workflow.Rejection)
	n := 0
	err := s.engine.read(ctx, question{text: s.text.tooEarly, args: []any{relative(-limit), int64(sweepRows)}, row: func(r row) (err error) {
		n++
		var order string
		var revision int64
		given := workflow.Rejection{Reason: reason}
		given.Envelope, err = scanEnvelope(r, "", &order, &revision, &given.Fingerprint, &given.Delivery.Function, &given.Delivery.Count)
		given.OrderID = order
		revisions[order], late[order] = revision, append(late[order], given)
		return err
	}})
	if err != nil {
		return err
	}
	done.More = done.More || n == sweepRows
	for order, all := range late {
		b := batch{s.touch(&found{revision: revisions[order]}, order)}
		for _, r := range all {
			b = append(b, statement{s.text.giveUpEarly, []any{reason, now, s.event(), order, r.ID}, 1})
			b = append(b, s.reject(r)...)
		}
		switch err := s.engine.write(ctx, b); {
		case errors.Is(err, errConflict): // it moved: perhaps it starts
			done.More = true
		case err != nil:
			return err
		default:
			done.TooEarly += len(all)
		}
	}
	return nil
}

// replayLines goes on with lines that nothing blocks: whoever unblocked them
// did not live to handle them.
func (s *Store) replayLines(ctx context.Context, done *workflow.Swept) error {
	var failed int
	var first error
	for last, page := "", sweepOrders; page == sweepOrders; {
		var orders []string
		err := s.engine.read(ctx, question{text: s.text.lines, args: []any{last, int64(sweepOrders)}, row: func(r row) error {
			var order string
			err := r.Scan(&order)
			orders = append(orders, order)
			return err
		}})
		if err != nil {
			return err
		}
		page = len(orders)
		for _, order := range orders {
			last = order
			n, more, err := s.replay(ctx, order, sweepLine)
			done.Replayed += n
			done.More = done.More || more
			if err == nil {
				continue
			}
			if failed++; first == nil {
				first = err
			}
			if ctx.Err() != nil {
				return first
			}
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w; and %d more", first, failed-1)
	}
	return first
}

// purge deletes the journal and the outbox of orders that have been at rest for
// long. The order itself stays, with all that is recorded of it, so that a late
// copy of OrderPlaced does not start it again. Of an order that is held back by
// a dead command or a message that waits nothing is deleted.
func (s *Store) purge(ctx context.Context, done *workflow.Swept) error {
	orders := make(map[string]bool) // one with many rows is purged in parts
	defer func() { done.Purged = len(orders) }()
	for range purgeBatches {
		purged, err := s.purgeSome(ctx)
		for _, order := range purged {
			orders[order] = true
		}
		if err != nil || len(purged) == 0 {
			return err
		}
	}
	done.More = true
	return nil
}

// purgeSome deletes so much of some orders as one transaction each may delete,
// and returns which.
func (s *Store) purgeSome(ctx context.Context) (purged []string, err error) {
	var orders []string
	var batches []batch
	before := relative(-s.retention())
	err = s.engine.read(ctx, question{text: s.text.atRest, args: []any{before, int64(purgeOrders), oneIf(s.options.Audit)}, row: func(r row) error {
		var order string
		var revision int64
		err := r.Scan(&order, &revision)
		orders = append(orders, order)
		batches = append(batches, batch{
			{s.text.purge, []any{now, order, revision}, 1}, // or it moved meanwhile
			{s.text.purgeJournal, []any{order, int64(purgeRows)}, anyRows},
			{s.text.purgeOutbox, []any{order, int64(purgeRows)}, anyRows},
			{s.text.keepPurging, []any{order}, anyRows},
		})
		return err
	}})
	if err != nil {
		return nil, err
	}
	for i, b := range batches {
		switch err := s.engine.write(ctx, b); {
		case err == nil:
			purged = append(purged, orders[i])
		case !errors.Is(err, errConflict):
			return purged, err
		}
	}
	return purged, nil
}
