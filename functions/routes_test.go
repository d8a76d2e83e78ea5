package functions_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
)

func TestTheProbeIsAnsweredWithNothingBehindIt(t *testing.T) {
	t.Parallel()
	h := functions.App{}.Handler()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		answer := send(h, newRequest(t, method, "/", http.NoBody))
		require.Equal(t, 200, answer.Code)
		require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
		require.True(t, json.Valid(answer.Body.Bytes()))
	}
}

func TestWithNothingBehindItAMessageFailsAndTheProcessLives(t *testing.T) {
	t.Parallel()
	h := functions.App{}.Handler()
	for _, f := range functions.Names()[:11] {
		settled(t, 500, send(h, newRequest(t, http.MethodPost, "/"+f, strings.NewReader(invocation(placedBody, nil)))))
	}
}

func TestPathsAreMatchedExactlyAndNeverRedirected(t *testing.T) {
	t.Parallel()
	var w world
	for _, path := range []string{
		"/order-placed/", "//order-placed", "/Order-Placed", "/api/order-placed", "/orders", "/api", "/api/ordersx",
		"/./order-placed", "/order-placed/../order-placed", "/favicon.ico", "/order-placed%0Ax",
	} {
		r := newRequest(t, http.MethodPost, "/", strings.NewReader(invocation(placedBody, nil)))
		r.URL.Path = path
		settled(t, 404, send(w.app().Handler(), r))
	}
	require.Empty(t, w.messages)
}

func TestAFunctionTakesNothingButPost(t *testing.T) {
	t.Parallel()
	var w world
	h := w.app().Handler()
	for _, s := range functions.Subscriptions() {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			answer := send(h, newRequest(t, method, "/"+s.Name, http.NoBody))
			require.Equal(t, "POST", answer.Header().Get("Allow"))
			settled(t, 405, answer)
		}
	}
}

func TestEveryMessageFunctionHandlesWhatItsSubscriptionDelivers(t *testing.T) {
	t.Parallel()
	for _, s := range functions.Subscriptions() {
		for _, kind := range s.Types {
			var w world
			body := `{"orderId":"order-42","customerId":"c-7","currency":"EUR","amount":1,"lines":[{"sku":"A","quantity":1}],` +
				`"reservationId":"r","paymentId":"p","refundId":"f","shipmentId":"s","commandId":"c","reason":"why",` +
				`"timeoutId":"t","dueAt":"2026-07-19T10:00:00Z"}`
			settled(t, 200, w.post(t, "/"+s.Name, invocation(body, map[string]any{"Subject": quoted(string(kind))})))
			require.Equal(t, kind, w.onlyMessage(t).Type)
			require.Equal(t, s.Name, w.onlyMessage(t).Delivery.Function)
		}
	}
}

func TestTheTimerDrainsTheOutboxWhateverItSaysOfItself(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body    string
		pastDue bool
	}{
		"with a schedule":           {fixture(t, "timer"), true},
		"without one":               {fixture(t, "timer.no-schedule-status"), false},
		"from the admin endpoint":   {`{"Data":{"timer":"null"},"Metadata":{}}`, false},
		"in no form that was known": {`hello`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drained := 0
			w := world{drain: func(context.Context) (int, bool, error) { drained++; return 7, true, nil }}
			answer := w.post(t, "/outbox-dispatch", tt.body)
			sameBytes(t, `{"Outputs":{},"Logs":["outbox-dispatch: sent 7, more is due"],"ReturnValue":null}`, answer.Body.Bytes())
			settled(t, 200, answer)
			require.Equal(t, 1, drained)
			line := w.logged(t)
			require.Equal(t, "INFO", line["level"])
			require.InDelta(t, 7, line["sent"], 0)
			require.Equal(t, true, line["more"])
			require.Equal(t, tt.pastDue, line["pastDue"])
		})
	}
}

func TestADrainThatFailsIsAFailure(t *testing.T) {
	t.Parallel()
	w := world{drain: func(context.Context) (int, bool, error) { return 2, false, errors.New("the broker is away") }}
	settled(t, 500, w.post(t, "/outbox-dispatch", fixture(t, "timer")))
	require.Equal(t, "drain the outbox: the broker is away", w.logged(t)["error"])
	require.InDelta(t, 2, w.logged(t)["sent"], 0)
}
