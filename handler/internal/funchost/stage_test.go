package funchost

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/localbus"
)

const success = `{"Outputs":{},"Logs":[],"ReturnValue":null}`

func succeed(w http.ResponseWriter) { answer(w, http.StatusOK, "application/json", success) }

func answer(w http.ResponseWriter, status int, contentType, body string) {
	w.Header()["Content-Type"] = []string{contentType}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// delivered is what a test's handler wants to know of an invocation.
type delivered struct {
	MessageID, SessionID string
	DeliveryCount        int
}

// alive wraps a handler of invocations with an answer to GET /.
func alive(invocation func(http.ResponseWriter, *http.Request, delivered)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var payload struct{ Metadata map[string]json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&payload); err != nil {
			answer(w, http.StatusBadRequest, "text/plain", err.Error())
			return
		}
		text := func(key string) string {
			var outer, inner string
			if json.Unmarshal(payload.Metadata[key], &outer) != nil || json.Unmarshal([]byte(outer), &inner) != nil {
				return outer
			}
			return inner
		}
		count, _ := strconv.Atoi(text("DeliveryCount"))
		invocation(w, r, delivered{text("MessageId"), text("SessionId"), count})
	})
}

// stage is a running host with a bus of its own.
type stage struct {
	t     *testing.T
	bus   *localbus.Bus
	host  *Host
	ended chan Invocation
	stop  context.CancelFunc
	run   chan error
}

// open starts a host in front of a handler on a real port.
func open(t *testing.T, handler http.Handler, change func(*Host)) *stage {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return start(t, change, func(h *Host) {
		at, err := url.Parse(server.URL)
		require.NoError(t, err)
		h.Port, err = strconv.Atoi(at.Port())
		require.NoError(t, err)
	})
}

// enact starts a host in front of a handler that is called without a network,
// for bubbles of virtual time.
func enact(t *testing.T, handler http.Handler, change func(*Host)) *stage {
	return start(t, change, func(h *Host) { h.transport = inProcess{handler} })
}

func start(t *testing.T, changes ...func(*Host)) *stage {
	app, err := Load(folder(plainFiles()), plainSettings)
	require.NoError(t, err)
	for i := range app.Functions {
		app.Functions[i].Disabled = app.Functions[i].Timer != nil
	}
	app.FunctionTimeout = 5 * time.Minute
	app.ServiceBus.SessionIdleTimeout = 2 * time.Second
	bus, err := localbus.Open(filepath.Join(t.TempDir(), "bus.db"), []localbus.Topic{{
		Name:          "orders",
		Subscriptions: []localbus.Subscription{{Name: "order-placed"}},
	}}, time.Now)
	require.NoError(t, err)
	s := &stage{t: t, bus: bus, ended: make(chan Invocation, 1000), run: make(chan error, 1)}
	s.host = &Host{App: app, Bus: bus, Now: time.Now, OnInvocation: func(inv Invocation) { s.ended <- inv }}
	for _, change := range changes {
		if change != nil {
			change(s.host)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.run <- s.host.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-s.run:
			require.NoError(t, err)
		case <-time.After(time.Hour):
			t.Error("the host does not stop")
		}
		require.NoError(t, bus.Close())
	})
	return s
}

// stopped waits for Run to return.
func (s *stage) stopped() error {
	err := <-s.run
	s.run <- nil // for the cleanup
	return err
}

func (s *stage) send(messages ...localbus.Message) {
	s.t.Helper()
	_, err := s.bus.Send(s.t.Context(), "orders", messages...)
	require.NoError(s.t, err)
}

func message(session, id string) localbus.Message {
	return localbus.Message{MessageID: id, SessionID: session, Subject: "OrderPlaced", Body: []byte(`{}`)}
}

// next is the next invocation that ended.
func (s *stage) next() Invocation {
	s.t.Helper()
	select {
	case inv := <-s.ended:
		return inv
	case <-time.After(100 * time.Hour): // of virtual time; the test's own limit otherwise
		s.t.Fatal("no invocation ended")
		return Invocation{}
	}
}

func (s *stage) active() int {
	s.t.Helper()
	left, err := s.bus.Peek(s.t.Context(), "orders", "order-placed")
	require.NoError(s.t, err)
	return len(left)
}

// inProcess is a handler without a network: a panic is a reset connection.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	response, done := httptest.NewRecorder(), make(chan any, 1)
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	go func() {
		defer func() { done <- recover() }()
		p.handler.ServeHTTP(response, in)
	}()
	select {
	case reset := <-done:
		if reset != nil {
			return nil, errors.New("connection reset by peer")
		}
		res := response.Result()
		res.Request = r
		return res, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
