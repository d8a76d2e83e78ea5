package functions_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

func TestAPanicCostsOneRequestAndItsStackIsLogged(t *testing.T) {
	t.Parallel()
	w := world{handle: func(_ context.Context, m workflow.Message) (workflow.Decision, error) {
		if m.ID == "m-bad" {
			panic("a fault")
		}
		return decision(workflow.Applied), nil
	}}
	server := httptest.NewServer(w.app().Handler())
	defer server.Close()
	bad := postTo(t, server.URL+"/order-placed", invocation(placedBody, map[string]any{"MessageId": quoted("m-bad")}))
	require.Equal(t, 200, bad, "it is kept")
	line := w.logged(t)
	require.Equal(t, "handle the message: panic: a fault", line["error"])
	require.Contains(t, line["trouble"], "contain_test.go")
	require.Equal(t, "m-bad", line["messageId"])
	require.Equal(t, 200, postTo(t, server.URL+"/order-placed", invocation(placedBody, nil)))
}

func TestAnAbortedHandlerDropsTheConnection(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) { panic(http.ErrAbortHandler) }}
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { w.post(t, "/order-placed", invocation(placedBody, nil)) })
}

func postTo(t *testing.T, url, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

func TestAnInvocationEndsAtItsOwnDeadlineLongBeforeTheHostsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		w := world{handle: func(ctx context.Context, _ workflow.Message) (workflow.Decision, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			<-ctx.Done()
			return workflow.Decision{}, ctx.Err()
		}}
		settled(t, 500, w.post(t, "/order-placed", invocation(placedBody, nil)))
		require.Equal(t, functions.DefaultDeadline, left)
		require.Equal(t, "handle the message: context deadline exceeded", w.logged(t)["error"])
	})
}

func TestACallerThatHasGoneDoesNotEndTheWork(t *testing.T) {
	t.Parallel()
	w := world{handle: func(ctx context.Context, _ workflow.Message) (workflow.Decision, error) {
		return decision(workflow.Applied), ctx.Err()
	}}
	gone, leave := context.WithCancel(t.Context())
	leave()
	settled(t, 200, send(w.app().Handler(), httptest.NewRequestWithContext(gone, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, nil)))))
}

func TestManyInvocationsAtOnceAreKeptApart(t *testing.T) {
	t.Parallel()
	w := world{handle: func(_ context.Context, m workflow.Message) (workflow.Decision, error) {
		d := decision(workflow.Applied)
		d.Reason = m.OrderID
		return d, nil
	}}
	h := w.app().Handler()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			id := fmt.Sprintf("order-%d", i)
			body := strings.ReplaceAll(placedBody, "order-42", id)
			answer := send(h, newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(body, map[string]any{"SessionId": quoted(id)}))))
			if answer.Code != 200 || !strings.Contains(answer.Body.String(), ": "+id+`"]`) {
				t.Errorf("%s was answered with %d %s", id, answer.Code, answer.Body)
			}
		})
	}
	all.Wait()
	require.Len(t, w.messages, 64)
}
