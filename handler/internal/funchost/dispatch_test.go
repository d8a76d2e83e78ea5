package funchost

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestHandlerGetsTheRequestOfTheRealHost(t *testing.T) {
	t.Parallel()
	requests := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			body, _ := io.ReadAll(r.Body)
			bodies <- string(body)
			requests <- r
		}
		answer(w, http.StatusOK, "application/json", `{"logs":["one",2],"Extra":1}`)
	}), nil)
	s.send(message("o-1", "m-1"))
	inv := s.next()
	r := <-requests
	require.Equal(t, "POST /order-placed HTTP/1.1", fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, r.Proto))
	require.Equal(t, fmt.Sprintf("127.0.0.1:%d", s.host.Port), r.Host)
	require.Equal(t, []string{"chunked"}, r.TransferEncoding)
	require.EqualValues(t, -1, r.ContentLength)
	require.Equal(t, http.Header{
		"Content-Type":                   {"application/json; charset=utf-8"},
		"User-Agent":                     {"Azure-Functions-Host/4.1052.300.0"},
		"X-Azure-Functions-Hostversion":  {"4.1052.300.0"},
		"X-Azure-Functions-Invocationid": {inv.ID},
	}, r.Header)
	require.NoError(t, uuid.Validate(inv.ID))
	require.Contains(t, <-bodies, `{"Data":{"message":"e30="},"Metadata":{`)

	require.NoError(t, inv.Err)
	require.NoError(t, inv.SettleErr)
	require.Equal(t, []string{"one", "2"}, inv.Logs)
	require.Equal(t, 200, inv.Status)
	require.Equal(t, "order-placed m-1 o-1 1", fmt.Sprint(inv.Function, " ", inv.MessageID, " ", inv.SessionID, " ", inv.DeliveryCount))
	require.Zero(t, s.active())
}

func TestOnlyASuccessStatusWithAJSONObjectSucceeds(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	cases := map[string]struct {
		status            int
		contentType, body string
		failure           string
	}{
		"object":          {200, js, success, ""},
		"empty-object":    {200, js, `{}`, ""},
		"with-charset":    {200, "application/json; charset=utf-8", success, ""},
		"text-json":       {200, "text/json", success, ""},
		"accepted":        {202, js, success, ""},
		"server-error":    {500, js, success, "response status code does not indicate success: 500 (Internal Server Error)"},
		"bad-request":     {400, js, success, "400"},
		"not-modified":    {304, js, "", "304"},
		"lost-redirect":   {302, js, success, "302"},
		"empty-failure":   {503, "", "", "503"},
		"text":            {200, "text/plain; charset=utf-8", success, `the content type is "text/plain; charset=utf-8"`},
		"no-content-type": {200, "", success, "the content type is"},
		"problem":         {200, "application/problem+json", success, "the content type is"},
		"malformed":       {200, js, `{"Outputs":{}`, "malformed"},
		"two-documents":   {200, js, success + success, "malformed"},
		"word":            {200, js, `OK`, "not a JSON object"},
		"array":           {200, js, `[]`, "not a JSON object"},
		"string":          {200, js, `"{}"`, "not a JSON object"},
		"outputs-array":   {200, js, `{"Outputs":[1]}`, "malformed"},
		"logs-string":     {200, js, `{"Logs":"x"}`, "malformed"},
		"logs-objects":    {200, js, `{"Logs":[{}]}`, "not a string"},
		"too-deep":        {200, js, `{"ReturnValue":` + strings.Repeat("[", 256) + strings.Repeat("]", 256) + `}`, "deeper than 256"},
		"deep":            {200, js, `{"ReturnValue":` + strings.Repeat("[", 255) + strings.Repeat("]", 255) + `}`, ""},
		"gzip":            {200, js, "\x1f\x8b\x08\x00\x00", "not a JSON object"},
		"panic":           {0, "", "", "calling the handler"},
	}
	s := open(t, alive(func(w http.ResponseWriter, _ *http.Request, d delivered) {
		c := cases[d.MessageID]
		switch {
		case d.DeliveryCount > 1:
			succeed(w)
		case c.status == 0:
			panic(http.ErrAbortHandler)
		default:
			answer(w, c.status, c.contentType, c.body)
		}
	}), func(h *Host) { h.App.ServiceBus.MaxConcurrentSessions = len(cases) })
	deliveries := len(cases)
	for name, c := range cases {
		s.send(message(name, name))
		if c.failure != "" {
			deliveries++
		}
	}
	for range deliveries {
		inv := s.next()
		require.NoError(t, inv.SettleErr)
		failure := cases[inv.MessageID].failure
		if inv.DeliveryCount > 1 || failure == "" {
			require.NoError(t, inv.Err, inv.MessageID)
			continue
		}
		require.ErrorContains(t, inv.Err, failure, inv.MessageID)
		require.Empty(t, inv.Logs)
	}
	require.Zero(t, s.active())
}

func TestRedirectTurnsThePOSTIntoAGETAsDotNETDoes(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		301: "GET /elsewhere  0", 302: "GET /elsewhere  0", 303: "GET /elsewhere  0",
		307: "POST /elsewhere application/json; charset=utf-8 -1", 308: "POST /elsewhere application/json; charset=utf-8 -1",
	} {
		seen := make(chan string, 1)
		s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/order-placed":
				http.Redirect(w, r, "/elsewhere", status)
			case "/elsewhere":
				seen <- fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("Content-Type"), " ", r.ContentLength, r.Header.Get("Referer"))
				succeed(w)
			}
		}), nil)
		s.send(message("o-1", "m-1"))
		require.NoError(t, s.next().Err)
		require.Equal(t, want, <-seen, status)
	}
}

func TestRedirectWithoutEndFails(t *testing.T) {
	t.Parallel()
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" || r.Header.Get("X-Azure-Functions-InvocationId") == "" {
			return
		}
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	}), nil)
	s.send(message("o-1", "m-1"))
	require.ErrorContains(t, s.next().Err, "307")
}

func TestHandlerThatIsGoneFailsInvocationsUntilTheDeadLetters(t *testing.T) {
	t.Parallel()
	s := start(t, func(h *Host) {
		h.transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return inProcess{http.NotFoundHandler()}.RoundTrip(r)
			}
			return nil, errors.New("connection refused")
		})
	})
	s.send(message("o-1", "m-1"))
	for want := range 10 {
		inv := s.next()
		require.ErrorContains(t, inv.Err, "connection refused")
		require.Zero(t, inv.Status)
		require.Equal(t, want+1, inv.DeliveryCount)
	}
	dead, err := s.bus.DeadLetters(t.Context(), "orders", "order-placed")
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Less(t, s.active(), 1)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
