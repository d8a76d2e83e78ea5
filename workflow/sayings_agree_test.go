package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/invariants"
)

func TestAMessageOfTheWalkIsWhatItsBodySays(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.hears(placed(), reserved("res-1"), captured("pay-1"), notShipped)
	seen := map[workflow.MessageType]bool{}
	for _, e := range events(invariants.State{Order: d.order}) {
		seen[e.say.Type] = true
		decoded, straight := e.say.to(d.order, "m-1"), e.say.straight(d.order, "m-1")
		decoded.Body, decoded.Fingerprint = nil, ""
		require.Equal(t, decoded, straight)
	}
	require.Len(t, seen, len(types), "every type may happen")
}
