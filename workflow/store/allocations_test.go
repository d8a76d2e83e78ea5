//go:build !race

package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// TestATransitionAllocatesLittle bounds what Handle allocates, driver and
// database/sql included.
func TestATransitionAllocatesLittle(t *testing.T) {
	// Not parallel: it counts the allocations of the whole process.
	s := opened(t, Options{})
	const runs = 100
	var messages []workflow.Message
	for n := range runs + 1 {
		_, err := s.Handle(t.Context(), placed(t, fmt.Sprint("order-", n)))
		require.NoError(t, err)
		messages = append(messages, reserved(t, fmt.Sprint("order-", n)))
	}
	n := 0
	allocations := testing.AllocsPerRun(runs, func() {
		if _, err := s.Handle(t.Context(), messages[n]); err != nil {
			t.Fatal(err)
		}
		n++
	})
	t.Logf("%.0f allocations", allocations)
	require.LessOrEqual(t, allocations, 200.0)
}
