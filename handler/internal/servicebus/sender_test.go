package servicebus

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestAMessageOnTheWireIsItsRow(t *testing.T) {
	t.Parallel()
	out := workflow.Outgoing{
		ID: "order-42:capture-payment:1", Type: workflow.CapturePayment, OrderID: "order-42",
		Conversation: "conv-7", ParentID: "m2", OriginID: "m1",
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Body:        []byte(`{"orderId":"order-42"}`),
	}
	m := message(&out)
	require.Equal(t, out.ID, *m.MessageID)
	require.Equal(t, "order-42", *m.SessionID)
	require.Equal(t, "conv-7", *m.CorrelationID)
	require.Equal(t, "CapturePayment", *m.Subject)
	require.Equal(t, "application/json", *m.ContentType)
	require.Equal(t, out.Body, m.Body)
	require.Nil(t, m.PartitionKey, "the broker takes the session for it")
	require.Equal(t, map[string]any{
		"ParentMessageId": "m2", "OriginatingMessageId": "m1", "SchemaVersion": "1",
		"traceparent": out.TraceParent, "Diagnostic-Id": out.TraceParent,
	}, m.ApplicationProperties)

	out.TraceParent = ""
	bare := message(&out)
	require.NotContains(t, bare.ApplicationProperties, "traceparent", "an empty property is left out")
	again := message(&out)
	require.Equal(t, bare, again, "built twice, it is the same message")
}

func TestOnlyARefusalOfTheMessageItselfCountsAgainstIt(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, classify(azservicebus.ErrMessageTooLarge), workflow.ErrMessageRefused)
	require.ErrorIs(t, classify(azservicebus.ErrMessageTooLarge), workflow.ErrNeverAccepted)
	require.NotErrorIs(t, classify(errors.New("the link was detached")), workflow.ErrMessageRefused)
}

func TestWithTheBrokerAwayASendEndsAtItsDeadlineAndSaysWhichMessage(t *testing.T) {
	t.Parallel()
	s, err := New(Connection{
		String: "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=k;SharedAccessKey=a2V5;UseDevelopmentEmulator=true",
	}, Topics{Orders: "orders", Commands: "commands"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	sequences, err := s.Send(ctx, []workflow.Outgoing{{ID: "order-42:capture-payment:1", OrderID: "order-42"}})
	require.Empty(t, sequences)
	require.ErrorContains(t, err, "order-42:capture-payment:1")
	require.NotErrorIs(t, err, workflow.ErrMessageRefused, "an outage kills no message")
}

func TestAConnectionThatMakesNoSenseIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New(Connection{String: "nonsense"}, Topics{Orders: "orders", Commands: "commands"})
	require.Error(t, err)
}
