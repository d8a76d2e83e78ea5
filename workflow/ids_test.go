package workflow_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/invariants"
)

func TestIDsAreMadeOfTheOrderTheStepAndACount(t *testing.T) {
	t.Parallel()
	for command, step := range invariants.Steps {
		require.Equal(t, "order-42:"+step+":1", workflow.CommandID(theOrder, command, 1))
	}
	require.Equal(t, "order-42:payment-timeout:12", workflow.DeadlineID(theOrder, workflow.PaymentTimeout, 12))
	require.Equal(t, "order-42:capture-payment:1:dead:1", workflow.DeathID("order-42:capture-payment:1", 1))
	require.Equal(t, "order-42:retry:7", workflow.ActionID(theOrder, workflow.Retry, 7))
	require.Equal(t, "order-42:resolve-cancelled:7", workflow.ActionID(theOrder, workflow.ResolveCancelled, 7))
	require.Equal(t, "order-42:resolve-completed:7", workflow.ActionID(theOrder, workflow.ResolveCompleted, 7))
	for kind, name := range map[workflow.ActionKind]string{
		workflow.RetryMessage: "retry-message", workflow.SkipMessage: "skip-message",
		workflow.SendAgain: "send-again", workflow.DiscardCommand: "discard-command",
	} {
		require.Equal(t, "order-42:"+name+":7", workflow.ActionID(theOrder, workflow.MessageType(kind), 7))
	}
}

func TestTheLongestIDDerivedFromTheLongestOrderIDFits(t *testing.T) {
	t.Parallel()
	order := strings.Repeat("x", workflow.MaxOrderIDLength)
	var ids []string
	for command := range invariants.Steps {
		ids = append(ids,
			workflow.CommandID(order, command, math.MaxInt32),
			workflow.DeathID(workflow.CommandID(order, command, 999), 9999),
			workflow.DeathID(workflow.CommandID(order, command, 1), 999_999))
	}
	for _, purpose := range expiries {
		ids = append(ids, workflow.DeadlineID(order, purpose, math.MaxInt32))
	}
	for _, action := range []workflow.MessageType{workflow.Retry, workflow.ResolveCancelled, workflow.ResolveCompleted} {
		ids = append(ids, workflow.ActionID(order, action, 999_999_999_999))
	}
	for _, kind := range workflow.ActionKinds() {
		ids = append(ids, workflow.ActionID(order, workflow.MessageType(kind), 999_999_999_999))
	}
	longest := 0
	for _, id := range ids {
		require.LessOrEqual(t, len(id), workflow.MaxIDLength, id)
		longest = max(longest, len(id))
	}
	require.Equal(t, workflow.MaxIDLength, longest, "the limit of order IDs is as wide as it can be")
}
