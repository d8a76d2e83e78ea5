package functions_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

// office stands in for what operators have, and keeps what it is asked for. What
// is not set is empty.
type office struct {
	find       func(context.Context, workflow.Search) (workflow.Page[workflow.Listed], error)
	summary    func(context.Context) (workflow.Summary, error)
	dispatches func(state string, deadlines bool, top int, after string) (workflow.Page[workflow.DispatchAt], error)
	kept       func(outcome workflow.Outcome, top int, after string) (workflow.Page[workflow.Kept], error)
	rejections func(top int, after string) (workflow.Page[workflow.Refused], error)
	rejection  func(id string) (workflow.Refused, error)
	act        func(context.Context, workflow.Action) (workflow.Decision, error)
	fire       func(workflow.Action) (workflow.Decision, error)
	dealt      func(how, id, actor, reason string) error
	isReady    func(context.Context) error

	searches []workflow.Search
	actions  []workflow.Action
	fired    []workflow.Action
	dealings []string
}

func (o *office) Orders(ctx context.Context, s workflow.Search) (workflow.Page[workflow.Listed], error) {
	o.searches = append(o.searches, s)
	if o.find == nil {
		return workflow.Page[workflow.Listed]{}, nil
	}
	return o.find(ctx, s)
}

func (o *office) Summary(ctx context.Context) (workflow.Summary, error) {
	if o.summary == nil {
		return workflow.Summary{}, nil
	}
	return o.summary(ctx)
}

func (o *office) Dispatches(_ context.Context, state string, deadlines bool, top int, after string) (workflow.Page[workflow.DispatchAt], error) {
	if o.dispatches == nil {
		return workflow.Page[workflow.DispatchAt]{}, nil
	}
	return o.dispatches(state, deadlines, top, after)
}

func (o *office) Kept(_ context.Context, outcome workflow.Outcome, top int, after string) (workflow.Page[workflow.Kept], error) {
	if o.kept == nil {
		return workflow.Page[workflow.Kept]{}, nil
	}
	return o.kept(outcome, top, after)
}

func (o *office) Rejections(_ context.Context, top int, after string) (workflow.Page[workflow.Refused], error) {
	if o.rejections == nil {
		return workflow.Page[workflow.Refused]{}, nil
	}
	return o.rejections(top, after)
}

func (o *office) Rejection(_ context.Context, id string) (workflow.Refused, error) {
	if o.rejection == nil {
		return workflow.Refused{}, workflow.ErrNoMessage
	}
	return o.rejection(id)
}

func (o *office) Discard(_ context.Context, id, actor, reason string) error {
	return o.deal("discarded", id, actor, reason)
}

func (o *office) Resubmitted(_ context.Context, id, actor, reason string) error {
	return o.deal("resubmitted", id, actor, reason)
}

func (o *office) deal(how, id, actor, reason string) error {
	o.dealings = append(o.dealings, strings.Join([]string{how, id, actor, reason}, " | "))
	if o.dealt == nil {
		return nil
	}
	return o.dealt(how, id, actor, reason)
}

func (o *office) Act(ctx context.Context, a workflow.Action) (workflow.Decision, error) {
	o.actions = append(o.actions, a)
	if o.act == nil {
		return workflow.Decision{Outcome: workflow.Applied, Reason: a.Words(), Message: a.Message()}, nil
	}
	return o.act(ctx, a)
}

func (o *office) FireDeadline(_ context.Context, a workflow.Action) (workflow.Decision, error) {
	o.fired = append(o.fired, a)
	if o.fire != nil {
		return o.fire(a)
	}
	return workflow.Decision{Outcome: workflow.Applied, Reason: "done", Message: a.Message()}, nil
}

func (o *office) Ready(ctx context.Context) error {
	if o.isReady == nil {
		return nil
	}
	return o.isReady(ctx)
}

// get asks for something and returns the answer.
func (w *world) get(t *testing.T, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return ask(t, w.app(), http.MethodGet, path, "", headers...)
}

// ask makes a request with headers; of a body it says that it is JSON.
func ask(t *testing.T, a functions.App, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := newRequest(t, method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	return send(a.Handler(), r)
}

// object is an answer's JSON object.
func object(t *testing.T, answer *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var o map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &o), answer.Body)
	return o
}

// problemOf asserts that an answer is a problem and returns all of it.
func problemOf(t *testing.T, status int, answer *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	aProblem(t, status, answer)
	return object(t, answer)
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
