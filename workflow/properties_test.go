package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestWhatIsSentCarriesItsLineageAndOnlyATraceThatItHas(t *testing.T) {
	t.Parallel()
	out := workflow.Outgoing{ParentID: "m-1", OriginID: theOrigin}
	require.Equal(t, map[string]string{
		"ParentMessageId": "m-1", "OriginatingMessageId": theOrigin, "SchemaVersion": "1",
	}, out.Properties())
	out.TraceParent = "00-trace-span-01"
	require.Equal(t, "00-trace-span-01", out.Properties()["traceparent"])
	require.Equal(t, "00-trace-span-01", out.Properties()["Diagnostic-Id"])
}
