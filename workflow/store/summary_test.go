package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestOrdersThatEndedAreNotCountedOverAndOverWhenThatTakesLong(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	var slow time.Duration // how long a count takes
	s, spy := watched(t, Options{Now: func() time.Time { return clock }})
	spy.step(s.text.ended, nil, func() error { clock = clock.Add(slow); return nil })
	sum := func() (cancelled, open, counted int) {
		t.Helper()
		var summary workflow.Summary
		ran, _ := spy.during(func() {
			var err error
			summary, err = s.Summary(t.Context())
			require.NoError(t, err)
		})
		for _, text := range ran {
			if text == s.text.ended {
				counted++
			}
		}
		return summary.ByStatus[workflow.Cancelled], summary.ByStatus[workflow.AwaitingInventory], counted
	}
	says := func(cancelled, open, counted int) {
		t.Helper()
		c, o, n := sum()
		require.Equal(t, []int{cancelled, open, counted}, []int{c, o, n})
	}
	cancel := func(order string) {
		_, err := s.Handle(t.Context(), placed(t, order))
		require.NoError(t, err)
		_, err = s.Handle(t.Context(), said(t, order, order+":cancel", workflow.CancellationRequested, `,"reason":"r"`))
		require.NoError(t, err)
	}
	cancel("order-1")
	says(1, 0, 1)
	cancel("order-2")
	says(2, 0, 1) // it is fast
	slow = 2 * time.Second
	says(2, 0, 1)
	cancel("order-3")
	_, err := s.Handle(t.Context(), placed(t, "order-4"))
	require.NoError(t, err)
	says(2, 1, 0) // those that have not ended are counted
	clock = clock.Add(100*time.Second - time.Microsecond)
	says(2, 1, 0)
	clock = clock.Add(time.Microsecond)
	says(3, 1, 1)
	cancel("order-5")
	clock = clock.Add(-time.Hour) // put back
	says(4, 1, 1)
}
