package functions_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
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
	for _, f := range functions.Names()[:12] {
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

func TestTheOutboxsTimerSaysWhatIsNotDone(t *testing.T) {
	t.Parallel()
	w := world{
		drain: func(context.Context) (int, bool, error) { return 0, false, nil },
		count: func(context.Context) (workflow.Backlog, error) {
			return workflow.Backlog{Waiting: 1, Lag: 2500 * time.Millisecond, Dead: 3, Blocked: 4, Early: 5, Overdue: 6}, nil
		},
	}
	settled(t, 200, w.post(t, "/outbox-dispatch", fixture(t, "timer")))
	line := w.logged(t)
	for key, want := range map[string]float64{"waiting": 1, "lagMs": 2500, "dead": 3, "blocked": 4, "early": 5, "overdue": 6} {
		require.InDelta(t, want, line[key], 0, key)
	}
}

func TestTheBacklogIsAWarningWhenAPersonShouldSeeToItAndOnlyOnceForEachChange(t *testing.T) {
	t.Parallel()
	var now workflow.Backlog
	w := world{
		drain: func(context.Context) (int, bool, error) { return 0, false, nil },
		count: func(context.Context) (workflow.Backlog, error) { return now, nil },
	}
	h := w.app().Handler()
	for i, step := range []struct {
		backlog workflow.Backlog
		level   string
	}{
		{workflow.Backlog{}, "INFO"},
		{workflow.Backlog{Waiting: 100, Lag: time.Hour, Early: 7}, "INFO"},
		{workflow.Backlog{Dead: 1}, "WARN"},
		{workflow.Backlog{Dead: 1, Waiting: 5, Lag: time.Minute}, "INFO"},
		{workflow.Backlog{Dead: 1, Blocked: 1}, "WARN"},
		{workflow.Backlog{Dead: 1, Blocked: 1}, "INFO"},
		{workflow.Backlog{Blocked: 1, Overdue: 2}, "WARN"},
		{workflow.Backlog{Blocked: 1}, "WARN"},
		{workflow.Backlog{}, "INFO"},
		{workflow.Backlog{Overdue: 1}, "WARN"},
	} {
		now = step.backlog
		w.log.Reset()
		settled(t, 200, send(h, newRequest(t, http.MethodPost, "/outbox-dispatch", strings.NewReader(fixture(t, "timer")))))
		require.Equal(t, step.level, w.logged(t)["level"], "step %d", i)
	}
}

func TestABacklogThatCannotBeCountedIsNoFailureOfTheDrain(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]func(context.Context) (workflow.Backlog, error){
		"it is away": func(context.Context) (workflow.Backlog, error) { return workflow.Backlog{}, errors.New("a fault") },
		"it panics":  func(context.Context) (workflow.Backlog, error) { panic("a fault") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{drain: func(context.Context) (int, bool, error) { return 7, false, nil }, count: count}
			settled(t, 200, w.post(t, "/outbox-dispatch", fixture(t, "timer")))
			line := w.logged(t)
			require.Equal(t, "WARN", line["level"])
			require.InDelta(t, 7, line["sent"], 0)
			require.Contains(t, line["backlog"], "a fault")
			require.NotContains(t, line, "dead")
		})
	}
	w := world{drain: func(context.Context) (int, bool, error) { return 7, false, nil }}
	a := w.app()
	a.Backlog = nil
	settled(t, 200, send(a.Handler(), newRequest(t, http.MethodPost, "/outbox-dispatch", strings.NewReader(fixture(t, "timer")))))
	require.Equal(t, "INFO", w.logged(t)["level"], "nobody asked for it")
}

func TestTheSweepsTimerSweepsAndSaysWhatItDid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		did   workflow.Swept
		level string
		line  string
	}{
		"nothing": {workflow.Swept{}, "INFO", "sweep: sent 0 deadlines again, rejected 0 early messages, handled 0 that waited, purged 0 orders"},
		"all sorts": {
			workflow.Swept{Resent: 1, TooEarly: 2, Replayed: 3, Purged: 4, Settled: 5, More: true}, "WARN",
			"sweep: sent 1 deadlines again, rejected 2 early messages, handled 3 that waited, purged 4 orders, more is left",
		},
		"a lost deadline":   {workflow.Swept{Resent: 1}, "WARN", "sweep: sent 1 deadlines"},
		"an early message":  {workflow.Swept{TooEarly: 1}, "WARN", "rejected 1 early"},
		"what is no matter": {workflow.Swept{Replayed: 1, Purged: 1}, "INFO", "handled 1 that waited, purged 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{sweep: func(context.Context) (workflow.Swept, error) { return tt.did, nil }}
			answer := w.post(t, "/sweep", fixture(t, "timer"))
			require.Contains(t, answer.Body.String(), tt.line)
			settled(t, 200, answer)
			line := w.logged(t)
			require.Equal(t, tt.level, line["level"])
			for key, want := range map[string]int{"resent": tt.did.Resent, "tooEarly": tt.did.TooEarly, "replayed": tt.did.Replayed, "purged": tt.did.Purged, "forgotten": tt.did.Settled} {
				require.InDelta(t, want, line[key], 0, key)
			}
			require.Equal(t, tt.did.More, line["more"])
			require.Equal(t, true, line["pastDue"])
		})
	}
}

func TestASweepThatFailsIsAFailure(t *testing.T) {
	t.Parallel()
	w := world{sweep: func(context.Context) (workflow.Swept, error) {
		return workflow.Swept{Purged: 2}, errors.New("the database is away")
	}}
	settled(t, 500, w.post(t, "/sweep", "hello"))
	require.Equal(t, "sweep: the database is away", w.logged(t)["error"])
	require.InDelta(t, 2, w.logged(t)["purged"], 0)
}
