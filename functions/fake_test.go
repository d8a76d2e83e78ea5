package functions_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

// world stands in for everything behind the functions, and keeps what it is
// given. Its fields may be set to force an answer.
type world struct {
	handle func(context.Context, workflow.Message) (workflow.Decision, error)
	hold   func(context.Context, workflow.Message, string) (workflow.Decision, error)
	reject func(context.Context, workflow.Rejection) error
	story  func(context.Context, string) (workflow.Story, error)
	drain  func(context.Context) (int, bool, error)
	count  func(context.Context) (workflow.Backlog, error)
	sweep  func(context.Context) (workflow.Swept, error)
	office       // what operators have
	pile   *pile // what the broker gave up; nil: nobody looks

	mu         sync.Mutex
	messages   []workflow.Message
	rejections []workflow.Rejection
	holds      []held
	log        bytes.Buffer
}

// held is a message that was to be kept, and why.
type held struct {
	workflow.Message
	why string
}

func (w *world) Handle(ctx context.Context, m workflow.Message) (workflow.Decision, error) {
	w.mu.Lock()
	w.messages = append(w.messages, m)
	w.mu.Unlock()
	if w.handle != nil {
		return w.handle(ctx, m)
	}
	return decision(workflow.Applied), nil
}

func (w *world) Reject(ctx context.Context, r workflow.Rejection) error {
	w.mu.Lock()
	w.rejections = append(w.rejections, r)
	w.mu.Unlock()
	if w.reject != nil {
		return w.reject(ctx, r)
	}
	return nil
}

func (w *world) Hold(ctx context.Context, m workflow.Message, why string) (workflow.Decision, error) {
	w.mu.Lock()
	w.holds = append(w.holds, held{m, why})
	w.mu.Unlock()
	if w.hold != nil {
		return w.hold(ctx, m, why)
	}
	d := decision(workflow.Blocked)
	d.Reason = why
	return d, nil
}

func (w *world) Story(ctx context.Context, id string) (workflow.Story, error) {
	return w.story(ctx, id)
}

func (w *world) Drain(ctx context.Context) (int, bool, error) { return w.drain(ctx) }

func (w *world) Backlog(ctx context.Context) (workflow.Backlog, error) {
	if w.count == nil {
		return workflow.Backlog{}, nil
	}
	return w.count(ctx)
}

func (w *world) Sweep(ctx context.Context) (workflow.Swept, error) { return w.sweep(ctx) }

// Write takes log lines.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

func (w *world) app() functions.App {
	a := functions.App{
		Process: w, Orders: w, Outbox: w, Backlog: w, Sweeper: w, Operators: &w.office, Database: &w.office, Page: sketch{},
		Log: slog.New(slog.NewJSONHandler(w, nil)),
	}
	if w.pile != nil {
		a.DeadLetters = w.pile
	}
	return a
}

// logged is the one line that was logged.
func (w *world) logged(t *testing.T) map[string]any {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(t, 1, strings.Count(w.log.String(), "\n"), "one line for one invocation: %s", &w.log)
	var line map[string]any
	require.NoError(t, json.Unmarshal(w.log.Bytes(), &line))
	return line
}

// onlyMessage is the one message that was handed on to be handled.
func (w *world) onlyMessage(t *testing.T) workflow.Message {
	t.Helper()
	require.Empty(t, w.rejections)
	require.Len(t, w.messages, 1)
	return w.messages[0]
}

// onlyHold is the one message that was held, which was not rejected.
func (w *world) onlyHold(t *testing.T) held {
	t.Helper()
	require.Empty(t, w.rejections)
	require.Len(t, w.holds, 1)
	return w.holds[0]
}

// onlyRejection is the one message that was kept apart.
func (w *world) onlyRejection(t *testing.T) workflow.Rejection {
	t.Helper()
	require.Empty(t, w.messages)
	require.Empty(t, w.holds)
	require.Len(t, w.rejections, 1)
	return w.rejections[0]
}

func decision(outcome workflow.Outcome) workflow.Decision {
	return workflow.Decision{
		Outcome: outcome, Reason: "the order was placed",
		From: workflow.NotStarted, To: workflow.AwaitingInventory, Version: 1,
	}
}

// post sends what the host would send and returns its answer.
func (w *world) post(t *testing.T, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	return send(w.app().Handler(), newRequest(t, http.MethodPost, path, strings.NewReader(body)))
}

func newRequest(t testing.TB, method, path string, body io.Reader) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), method, path, body)
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer
}

// settled asserts that an answer is one that the host can read.
func settled(t *testing.T, status int, answer *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, status, answer.Code, answer.Body)
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	require.Empty(t, answer.Header().Get("Content-Encoding"))
	var body struct {
		Outputs     map[string]any
		Logs        []string
		ReturnValue any
	}
	decoder := json.NewDecoder(answer.Body)
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&body))
	require.NotNil(t, body.Outputs)
	require.Empty(t, body.Outputs)
	require.Len(t, body.Logs, 1)
	require.NotContains(t, body.Logs[0], "\n")
	require.Nil(t, body.ReturnValue)
}

// sameBytes asserts equality of bytes, where equal JSON would not be enough.
func sameBytes(t *testing.T, want string, got []byte) {
	t.Helper()
	require.Equal(t, []byte(want), got)
}

// fixture is a request of the host as it is known to look.
func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	return string(text)
}

// asJSON is a value as JSON text.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// quoted is a text as the host writes it in metadata: its JSON text inside a
// JSON string, here without the outer quotes.
func quoted(s string) string { return asJSON(s) }

// invocation is a request of the host for a body in binary mode. What metadata
// names replaces what it would be; nil takes a key away.
func invocation(body string, metadata map[string]any) string {
	return envelope(base64.StdEncoding.EncodeToString([]byte(body)), metadata)
}

func envelope(data any, metadata map[string]any) string {
	all := map[string]any{
		"MessageId": quoted("orders:order-placed:42"), "SessionId": quoted("order-42"),
		"CorrelationId": quoted("conv-7"), "Subject": quoted("OrderPlaced"), "Label": quoted("OrderPlaced"),
		"DeliveryCount": "1", "SequenceNumber": "42", "EnqueuedTimeUtc": "2026-07-19T10:00:00",
		"ApplicationProperties": map[string]any{"SchemaVersion": "1"},
		"sys":                   map[string]any{"MethodName": "order-placed"},
	}
	maps.Copy(all, metadata)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return asJSON(map[string]any{"Data": map[string]any{"message": data}, "Metadata": all})
}

const placedBody = `{"orderId":"order-42","customerId":"c-7","currency":"EUR","amount":12990,"lines":[{"sku":"A/1","quantity":2}]}`
