package store

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"orderflow/workflow"
)

// Summary counts the orders by status, and what is not done. Only of those that
// ended there may be very many. They are counted in an index, and if that takes
// a while not again for fifty times as long: what is said of them may be so old.
// All else is of ReadAt.
func (s *Store) Summary(ctx context.Context) (workflow.Summary, error) {
	sum := workflow.Summary{ByStatus: make(map[workflow.Status]int)}
	var b backlog
	err := s.engine.read(ctx, s.backlogOf(&b), countsOf(s.text.open, sum.ByStatus))
	if err == nil {
		sum.Backlog, sum.ReadAt = s.backlogAt(&b)
		err = s.countEnded(ctx, sum.ReadAt, sum.ByStatus)
	}
	if err != nil {
		return workflow.Summary{}, fmt.Errorf("count the orders: %w", err)
	}
	return sum, nil
}

func countsOf(text string, into map[workflow.Status]int) question {
	return question{text: text, row: func(r row) error {
		var status workflow.Status
		var n int
		err := r.Scan(&status, &n)
		into[status] = n
		return err
	}}
}

// endedCount is how many orders had ended when that was counted last.
type endedCount struct {
	mu        sync.Mutex // held by who counts: others wait for that
	counts    map[workflow.Status]int
	at, again time.Time // when, and when it is to be counted again
}

const (
	// countedFast is what may be done each time.
	countedFast = 20 * time.Millisecond
	// restAfterCount is how many times as long as counting takes it is left alone.
	restAfterCount = 50
)

func (s *Store) countEnded(ctx context.Context, at time.Time, into map[workflow.Status]int) error {
	e := &s.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.Before(e.at) || !at.Before(e.again) {
		var begun, done time.Time
		counts := make(map[workflow.Status]int)
		if err := s.engine.read(ctx, s.clock(&begun), countsOf(s.text.ended, counts), s.clock(&done)); err != nil {
			return err
		}
		e.counts, e.at, e.again = counts, begun, begun
		if took := done.Sub(begun); took > countedFast {
			e.again = done.Add(restAfterCount * took)
		}
	}
	maps.Copy(into, e.counts)
	return nil
}

// clock asks what time it is in the database.
func (s *Store) clock(at *time.Time) question {
	return question{text: s.text.clock, row: func(r row) error {
		err := r.Scan(moment{at})
		if at.IsZero() { // SQLite has no clock of its own
			*at = s.options.Now().UTC()
		}
		return err
	}}
}
