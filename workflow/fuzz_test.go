package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// FuzzDecode: nothing that arrives can make Decode panic; what it refuses is
// malformed, and what it accepts it accepts again as the same.
func FuzzDecode(f *testing.F) {
	for _, on := range types {
		f.Add("m-1", string(on), theOrder, "", "", "self", "", bodyOf(on, theOrder, facts))
	}
	f.Add("m-1", "PaymentCaptured", "order-42", "c", "p", "o", "1", []byte(`"{\"orderId\":\"order-42\",\"paymentId\":\"p\"}"`))
	f.Add("", "\xff", "a b", "\n", " ", "x", "2", []byte("\ufeff{[\"\\"))
	f.Fuzz(func(t *testing.T, id, on, order, conversation, parent, origin, schema string, body []byte) {
		e := workflow.Envelope{
			ID: id, Type: workflow.MessageType(on), OrderID: order, Conversation: conversation,
			ParentID: parent, OriginID: origin, Schema: schema, Body: body,
		}
		m, err := e.Decode()
		if err != nil {
			require.ErrorIs(t, err, workflow.ErrMalformed)
			require.Zero(t, m)
			return
		}
		require.Equal(t, order, m.OrderID)
		again, err := m.Decode()
		require.NoError(t, err)
		require.Equal(t, m, again)

		r := workflow.Apply(workflow.Order{ID: order}, m, nil)
		require.Len(t, r.Decisions, 1)
	})
}
