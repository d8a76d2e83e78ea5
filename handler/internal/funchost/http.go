package funchost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"orderflow/handler/internal/localbus"
)

// maxRequest is the largest body that the host takes from a client.
const maxRequest = 100 << 20

const adminPath = "/admin/functions/"

// ServeHTTP forwards a client's request to the handler as it is, when the
// route of an HTTP function matches. POST /admin/functions/<name> with
// {"input":"…"} runs a Service Bus or timer function by hand and answers 202
// before it has run. Everything waits until Run has found the handler ready.
//
// Like the real host, it drops a body that comes without a Content-Length, and
// answers 404 to a method that no function of the path is for
// (azure-functions-host#10098, and #11625 for HEAD).
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.setup()
	if name, ok := strings.CutPrefix(r.URL.Path, adminPath); ok {
		h.serveAdmin(w, r, name)
		return
	}
	path := r.URL.EscapedPath()
	if rewritten(path) {
		http.Error(w, "the real host would forward another path than the one it has matched; here nobody may", http.StatusBadRequest)
		return
	}
	fn := h.App.route(r.Method, path)
	if fn == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	h.forward(w, r, fn.Name)
}

// rewritten tells whether the real host would forward a path otherwise than it
// came. It matches the decoded path, and forwards what .NET's Uri makes of that:
// dots for segments are resolved, a backslash becomes a slash, and what follows
// a question mark or a number sign is cut off.
func rewritten(escapedPath string) bool {
	for part := range strings.SplitSeq(escapedPath, "/") {
		text, err := url.PathUnescape(part)
		if err != nil || text == "." || text == ".." || strings.ContainsAny(text, `\?#`) {
			return true
		}
	}
	return false
}

// Serves names the function that a request is forwarded for; empty when there
// is none.
func (app *App) Serves(method, escapedPath string) string {
	if fn := app.route(method, escapedPath); fn != nil {
		return fn.Name
	}
	return ""
}

// route finds the function for a request, nil when there is none.
func (app *App) route(method, escapedPath string) (fn *Function) {
	for i := range app.Functions {
		f := &app.Functions[i]
		if f.HTTP == nil || f.Disabled || !f.HTTP.allows(method) || !f.HTTP.Route.matches(escapedPath) {
			continue
		}
		if fn == nil || f.HTTP.Route.compare(fn.HTTP.Route) < 0 {
			fn = f
		}
	}
	return fn
}

// forward is enableForwardingHttpRequest: the handler gets the client's
// request and the client gets the handler's response, each of them whole.
func (h *Host) forward(w http.ResponseWriter, r *http.Request, function string) {
	if r.ContentLength > maxRequest {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	body, err := readRequest(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if _, err := h.worker.awaitReady(r.Context()); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	inv := Invocation{Function: function, ID: uuid.NewString()}
	ctx := context.WithoutCancel(r.Context()) // a client that leaves does not end the invocation
	start, called := h.Now(), false
	defer func() { // also when the proxy panics because the client is gone
		inv.Duration = h.Now().Sub(start)
		h.report(ctx, inv)
	}()
	inv.Err = h.worker.run(ctx, function, func(ctx context.Context) error {
		called = true
		var failed error
		proxy := httputil.ReverseProxy{
			Transport: h.transport,
			ErrorLog:  slog.NewLogLogger(h.Log.Handler(), slog.LevelWarn),
			Rewrite: func(p *httputil.ProxyRequest) {
				p.Out.URL.Scheme = "http"
				p.Out.URL.Host = strings.TrimPrefix(h.worker.base, "http://")
				p.Out.URL.RawQuery = p.In.URL.RawQuery // as it is, even if malformed
				for name, values := range p.In.Header {
					if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
						p.Out.Header[name] = values // the proxy dropped it
					}
				}
				stamp(p.Out.Header, inv.ID)
			},
			ModifyResponse: func(res *http.Response) error {
				inv.Status = res.StatusCode
				return buffer(res)
			},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				failed = fmt.Errorf("forwarding to the handler: %w", err)
				w.WriteHeader(http.StatusInternalServerError)
			},
		}
		out := r.WithContext(ctx)
		out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		proxy.ServeHTTP(w, out)
		return failed
	})
	if !called {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// readRequest takes a body that has a Content-Length, and no other.
func readRequest(r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	return body, nil
}

// buffer reads a response to its end, so that one that breaks off is an error
// and not half an answer.
func buffer(res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errors.New("the host does not forward upgrades")
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if err := res.Body.Close(); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// serveAdmin asks for a JSON content type, so that no web page can reach it
// without the browser asking first.
func (h *Host) serveAdmin(w http.ResponseWriter, r *http.Request, name string) {
	i := slices.IndexFunc(h.App.Functions, func(f Function) bool { return strings.EqualFold(f.Name, name) && !f.Disabled })
	if i < 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		http.Error(w, "the content type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	var body struct {
		Input *string `json:"input"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&body); err != nil {
		http.Error(w, `the body must be {"input":"…"}: `+err.Error(), http.StatusBadRequest)
		return
	}
	job, err := h.byHand(h.App.Functions[i], body.Input)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case h.manual <- job:
		w.WriteHeader(http.StatusAccepted)
	case <-r.Context().Done():
	case <-h.worker.stopped:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// byHand is an invocation without its trigger. A Service Bus function gets a
// message that has a body and nothing else.
func (h *Host) byHand(fn Function, input *string) (func(context.Context), error) {
	switch {
	case fn.Timer != nil:
		return func(ctx context.Context) {
			h.invokeTimer(ctx, fn, newTimerStatus(*fn.Timer, h.Now()))
		}, nil
	case fn.ServiceBus != nil && input == nil:
		return nil, errors.New("input is missing: it is the body of the message")
	case fn.ServiceBus != nil:
		bare := &localbus.Message{Body: []byte(*input), LockToken: uuid.Nil.String()}
		return func(ctx context.Context) {
			inv := Invocation{Function: fn.Name}
			h.invoke(ctx, &inv, messagePayload(h.occasion(fn.Name, fn.ServiceBus.Binding), h.client, bare, bare.EnqueuedAt, fn.ServiceBus.Binary))
			h.report(ctx, inv)
		}, nil
	}
	return nil, fmt.Errorf("%s has an HTTP trigger: call its route", fn.Name)
}

// runManual runs what serveAdmin accepts until listening ends, and waits for
// it.
func (h *Host) runManual(listening, work context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	for {
		select {
		case job := <-h.manual:
			jobs.Go(func() { job(work) })
		case <-listening.Done():
			return
		}
	}
}
