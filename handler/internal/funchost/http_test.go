package funchost

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// front opens a host in front of a handler and serves the host itself too.
func front(t *testing.T, handler http.HandlerFunc) (*stage, string) {
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			handler(w, r)
		}
	}), nil)
	server := httptest.NewServer(s.host)
	t.Cleanup(server.Close)
	return s, server.URL
}

type reply struct {
	status int
	header http.Header
	body   string
}

// call makes a request as it is told, without following redirects.
func call(t *testing.T, method, url string, body io.Reader, header http.Header) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return reply{res.StatusCode, res.Header, string(text)}
}

func TestForwardedRequestReachesTheHandlerAsTheClientMadeIt(t *testing.T) {
	t.Parallel()
	type request struct {
		line, host, body string
		header           http.Header
	}
	seen := make(chan request, 1)
	s, url := front(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- request{r.Method + " " + r.RequestURI, r.Host, string(body), r.Header}
		w.Header().Set("Location", "/api/orders/42")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		answer(w, http.StatusSeeOther, "text/weird", "raw")
	})
	res := call(t, "POST", url+"/api/Orders/a%2Fb?x=1;2&y=%20&x=3", strings.NewReader("body"), http.Header{
		"Content-Type":    {"application/xml"},
		"Idempotency-Key": {"k-1"},
		"User-Agent":      {"somebody"},
		"X-Forwarded-For": {"10.0.0.1"},
		"Connection":      {"X-Mine"},
		"X-Mine":          {"1"},
		"Te":              {"gzip"},
	})
	got, inv := <-seen, s.next()
	require.Equal(t, "POST /api/Orders/a%2Fb?x=1;2&y=%20&x=3", got.line)
	require.Equal(t, strings.TrimPrefix(url, "http://"), got.host)
	require.Equal(t, "body", got.body)
	require.Equal(t, http.Header{
		"Content-Length":                 {"4"},
		"Content-Type":                   {"application/xml"},
		"Idempotency-Key":                {"k-1"},
		"User-Agent":                     {"somebody"},
		"X-Forwarded-For":                {"10.0.0.1"},
		"X-Azure-Functions-Hostversion":  {"4.1052.300.0"},
		"X-Azure-Functions-Invocationid": {inv.ID},
	}, got.header)
	require.Equal(t, http.StatusSeeOther, res.status)
	require.Equal(t, "raw", res.body)
	require.Equal(t, "/api/orders/42", res.header.Get("Location"))
	require.Equal(t, "text/weird", res.header.Get("Content-Type"))
	require.Empty(t, res.header.Get("X-Hop"))
	require.NoError(t, inv.Err)
	require.Equal(t, http.StatusSeeOther, inv.Status)
	require.Equal(t, "orders", inv.Function)
}

func TestForwardingDropsABodyOfUnknownLength(t *testing.T) {
	t.Parallel()
	_, url := front(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, len(body), r.ContentLength, r.TransferEncoding)
	})
	res := call(t, "POST", url+"/api/orders", io.MultiReader(strings.NewReader("chunked")), nil)
	require.Equal(t, "0 0 []", res.body)
}

func TestHostAnswersForItselfWhatNoFunctionIsFor(t *testing.T) {
	t.Parallel()
	s, url := front(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
	for _, c := range []struct {
		line   string
		status int
	}{
		{"GET /", 404}, {"GET /orders", 404}, {"GET /api", 404}, {"GET /api/orders/1/2", 404},
		{"POST /order-placed", 404}, {"POST /api/order-placed", 404}, {"GET /admin/host/status", 404},
		{"DELETE /api/orders", 404}, {"HEAD /api/orders/1", 404},
		{"GET /api/orders/..%5Csweep", 400}, {"GET /api/orders/..", 400}, {"GET /api/orders/%2E%2E", 400}, {"GET /api/orders/.", 400},
		{"GET /api/orders/a%3Fb", 400}, {"GET /api/orders/a%23b", 400},
	} {
		method, path, _ := strings.Cut(c.line, " ")
		res := call(t, method, url+path, nil, nil)
		require.Equal(t, c.status, res.status, c.line)
	}
	require.Empty(t, s.ended)
}

func TestForwardingRefusesMoreThanTheHostTakes(t *testing.T) {
	t.Parallel()
	host := &Host{App: &App{Functions: []Function{{Name: "orders", HTTP: &HTTPTrigger{Route: mustRoute(t, "api/orders")}}}}, Now: time.Now}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/orders", nil)
	r.ContentLength = 100<<20 + 1
	w := httptest.NewRecorder()
	host.ServeHTTP(w, r)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
}

func mustRoute(t *testing.T, template string) Route {
	t.Helper()
	r, err := parseRoute(template)
	require.NoError(t, err)
	return r
}

func TestForwardedRequestThatTheHandlerBreaksOffIsAServerError(t *testing.T) {
	t.Parallel()
	s, url := front(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" { // half an answer
			w.Header().Set("Content-Length", "100")
			answer(w, 200, "text/plain", "half")
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	for _, method := range []string{"GET", "POST"} {
		res := call(t, method, url+"/api/orders", nil, nil)
		require.Equal(t, http.StatusInternalServerError, res.status)
		require.Empty(t, res.body)
		require.Error(t, s.next().Err)
	}
}

func TestForwardedRequestGoesOnWhenItsClientLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				return
			}
			select {
			case <-time.After(time.Minute):
				succeed(w)
			case <-r.Context().Done():
			}
		}), nil)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		s.host.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/api/orders/1", nil))
		inv := s.next()
		require.NoError(t, inv.Err)
		require.Equal(t, time.Minute, inv.Duration)
	})
}

func TestForwardedRequestIsEndedByTheFunctionTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		killed := make(chan string, 1)
		s := enact(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				<-r.Context().Done()
			}
		}), func(h *Host) { h.OnTimeout = func(function string) { killed <- function } })
		w := httptest.NewRecorder()
		s.host.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/api/orders/1", nil))
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Equal(t, "orders", <-killed)
		inv := s.next()
		require.ErrorIs(t, inv.Err, ErrTimeout)
		require.Equal(t, 5*time.Minute, inv.Duration)
	})
}

func TestRequestToAStoppedHostIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(h *Host) {
			h.transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
		})
		require.ErrorIs(t, s.stopped(), ErrNotReady)
		w := httptest.NewRecorder()
		s.host.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/api/orders/1", nil))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
	})
}

func TestAdminEndpointInvokesWithABareMessage(t *testing.T) {
	t.Parallel()
	seen := make(chan map[string]map[string]any, 1)
	s, url := front(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]map[string]any
		if json.NewDecoder(r.Body).Decode(&body) == nil {
			seen <- body
		}
		succeed(w)
	})
	res := call(t, "POST", url+"/admin/functions/order-placed", strings.NewReader(`{"input":"{\"orderId\":1}"}`), jsonHeader())
	require.Equal(t, http.StatusAccepted, res.status)
	body := <-seen
	require.Equal(t, "eyJvcmRlcklkIjoxfQ==", body["Data"]["message"])
	require.Equal(t, "0", body["Metadata"]["DeliveryCount"])
	require.NotContains(t, body["Metadata"], "MessageId")
	require.NotContains(t, body["Metadata"], "SessionId")
	inv := s.next()
	require.NoError(t, inv.Err)
	require.Empty(t, inv.MessageID)
	require.NoError(t, uuid.Validate(inv.ID))
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

func TestAdminEndpointRunsATimerByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/sweep" {
				<-time.After(time.Second)
			}
			succeed(w)
		}), func(h *Host) { h.App.Functions[2].Disabled = false })
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/admin/functions/Sweep", strings.NewReader(`{}`))
		r.Header = jsonHeader()
		s.host.ServeHTTP(w, r)
		require.Equal(t, http.StatusAccepted, w.Code)
		s.stop()
		require.NoError(t, s.stopped())
		inv := s.next()
		require.NoError(t, inv.Err, "a run that was accepted is finished")
		require.Equal(t, "sweep", inv.Function)
		require.Equal(t, time.Second, inv.Duration)
	})
}

func TestAdminEndpointRefusesWhatItCannotRun(t *testing.T) {
	t.Parallel()
	_, url := front(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
	for _, c := range []struct {
		method, name, body string
		header             http.Header
		status             int
	}{
		{"POST", "nothing", `{"input":"x"}`, jsonHeader(), 404},
		{"POST", "sweep", `{"input":"x"}`, jsonHeader(), 404}, // disabled
		{"GET", "order-placed", ``, nil, 405},
		{"POST", "order-placed", `{"input":"x"}`, nil, 415},
		{"POST", "order-placed", `{"input":"x"}`, http.Header{"Content-Type": {"text/plain"}}, 415},
		{"POST", "order-placed", `{`, jsonHeader(), 400},
		{"POST", "order-placed", `{}`, jsonHeader(), 400},
		{"POST", "order-placed", `{"input":5}`, jsonHeader(), 400},
		{"POST", "orders", `{"input":"x"}`, jsonHeader(), 400},
	} {
		res := call(t, c.method, url+"/admin/functions/"+c.name, strings.NewReader(c.body), c.header)
		require.Equal(t, c.status, res.status, "%s %s %s", c.method, c.name, c.body)
	}
}
