package functions_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"orderflow/workflow"
)

// FuzzInvocation posts any bytes: they are answered with a JSON object and never
// with a failure, and a message is either handled or kept.
func FuzzInvocation(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		f.Add(fixture(f, strings.TrimSuffix(filepath.Base(file), ".json")))
	}
	for _, body := range []string{``, `null`, `[]`, placedBody, `{"Data":{"message":[]},"Metadata":{"MessageId":{}}}`, `{"Data":{"message":"\"{\\\"messageId\\\":1}\""}}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if took := survives(t, "/order-placed", body); took != 1 {
			t.Fatalf("the message was handed on %d times", took)
		}
		survives(t, "/outbox-dispatch", body)
		survives(t, "/sweep", body)
		survives(t, "/api/orders", body)
	})
}

// FuzzMessage posts any data and metadata in the host's envelope.
func FuzzMessage(f *testing.F) {
	f.Add(`"eyJvcmRlcklkIjoib3JkZXItNDIifQ=="`, `"\"m-1\""`, `"\"order-42\""`, `{"SchemaVersion":1}`, `"2026-07-19T10:00:00"`)
	f.Add(`{"orderId":"order-42"}`, `17`, `null`, `"{}"`, `"\"\\ud800\""`)
	f.Add(`"\"{\\\"sessionId\\\":1}\""`, `[]`, `true`, `{"traceparent":"00-"}`, `"\"\\\"\""`)
	f.Fuzz(func(t *testing.T, data, id, session, properties, at string) {
		body := `{"Data":{"message":` + data + `},"Metadata":{"Subject":"OrderPlaced","MessageId":` + id + `,"SessionId":` + session +
			`,"ApplicationProperties":` + properties + `,"EnqueuedTimeUtc":` + at + `,"DeliveryCount":` + at + `,"SequenceNumber":` + id + `}}`
		if took := survives(t, "/order-placed", body); took != 1 {
			t.Fatalf("the message was handed on %d times", took)
		}
	})
}

// survives posts a body and returns how often something was handed on.
func survives(t *testing.T, path, body string) int {
	t.Helper()
	w := world{
		drain: func(context.Context) (int, bool, error) { return 0, false, nil },
		sweep: func(context.Context) (workflow.Swept, error) { return workflow.Swept{}, nil },
		story: func(context.Context, string) (workflow.Story, error) { return workflow.Story{}, nil },
	}
	r := newRequest(t, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	answer := send(w.app().Handler(), r)
	var object map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &object); err != nil || len(object) == 0 {
		t.Fatalf("%s answered %d %q: %v", path, answer.Code, answer.Body, err)
	}
	if answer.Code >= 500 {
		t.Fatalf("%s failed: %s", path, &w.log)
	}
	return len(w.messages) + len(w.rejections)
}
