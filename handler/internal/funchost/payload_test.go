package funchost

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/localbus"
)

const order = `{"orderId": "order-42", "customerId": "Zoë – 😀", "currency": "EUR", "amount": 12990, "lines": [{"sku": "A/1", "quantity": 2}]}`

// sample is the message of the shared payloads and the occasion of its delivery.
func sample(body string) (occasion, client, *localbus.Message, time.Time) {
	return occasion{
			function: "order-placed",
			binding:  "message",
			now:      time.Date(2026, 7, 19, 10, 0, 1, 123456700, time.UTC),
			id:       "ab560c99-4652-4149-8cf2-de7d4698bfeb",
		}, client{namespace: "sb-demo.servicebus.windows.net", identifier: "sb-demo.servicebus.windows.net-5f0c2d57"},
		&localbus.Message{
			MessageID:     "orders:order-placed:42",
			SessionID:     "order-42",
			CorrelationID: "conv-7",
			Subject:       "OrderPlaced",
			ContentType:   "application/json",
			Properties: map[string]any{
				"SchemaVersion":   "1",
				"ParentMessageId": "self",
				"Diagnostic-Id":   "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			},
			Body:           []byte(body),
			SequenceNumber: 9007199254740993,
			EnqueuedAt:     time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC),
			DeliveryCount:  1,
			LockToken:      "6c9b2b0e-3f5a-4a39-9b3e-2f7a0a1b9c11",
		}, time.Date(2026, 7, 19, 10, 1, 0, 421000000, time.UTC)
}

func golden(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../../functions/testdata/" + name)
	require.NoError(t, err)
	return string(data)
}

func TestBinaryPayloadsAreThoseOfTheRealHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file   string
		body   string
		change func(*occasion, *localbus.Message)
	}{
		{"order-placed.binary.json", order, nil},
		{"order-placed.binary.body-with-metadata-names.json",
			`{"orderId": "order-42", "customerId": "c-7", "currency": "EUR", "amount": 12990, "lines": [{"sku": "A/1", "quantity": 2}], "messageId": "m-EVIL", "sessionId": "order-999", "deliveryCount": 0, "sequenceNumber": 7, "subject": "PaymentCaptured", "correlationId": "conv-EVIL"}`, nil},
		{"order-placed.no-correlation.json", order, func(_ *occasion, m *localbus.Message) { m.CorrelationID = "" }},
		{"poison.empty.json", "", nil},
		{"poison.not-json.json", "hello world", nil},
		{"payment-captured.binary.json", `{"orderId": "order-42", "paymentId": "payment-77"}`, func(o *occasion, m *localbus.Message) {
			o.function, m.Subject, m.MessageID = "payment-result", "PaymentCaptured", "payments:captured:77"
		}},
	} {
		o, client, m, locked := sample(c.body)
		if c.change != nil {
			c.change(&o, m)
		}
		require.JSONEq(t, golden(t, c.file), string(messagePayload(o, client, m, locked, true)), c.file)
	}
}

func TestStringPayloadIsThatOfTheRealHost(t *testing.T) {
	t.Parallel()
	o, client, m, locked := sample(order)
	var want, got map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(golden(t, "order-placed.string.json")), &want))
	require.NoError(t, json.Unmarshal(messagePayload(o, client, m, locked, false), &got))
	// The sample writes \u00eb within the inner JSON text, where Json.NET
	// writes the letter itself: the texts are compared once decoded.
	for _, part := range []map[string]map[string]any{want, got} {
		for _, values := range part {
			for key, value := range values {
				var inner string
				if text, ok := value.(string); ok && json.Unmarshal([]byte(text), &inner) == nil {
					values[key] = "decoded: " + inner
				}
			}
		}
	}
	require.Equal(t, "decoded: "+order, got["Data"]["message"])
	require.Equal(t, want, got)
}

func TestPayloadIsWrittenByteForByteAsJSONNETDoes(t *testing.T) {
	t.Parallel()
	o, client, m, locked := sample("<a&b> \u00e9\u2028\x01")
	m.Properties = map[string]any{"b": true, "f": 5.0, "g": 19.9, "i": int64(9007199254740993), "s": "<&>\u00e9\u2028\t\"\\", "z": 1e21}
	const metadata = `"Metadata":{"MessageReceiver":{"SessionLockedUntil":"2026-07-19T10:01:00.421+00:00"},"MessageSession":{"SessionLockedUntil":"2026-07-19T10:01:00.421+00:00"},"MessageActions":{"SessionLockedUntil":"2026-07-19T10:01:00.421+00:00"},"SessionActions":{"SessionLockedUntil":"2026-07-19T10:01:00.421+00:00"},"ReceiveActions":{},` +
		`"Client":{"FullyQualifiedNamespace":"sb-demo.servicebus.windows.net","IsClosed":false,"TransportType":0,"Identifier":"sb-demo.servicebus.windows.net-5f0c2d57"},` +
		`"DeliveryCount":"1","LockToken":"\"6c9b2b0e-3f5a-4a39-9b3e-2f7a0a1b9c11\"","ExpiresAtUtc":"9999-12-31T23:59:59","ExpiresAt":"9999-12-31T23:59:59+00:00","EnqueuedTimeUtc":"2026-07-19T10:00:00","EnqueuedTime":"2026-07-19T10:00:00+00:00",` +
		`"MessageId":"\"orders:order-placed:42\"","ContentType":"\"application/json\"","SequenceNumber":"9007199254740993","Subject":"\"OrderPlaced\"","Label":"\"OrderPlaced\"","CorrelationId":"\"conv-7\"",` +
		`"ApplicationProperties":{"b":true,"f":5.0,"g":19.9,"i":9007199254740993,"s":"<&>é\u2028\t\"\\","z":1E+21},"UserProperties":{"b":true,"f":5.0,"g":19.9,"i":9007199254740993,"s":"<&>é\u2028\t\"\\","z":1E+21},` +
		`"SessionId":"\"order-42\"","PartitionKey":"\"order-42\"","sys":{"MethodName":"order-placed","UtcNow":"2026-07-19T10:00:01.1234567Z","RandGuid":"ab560c99-4652-4149-8cf2-de7d4698bfeb"}}}`
	for _, c := range []struct {
		binary bool
		data   string
	}{
		{true, base64.StdEncoding.EncodeToString(m.Body)},
		{false, `\"<a&b> é\\u2028\\u0001\"`},
	} {
		want := fmt.Sprintf(`{"Data":{"message":"%s"},%s`, c.data, metadata)
		require.Equal(t, want, string(messagePayload(o, client, m, locked, c.binary)))
	}
}

func TestStringModeLetsABodyOverwriteMetadata(t *testing.T) {
	t.Parallel()
	body := `{"MESSAGEID":"anything","sessionId":"OTHER","deliveryCount":5,"subject":null,"contentType":["a"],
		"applicationProperties":{"a": 1},"paid":true,"open":false,"at":"2026-03-05T10:15:30Z","total":19.9,"round":5.0,
		"big":123456789012345678901,"orderTrigger":"x","sys":"x"}`
	o, client, m, locked := sample(body)
	metadata := func(binary bool) map[string]any {
		var payload struct{ Metadata map[string]any }
		require.NoError(t, json.Unmarshal(messagePayload(o, client, m, locked, binary), &payload))
		return payload.Metadata
	}
	got := metadata(false)
	for key, want := range map[string]any{
		"MessageId":             `"anything"`, // the built-in casing stays
		"SessionId":             `"OTHER"`,
		"DeliveryCount":         `"5"`,
		"Subject":               `"OrderPlaced"`,      // null is spared
		"ContentType":           `"application/json"`, // so is an array
		"ApplicationProperties": map[string]any{"a": 1.0},
		"UserProperties":        map[string]any{"SchemaVersion": "1", "ParentMessageId": "self", "Diagnostic-Id": m.Properties["Diagnostic-Id"]},
		"paid":                  `"True"`,
		"open":                  `"False"`,
		"at":                    `"03/05/2026 10:15:30"`,
		"total":                 `"19.9"`,
		"round":                 `"5"`,
		"big":                   `"123456789012345678901"`,
	} {
		require.Equal(t, want, got[key], key)
	}
	for _, key := range []string{"MESSAGEID", "sessionId", "orderTrigger"} {
		require.NotContains(t, got, key)
	}
	require.Equal(t, "order-placed", got["sys"].(map[string]any)["MethodName"])

	genuine := metadata(true)
	require.Equal(t, `"orders:order-placed:42"`, genuine["MessageId"])
	require.NotContains(t, genuine, "paid")
}

func TestStringModePoisonsOnlyWithWholeObjects(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`hello`, `[{"messageId":"x"}]`, `"{\"messageId\":\"x\"}"`, ` {"messageId":"x"}`, `{"messageId":"x"} `, `{"messageId":"x"}}`, `{"messageId":}`, ``} {
		o, client, m, locked := sample(body)
		var payload struct {
			Data     struct{ Message string }
			Metadata struct{ MessageID string }
		}
		require.NoError(t, json.Unmarshal(messagePayload(o, client, m, locked, false), &payload), body)
		require.Equal(t, `"orders:order-placed:42"`, payload.Metadata.MessageID, body)
		var inner string
		require.NoError(t, json.Unmarshal([]byte(payload.Data.Message), &inner))
		require.Equal(t, body, inner)
	}
}

func TestBareMessageHasNoIdentity(t *testing.T) {
	t.Parallel()
	o, client, _, _ := sample("")
	var payload struct{ Metadata map[string]any }
	require.NoError(t, json.Unmarshal(messagePayload(o, client, &localbus.Message{Body: []byte("x")}, time.Time{}, true), &payload))
	require.Equal(t, "0", payload.Metadata["DeliveryCount"])
	require.Equal(t, map[string]any{}, payload.Metadata["MessageSession"])
	require.Equal(t, map[string]any{}, payload.Metadata["ApplicationProperties"])
	for _, key := range []string{"MessageId", "SessionId", "CorrelationId", "Subject", "Label", "ContentType", "PartitionKey"} {
		require.NotContains(t, payload.Metadata, key)
	}
}

func TestTimerPayloadIsThatOfTheRealHost(t *testing.T) {
	t.Parallel()
	o, _, _, _ := sample("")
	o.function, o.binding = "outbox-dispatch", "timer"
	require.JSONEq(t, golden(t, "timer.no-schedule-status.json"), string(timerPayload(o, nil)))

	var want map[string]map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(golden(t, "timer.json")), &want))
	want["Data"]["timer"]["IsPastDue"] = false // the local host has no memory to be late by
	text, err := json.Marshal(want)
	require.NoError(t, err)
	last := time.Date(2026, 7, 19, 9, 59, 50, 4924300, time.UTC)
	status := timerStatus{last: last, lastUpdated: last, next: time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)}
	require.JSONEq(t, string(text), string(timerPayload(o, &status)))

	status.last = time.Time{}
	require.Contains(t, string(timerPayload(o, &status)), `"Last":"0001-01-01T00:00:00",`)
}
