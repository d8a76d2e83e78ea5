package functions_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestMetadataIsUnderstoodHoweverOftenItIsQuoted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		value any
		count int
	}{
		"a number":         {3, 3},
		"quoted once":      {"3", 3},
		"quoted twice":     {`"3"`, 3},
		"with spaces":      {" 3 ", 3},
		"absent":           {nil, 0},
		"no number":        {`"three"`, 0},
		"a fraction":       {3.5, 0},
		"negative":         {"-3", 0},
		"too large by far": {"99999999999999999999", 0},
		"an object":        {map[string]any{}, 0},
		"true":             {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, map[string]any{"DeliveryCount": tt.value})))
			require.Equal(t, tt.count, w.onlyMessage(t).Delivery.Count)
		})
	}
	for name, value := range map[string]any{"plain text": "m-1", "quoted": `"m-1"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, map[string]any{"MessageId": value})))
			require.Equal(t, "m-1", w.onlyMessage(t).ID)
		})
	}
}

func TestATimeWithoutAZoneIsUTCAndAnOddOneIsNeverFatal(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)
	for said, want := range map[any]time.Time{
		"2026-07-19T10:00:00":         at,
		`"2026-07-19T10:00:00"`:       at,
		"2026-07-19T10:00:00Z":        at,
		"2026-07-19T12:00:00+02:00":   at,
		"2026-07-19T10:00:00.1234567": at.Add(123456700),
		"9999-12-31T23:59:59":         time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"03/05/2026 10:15:30":         {},
		"":                            {},
		17:                            {},
		true:                          {},
	} {
		var w world
		settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, map[string]any{"EnqueuedTimeUtc": said})))
		require.Equal(t, want, w.onlyMessage(t).Delivery.EnqueuedAt, said)
	}
	var w world
	w.post(t, "/order-placed", invocation(placedBody, map[string]any{"EnqueuedTimeUtc": nil, "EnqueuedTime": "2026-07-19T12:00:00+02:00"}))
	require.Equal(t, at, w.onlyMessage(t).Delivery.EnqueuedAt)
}

func TestTheTypeIsTheSubjectAndElseTheLabel(t *testing.T) {
	t.Parallel()
	var label, both world
	label.post(t, "/order-placed", invocation(placedBody, map[string]any{"Subject": nil}))
	require.Equal(t, workflow.OrderPlaced, label.onlyMessage(t).Type)
	both.post(t, "/order-placed", invocation(placedBody, map[string]any{"Label": quoted("PaymentCaptured")}))
	require.Equal(t, workflow.OrderPlaced, both.onlyMessage(t).Type)
}

func TestPropertiesKeepTheirTypesAndASchemaVersionMayBeANumber(t *testing.T) {
	t.Parallel()
	for _, version := range []any{"1", 1, 1.0, nil} {
		var w world
		properties := map[string]any{"SchemaVersion": version, "ParentMessageId": 42, "attempt": 5, "urgent": true, "more": map[string]any{}}
		settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, map[string]any{"ApplicationProperties": properties})))
		require.Equal(t, "1", w.onlyMessage(t).Schema)
		require.Equal(t, "42", w.onlyMessage(t).ParentID)
	}
	var float world
	float.post(t, "/order-placed", strings.Replace(invocation(placedBody, nil), `"SchemaVersion":"1"`, `"SchemaVersion":1.0`, 1))
	require.Equal(t, "1", float.onlyMessage(t).Schema)
	for _, odd := range []any{"none", 5, []int{1}, nil, `{"SchemaVersion":"1"}`} {
		var w world
		settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, map[string]any{"ApplicationProperties": odd})))
		require.Equal(t, "1", w.onlyMessage(t).Schema)
	}
}

func TestTheTraceIsThatOfTheRequestThenOfTheMessageThenOfItsSender(t *testing.T) {
	t.Parallel()
	id := func(n string) string { return "00-" + strings.Repeat(n, 32) + "-" + strings.Repeat(n, 16) + "-01" }
	for name, tt := range map[string]struct{ header, property, diagnostic, want string }{
		"all three":               {id("1"), id("2"), id("3"), id("1")},
		"no header":               {"", id("2"), id("3"), id("2")},
		"Diagnostic-Id alone":     {"", "", id("3"), id("3")},
		"none":                    {"", "", "", ""},
		"a malformed header":      {"nonsense", id("2"), id("3"), id("2")},
		"in the old form":         {"", "", "|abc.def.", ""},
		"all zero":                {id("0"), "", "", ""},
		"of no span":              {"00-" + strings.Repeat("1", 32) + "-" + strings.Repeat("0", 16) + "-01", "", "", ""},
		"in capitals":             {id("A"), id("a"), "", id("a")},
		"too long for version 00": {id("1") + "-more", "", "", ""},
		"of a later version":      {"01" + id("1")[2:] + "-more", "", "", id("1")},
		"of the forbidden one":    {"ff" + id("1")[2:], "", "", ""},
		"run on":                  {"01" + id("1")[2:] + "more", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			r := newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, map[string]any{
				"ApplicationProperties": map[string]any{"traceparent": tt.property, "Diagnostic-Id": tt.diagnostic},
			})))
			r.Header.Set("Traceparent", tt.header)
			settled(t, 200, send(w.app().Handler(), r))
			require.Equal(t, tt.want, w.onlyMessage(t).TraceParent)
		})
	}
}

func TestDataIsUnderstoodInEveryFormThatWasSeen(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]any{
		"base64":                   base64.StdEncoding.EncodeToString([]byte(placedBody)),
		"a string in a string":     asJSON(placedBody),
		"a string":                 placedBody,
		"a string after spaces":    "\n  " + placedBody,
		"an object":                map[string]any{"orderId": "order-42", "customerId": "c-7", "currency": "EUR", "amount": 12990, "lines": []any{map[string]any{"sku": "A/1", "quantity": 2}}},
		"a string, wrapped":        asJSON(asJSON(placedBody)),
		"base64 with a byte order": base64.StdEncoding.EncodeToString([]byte("\ufeff" + placedBody)),
		"a string with one":        asJSON("\ufeff" + placedBody),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			settled(t, 200, w.post(t, "/order-placed", envelope(data, nil)))
			require.JSONEq(t, placedBody, string(w.onlyMessage(t).Body))
		})
	}
}

func TestDataThatCannotBeReadIsKeptAsItIs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		data         any
		kept, reason string
	}{
		"no base64":      {"hello, world", "hello, world", "not base64"},
		"half a string":  {`"hello`, `"hello`, "begins like the JSON text of a string"},
		"null":           {"null", "", "the body is empty"},
		"bare null":      {nil, "", "the body is empty"},
		"a number":       {17, "17", "not a JSON object"},
		"an empty text":  {`""`, "", "the body is empty"},
		"a text":         {`"hello"`, "hello", "not JSON"},
		"a batch":        {[]string{"a", "b"}, `["a","b"]`, "not a JSON object"},
		"a binary batch": {`["YQ==","Yg=="]`, `["YQ==","Yg=="]`, "not a JSON object"},
		"bytes":          {base64.StdEncoding.EncodeToString([]byte{0xff, 0xfe, 0}), "\xff\xfe\x00", "not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			settled(t, 200, w.post(t, "/order-placed", envelope(tt.data, nil)))
			got := w.onlyRejection(t)
			require.Equal(t, tt.kept, string(got.Body))
			require.Contains(t, got.Reason, tt.reason)
			require.Equal(t, origin, got.ID)
		})
	}
}

func TestInStringModeABodyThatNamesMetadataIsRejectedAndWhatItForgedIsNotHandedOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		property string
		metadata map[string]any
		key      string
		left     func(*workflow.Rejection)
	}{
		"messageId":  {`"messageId":"m-EVIL"`, map[string]any{"MessageId": quoted("m-EVIL")}, "MessageId", func(r *workflow.Rejection) { r.ID = "" }},
		"sessionId":  {`"sessionId":"order-999"`, map[string]any{"SessionId": quoted("order-999")}, "SessionId", func(r *workflow.Rejection) { r.OrderID = "" }},
		"in capital": {`"SESSIONID":"order-999"`, map[string]any{"SessionId": quoted("order-999")}, "SessionId", func(r *workflow.Rejection) { r.OrderID = "" }},
		"escaped":    {`"\u0073essionId":"order-999"`, map[string]any{"SessionId": quoted("order-999")}, "SessionId", func(r *workflow.Rejection) { r.OrderID = "" }},
		"subject":    {`"subject":"PaymentCaptured"`, map[string]any{"Subject": quoted("PaymentCaptured")}, "Subject", func(*workflow.Rejection) {}}, // the label is left
		"correlationId": {
			`"correlationId":"conv-EVIL"`, map[string]any{"CorrelationId": quoted("conv-EVIL")}, "CorrelationId",
			func(r *workflow.Rejection) { r.Conversation = "" },
		},
		"deliveryCount": {
			`"deliveryCount":0`, map[string]any{"DeliveryCount": quoted("0")}, "DeliveryCount",
			func(r *workflow.Rejection) { r.Delivery.Count = 0 },
		},
		"sequenceNumber": {
			`"sequenceNumber":7`, map[string]any{"SequenceNumber": quoted("7")}, "SequenceNumber",
			func(r *workflow.Rejection) { r.Delivery.Sequence = 0 },
		},
		"enqueuedTimeUtc": {
			`"enqueuedTimeUtc":"2020-01-01"`, map[string]any{"EnqueuedTimeUtc": quoted("2020-01-01")}, "EnqueuedTimeUtc",
			func(r *workflow.Rejection) { r.Delivery.EnqueuedAt = time.Time{} },
		},
		"applicationProperties": {
			`"applicationProperties":{"SchemaVersion":"1","OriginatingMessageId":"evil"}`,
			map[string]any{"ApplicationProperties": map[string]any{"OriginatingMessageId": "evil"}}, "ApplicationProperties",
			func(r *workflow.Rejection) { r.Schema = "" },
		},
		"null, though it overwrites nothing": {`"messageId":null`, nil, "MessageId", func(r *workflow.Rejection) { r.ID = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text, binary world
			body := strings.TrimSuffix(placedBody, "}") + "," + tt.property + "}"
			settled(t, 200, text.post(t, "/order-placed", envelope(asJSON(body), tt.metadata)))
			want := workflow.Rejection{
				Envelope: workflow.Envelope{
					ID: origin, Type: workflow.OrderPlaced, OrderID: "order-42", Conversation: "conv-7", Schema: "1", Body: []byte(body),
				},
				Delivery: workflow.Delivery{Function: "order-placed", Count: 1, Sequence: 42, EnqueuedAt: enqueued()},
				Reason: "it came in string mode, where its body overwrites the host's own metadata, and its body has a property of the name " +
					tt.key + "; give the binding in function.json the dataType binary",
			}
			tt.left(&want)
			require.Equal(t, want, text.onlyRejection(t))

			settled(t, 200, binary.post(t, "/order-placed", invocation(body, nil)))
			require.Equal(t, origin, binary.onlyMessage(t).ID, "in binary mode such a body is harmless")
		})
	}
}

func TestTheOldNameOfASubjectIsWatchedTooInStringMode(t *testing.T) {
	t.Parallel()
	var w world
	body := strings.TrimSuffix(placedBody, "}") + `,"label":"PaymentCaptured","subject":"PaymentCaptured"}`
	w.post(t, "/order-placed", envelope(asJSON(body), nil))
	got := w.onlyRejection(t)
	require.Contains(t, got.Reason, "Subject, Label")
	require.Empty(t, got.Type)
}
