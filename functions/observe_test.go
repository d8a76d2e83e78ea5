package functions_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

const (
	theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ours   = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
)

// observer keeps what it is told, and answers with a trace context.
type observer struct {
	answer string
	mu     sync.Mutex
	begun  []functions.Invocation
	over   []functions.Invocation
	count  []functions.Invocation
}

func (o *observer) watch(a functions.App) functions.App {
	keep := func(in *[]functions.Invocation) func(functions.Invocation) {
		return func(i functions.Invocation) {
			o.mu.Lock()
			defer o.mu.Unlock()
			*in = append(*in, i)
		}
	}
	a.Trace = func(i functions.Invocation) (string, func(functions.Invocation)) {
		keep(&o.begun)(i)
		return o.answer, keep(&o.over)
	}
	a.Measure = keep(&o.count)
	return a
}

func TestAMessageGoesOnUnderTheTraceContextThatTheObserverGivesIt(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		ours: ours, "": theirs, "nonsense": theirs, ours[:54]: theirs,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": theirs,
	} {
		var w world
		o := observer{answer: answer}
		properties := map[string]any{"ApplicationProperties": map[string]any{"traceparent": theirs}}
		send(o.watch(w.app()).Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, properties))))
		require.Equal(t, want, w.messages[0].TraceParent, answer)
		require.Equal(t, want[3:35], w.logged(t)["traceId"])
		require.Equal(t, theirs, o.begun[0].Envelope.TraceParent)
		require.Equal(t, want, o.over[0].Envelope.TraceParent)
	}
}

func TestSoDoesARejectedOneAndAnOrderPlacedOverHTTP(t *testing.T) {
	t.Parallel()
	var w world
	o := observer{answer: ours}
	h := o.watch(w.app()).Handler()
	send(h, newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation("{}", nil))))
	require.Equal(t, ours, w.rejections[0].TraceParent)
	r := newRequest(t, http.MethodPost, "/api/orders", strings.NewReader(placedBody))
	r.Header.Set("Content-Type", "application/json")
	require.Equal(t, http.StatusAccepted, send(h, r).Code)
	require.Equal(t, ours, w.messages[0].TraceParent)
	require.False(t, o.over[0].Forwarded)
	require.True(t, o.over[1].Forwarded)
	require.Equal(t, http.StatusAccepted, o.over[1].Status)
}

func TestTheObserverIsToldOnceWhatBecameOfAnInvocation(t *testing.T) {
	t.Parallel()
	broken := errors.New("no luck")
	for name, tt := range map[string]struct {
		world   *world
		path    string
		body    string
		traced  bool
		outcome workflow.Outcome
		trouble string // "" for an invocation that did not fail
	}{
		"applied": {&world{}, "/order-placed", invocation(placedBody, nil), true, workflow.Applied, ""},
		"failed": {
			&world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) { return workflow.Decision{}, broken }, hold: func(context.Context, workflow.Message, string) (workflow.Decision, error) {
				return workflow.Decision{}, broken
			}},
			"/order-placed", invocation(placedBody, nil), true, workflow.Failed, "no luck",
		},
		"blocked": {
			&world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) { return workflow.Decision{}, broken }},
			"/order-placed", invocation(placedBody, nil), true, workflow.Blocked, "no luck",
		},
		"blocks beside": {
			&world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
				return workflow.Decision{Outcome: workflow.Applied, Reason: "all is well", Trouble: "the order is blocked by m-7: no luck\ngoroutine 1"}, nil
			}},
			"/order-placed", invocation(placedBody, nil), true, workflow.Applied, "the order is blocked by m-7: no luck",
		},
		"waits in a line": {
			&world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
				return workflow.Decision{Outcome: workflow.Blocked, Reason: "it waits behind m-7", Trouble: "goroutine 1"}, nil
			}},
			"/order-placed", invocation(placedBody, nil), true, workflow.Blocked, "it waits behind m-7",
		},
		"panicked": {
			&world{drain: func(context.Context) (int, bool, error) { panic("no luck") }},
			"/outbox-dispatch", "{}", false, workflow.Failed, "no luck",
		},
		"a timer": {
			&world{drain: func(context.Context) (int, bool, error) { return 0, false, nil }},
			"/outbox-dispatch", "{}", false, "", "",
		},
		"nobody's": {&world{}, "/nowhere", "{}", false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := observer{answer: ours}
			a := o.watch(tt.world.app())
			clock := time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)
			began := clock
			a.Now = func() time.Time {
				defer func() { clock = clock.Add(time.Second) }()
				return clock
			}
			status := send(a.Handler(), newRequest(t, http.MethodPost, tt.path, strings.NewReader(tt.body))).Code
			require.Len(t, o.count, 1)
			got := o.count[0]
			require.Equal(t, tt.outcome, got.Outcome)
			require.Equal(t, status, got.Status)
			require.Equal(t, time.Second, got.Took)
			require.Equal(t, began, got.Began)
			require.Equal(t, tt.trouble != "", got.Failed)
			require.Contains(t, got.Trouble, tt.trouble)
			require.NotContains(t, got.Trouble, "goroutine")
			require.Empty(t, got.Envelope.Body)
			if tt.traced {
				require.Len(t, o.begun, 1)
				require.Equal(t, o.count, o.over)
				require.Equal(t, began, o.begun[0].Began)
			} else {
				require.Empty(t, o.begun, "no message came")
			}
		})
	}
}

func TestAMessageThatIsTriedAgainIsTracedOnce(t *testing.T) {
	t.Parallel()
	tries := 0
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
		if tries++; tries < 3 {
			return workflow.Decision{}, workflow.ErrTransient
		}
		return decision(workflow.Applied), nil
	}}
	o := observer{answer: ours}
	send(o.watch(w.app()).Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, nil))))
	require.Len(t, w.messages, 3)
	require.Len(t, o.begun, 1)
	for _, m := range w.messages {
		require.Equal(t, ours, m.TraceParent)
	}
}

func TestAnObserverThatPanicsBreaksNothing(t *testing.T) {
	t.Parallel()
	for name, watch := range map[string]func(*functions.App){
		"at the start": func(a *functions.App) {
			a.Trace = func(functions.Invocation) (string, func(functions.Invocation)) { panic("no telemetry") }
		},
		"at the end": func(a *functions.App) {
			a.Trace = func(functions.Invocation) (string, func(functions.Invocation)) {
				return ours, func(functions.Invocation) { panic("no telemetry") }
			}
		},
		"while it counts": func(a *functions.App) { a.Measure = func(functions.Invocation) { panic("no telemetry") } },
		"not, and only looks": func(a *functions.App) {
			a.Trace = func(functions.Invocation) (string, func(functions.Invocation)) { return "", nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			a := w.app()
			watch(&a)
			answer := send(a.Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, nil))))
			settled(t, http.StatusOK, answer)
			require.Len(t, w.messages, 1)
			require.Equal(t, !strings.HasPrefix(name, "not"), strings.Contains(w.log.String(), "no telemetry"))
		})
	}
}
