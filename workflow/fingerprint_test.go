package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestTheFingerprintIsThatOfTheContent(t *testing.T) {
	t.Parallel()
	print := func(on workflow.MessageType, body string) string {
		e := letter(on)
		e.Body = []byte(body)
		m, err := e.Decode()
		require.NoError(t, err)
		return m.Fingerprint
	}
	const content = `{"orderId":"order-42","reason":"n","x":{"a":1,"b":[1,2]}}`
	first := print(workflow.PaymentFailed, content)
	for name, same := range map[string]string{
		"spacing":         "{ \"orderId\" : \"order-42\",\n\"reason\":\"n\", \"x\":{\"a\":1, \"b\":[ 1,2 ]} }\n",
		"order of fields": `{"x":{"b":[1,2],"a":1},"reason":"n","orderId":"order-42"}`,
		"a wrapping text": `"{\"orderId\":\"order-42\",\"reason\":\"n\",\"x\":{\"a\":1,\"b\":[1,2]}}"`,
		"an escape":       `{"orderId":"order-42","reason":"\u006e","x":{"a":1,"b":[1,2]}}`,
		"a byte mark":     "\ufeff" + content,
	} {
		require.Equal(t, first, print(workflow.PaymentFailed, same), name)
	}
	for name, other := range map[string]string{
		"a value":          `{"orderId":"order-42","reason":"m","x":{"a":1,"b":[1,2]}}`,
		"an unknown field": `{"orderId":"order-42","reason":"n","x":{"a":1,"b":[1,2]},"y":1}`,
		"order of a list":  `{"orderId":"order-42","reason":"n","x":{"a":1,"b":[2,1]}}`,
		"a number's type":  `{"orderId":"order-42","reason":"n","x":{"a":"1","b":[1,2]}}`,
		"a large number":   `{"orderId":"order-42","reason":"n","x":{"a":9007199254740993,"b":[1,2]}}`,
		"its neighbour":    `{"orderId":"order-42","reason":"n","x":{"a":9007199254740992,"b":[1,2]}}`,
	} {
		got := print(workflow.PaymentFailed, other)
		require.NotEqual(t, first, got, name)
		first, got = got, first
		require.NotEqual(t, first, got, name)
	}
	require.NotEqual(t, print(workflow.PaymentFailed, content), print(workflow.ShipmentFailed, content), "the subject counts")

	a, err := letter(workflow.PaymentCaptured).Decode()
	require.NoError(t, err)
	e := letter(workflow.PaymentCaptured)
	e.ID, e.Conversation, e.ParentID, e.OriginID = "m-2", "c", "p", "o"
	b, err := e.Decode()
	require.NoError(t, err)
	require.Equal(t, a.Fingerprint, b.Fingerprint, "identity and lineage do not")
}
