package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestACommandClosedBetweenItsClaimAndItsReadingHoldsNothingBack(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	_, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	once := true
	spy.step("SELECT order_id, seq, message_id", func() error {
		if once {
			once = false
			_, err := s.Handle(t.Context(), reserved(t, "order-42"))
			return err
		}
		return nil
	}, nil)
	claimed, err := s.Claim(t.Context(), "first", workflow.Want{Commands: true, Deadlines: true}, 10, time.Minute)
	require.NoError(t, err)
	require.Empty(t, claimed, "what it claimed is not wanted any more")
	claimed, err = s.Claim(t.Context(), "second", workflow.Want{Commands: true, Deadlines: true}, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1, "nobody has anything of this order in hands")
	require.Equal(t, "order-42:capture-payment:1", claimed[0].ID)
}
