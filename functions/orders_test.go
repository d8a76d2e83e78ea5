package functions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

// order is a request to place an order.
func order(t *testing.T, body string, headers ...string) *http.Request {
	t.Helper()
	r := newRequest(t, http.MethodPost, "/api/orders", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// aProblem asserts that an answer is one by RFC 9457 that says what to do.
func aProblem(t *testing.T, status int, answer *httptest.ResponseRecorder) (detail string) {
	t.Helper()
	require.Equal(t, status, answer.Code, answer.Body)
	require.Equal(t, "application/problem+json", answer.Header().Get("Content-Type"))
	var p struct {
		Type, Title, Detail, Remedy string
		Status                      int
	}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &p))
	require.Equal(t, "about:blank", p.Type)
	require.Equal(t, http.StatusText(status), p.Title)
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Detail)
	require.NotEmpty(t, p.Remedy)
	return p.Detail
}

func TestAnOrderPlacedOverHTTPIsTheSameMessageAsOverTheBroker(t *testing.T) {
	t.Parallel()
	var w world
	answer := send(w.app().Handler(), order(t, zoe, "Traceparent", trace))
	require.Equal(t, 202, answer.Code)
	require.Equal(t, "/api/orders/order-42", answer.Header().Get("Location"))
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	require.JSONEq(t, `{"orderId":"order-42","status":"AwaitingInventory","version":1,
		"messageId":"api:order-placed:order-42","outcome":"Applied","reason":"the order was placed"}`, answer.Body.String())

	got := w.onlyMessage(t)
	want := placedEnvelope()
	want.ID, want.ParentID, want.OriginID = "api:order-placed:order-42", "api:order-placed:order-42", "api:order-placed:order-42"
	want.Conversation = "" // the process makes it the message's own ID
	require.Equal(t, want, got.Envelope)
	require.Equal(t, placedFacts(), got.Facts)
	require.Equal(t, workflow.Delivery{Function: "place-order"}, got.Delivery)

	var broker world
	broker.post(t, "/order-placed", fixture(t, "order-placed.binary"))
	require.Equal(t, broker.onlyMessage(t).Fingerprint, got.Fingerprint)
	require.Equal(t, "place-order", w.logged(t)["function"])
	require.NotContains(t, w.log.String(), "Zoë")
}

func TestTheIdempotencyKeyIsTheMessageId(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k-1", strings.Repeat("k", 128), `"quoted"`, "order-420:x"} {
		var w world
		require.Equal(t, 202, send(w.app().Handler(), order(t, placedBody, "Idempotency-Key", key)).Code)
		require.Equal(t, key, w.onlyMessage(t).ID)
	}
	var w world
	require.Equal(t, 202, send(w.app().Handler(), order(t, strings.ReplaceAll(placedBody, "order-42", "api"))).Code)
	require.Equal(t, "api:order-placed:api", w.onlyMessage(t).ID)
}

func TestABadIdempotencyKeyIsRefused(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{
		"empty":               {"Idempotency-Key", ""},
		"too long":            {"Idempotency-Key", strings.Repeat("k", 129)},
		"a control character": {"Idempotency-Key", "k\x01"},
		"no UTF-8":            {"Idempotency-Key", "k\xff"},
		"two":                 {"Idempotency-Key", "k-1", "Idempotency-Key", "k-2"},
		"one that would shadow the order's own messages": {"Idempotency-Key", "order-42:payment-timeout:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			require.Contains(t, aProblem(t, 400, send(w.app().Handler(), order(t, placedBody, headers...))), "Idempotency-Key")
			require.Empty(t, w.messages)
		})
	}
}

func TestTheSameOrderAgainIsAnsweredFromWhatIsRecorded(t *testing.T) {
	t.Parallel()
	for _, outcome := range []workflow.Outcome{workflow.Duplicate, workflow.Stale} {
		w := world{
			handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
				return workflow.Decision{Outcome: outcome, Reason: "as before"}, nil
			},
			story: func(_ context.Context, id string) (workflow.Story, error) {
				return workflow.Story{Order: workflow.Order{ID: id, Status: workflow.Completed, Version: 4}}, nil
			},
		}
		answer := send(w.app().Handler(), order(t, placedBody))
		require.Equal(t, 200, answer.Code)
		require.Equal(t, "/api/orders/order-42", answer.Header().Get("Location"))
		require.JSONEq(t, fmt.Sprintf(`{"orderId":"order-42","status":"Completed","version":4,
			"messageId":"api:order-placed:order-42","outcome":%q,"reason":"as before"}`, outcome), answer.Body.String())

		w.story = func(context.Context, string) (workflow.Story, error) { return workflow.Story{}, workflow.ErrTransient }
		aProblem(t, 503, send(w.app().Handler(), order(t, placedBody)))
	}
}

func TestAnOrderHeldBehindABlockedOneIsAccepted(t *testing.T) {
	t.Parallel()
	for _, outcome := range []workflow.Outcome{workflow.Held, workflow.Blocked} {
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
			return decision(outcome), nil
		}}
		answer := send(w.app().Handler(), order(t, placedBody))
		require.Equal(t, 202, answer.Code)
		require.Contains(t, answer.Body.String(), string(outcome))
	}
}

func TestAnOrderWithTheIDOfAnotherIsAConflict(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Rejected, Reason: "conflict: amount is recorded as 1"}, nil
	}}
	require.Contains(t, aProblem(t, 409, send(w.app().Handler(), order(t, placedBody))), "conflict")
	require.Equal(t, "WARN", w.logged(t)["level"])
}

func TestAnOrderThatCannotBePlacedNowMayBeSentAgain(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct {
		outcome workflow.Outcome
		err     error
	}{{"", workflow.ErrTransient}, {"", context.DeadlineExceeded}, {workflow.Failed, nil}, {"", nil}} {
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
			return workflow.Decision{Outcome: answer.outcome}, answer.err
		}}
		got := send(w.app().Handler(), order(t, placedBody))
		require.Equal(t, "5", got.Header().Get("Retry-After"))
		aProblem(t, 503, got)
		require.Equal(t, "ERROR", w.logged(t)["level"])
	}
}

func TestTheLargestOrderIsTakenAndLeavesRoomForWhatItSends(t *testing.T) {
	t.Parallel()
	const largest = functions.DefaultMaxBody * 7 / 8
	w := world{handle: func(_ context.Context, m workflow.Message) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Applied, To: workflow.AwaitingInventory, Version: 1}, nil
	}}
	for size, want := range map[int]int{largest: 202, largest + 1: 413} {
		require.Equal(t, want, send(w.app().Handler(), order(t, placedBody+strings.Repeat(" ", size-len(placedBody)))).Code, "%d bytes", size)
	}
}

func TestARequestThatIsNoOrderIsRefusedAndSaysWhy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		request *http.Request
		status  int
		detail  string
	}{
		"no JSON":            {order(t, `{"orderId":`), 400, "unexpected end of JSON input at byte"},
		"empty":              {order(t, ``), 400, "not a JSON object"},
		"null":               {order(t, `null`), 400, "not a JSON object"},
		"a list":             {order(t, `[]`), 400, "not a JSON object"},
		"no order ID":        {order(t, `{}`), 400, "the field orderId"},
		"an order ID of 17":  {order(t, `{"orderId":17}`), 400, "the field orderId"},
		"a bad order ID":     {order(t, `{"orderId":"a/b"}`), 400, "the field orderId"},
		"no address":         {order(t, `{"orderId":".."}`), 400, "or is . or .."},
		"a long order ID":    {order(t, `{"orderId":"`+strings.Repeat("x", 97)+`"}`), 400, "the field orderId"},
		"a missing field":    {order(t, `{"orderId":"order-42","customerId":"c"}`), 400, "the field currency is missing"},
		"a price in floats":  {order(t, strings.Replace(placedBody, "12990", "129.90", 1)), 400, "the field amount must be"},
		"deeply nested":      {order(t, `{"orderId":"order-42","x":`+strings.Repeat("[", 99)+strings.Repeat("]", 99)+`}`), 400, "nested"},
		"too large":          {order(t, placedBody+strings.Repeat(" ", functions.DefaultMaxBody*7/8)), 413, "229376"},
		"a form":             {order(t, placedBody), 415, "Content-Type"},
		"of no type":         {order(t, placedBody), 415, "Content-Type"},
		"broken off":         {order(t, ""), 400, "broke off"},
		"an order by its ID": {order(t, placedBody), 405, "method"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			switch tt.request.Method = http.MethodPost; name {
			case "a form":
				tt.request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			case "of no type":
				tt.request.Header.Del("Content-Type")
			case "broken off":
				tt.request.Body, tt.request.ContentLength = io.NopCloser(brokenOff{}), -1
			case "an order by its ID":
				tt.request.URL.Path = "/api/orders/order-42"
			}
			var w world
			require.Contains(t, aProblem(t, tt.status, send(w.app().Handler(), tt.request)), tt.detail)
			require.Empty(t, w.messages)
			require.Empty(t, w.rejections, "whoever sent it is told; nothing is kept")
		})
	}
}

func TestOtherMethodsAreRefusedWithThoseThatAreAllowed(t *testing.T) {
	t.Parallel()
	var w world
	for path, allow := range map[string]string{
		"/api/orders": "GET, HEAD, POST", "/api/orders/": "GET, HEAD, POST", "/api/orders/order-42": "GET, HEAD",
		"/api/orders/order-42/cancel": "POST", "/api/operations/rejected/r-1": "GET, HEAD", "/api/operations/rejected/r-1/discard": "POST",
		"/api/health/ready": "GET, HEAD",
	} {
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
			answer := send(w.app().Handler(), newRequest(t, method, path, http.NoBody))
			require.Equal(t, allow, answer.Header().Get("Allow"))
			aProblem(t, 405, answer)
		}
	}
}

func TestAPanicBehindTheAPIIsAProblemOfOneRequest(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) { panic("a fault") }}
	aProblem(t, 500, send(w.app().Handler(), order(t, placedBody)))
	require.Equal(t, "panic: a fault", w.logged(t)["error"])
	require.Empty(t, w.holds, "whoever sent it is told")
}
