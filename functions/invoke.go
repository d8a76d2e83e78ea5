package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"orderflow/workflow"
)

// invocationHeader is the host's own ID of an invocation.
const invocationHeader = "X-Azure-Functions-InvocationId"

// invoke runs one function for one request: within its deadline, with a panic
// contained, logged once and answered once.
//
// A caller that has gone does not end the work: the host does not say by it
// that it gave up, and what is finished all the same is a duplicate next time.
// The end of the process does.
func (a App) invoke(w http.ResponseWriter, r *http.Request, f function) {
	rec := &record{function: f.name, forwarded: f.forwarded, invocation: r.Header.Get(invocationHeader)}
	ctx, cancel := context.WithTimeout(a.Context, a.Deadline)
	defer cancel()
	defer a.shared.shrink(&rec.room, 0)
	r = r.WithContext(ctx)

	answer := a.watched(ctx, rec, func() reply { return f.serve(a, r, rec) })
	answer.head = r.Method == http.MethodHead
	answer.write(w)
}

// watched does the work of an invocation, timed, with a panic contained, logged
// once and told to whoever measures.
func (a App) watched(ctx context.Context, rec *record, do func() reply) reply {
	if a.Now != nil {
		rec.began = a.Now()
	}
	answer := contain(rec, do)
	if a.Now != nil {
		rec.took, rec.timed = a.Now().Sub(rec.began), true
	}
	rec.status = answer.status
	rec.log(ctx, a.Log)
	a.observed(rec)
	return answer
}

// contain does the work of an invocation so that a panic costs this one and no
// other. Nothing has been answered by then, since functions return their answer.
func contain(rec *record, do func() reply) (answer reply) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		rec.fail(panicked(p))
		if rec.forwarded {
			answer = broken()
			return
		}
		answer = settle(rec)
	}()
	return do()
}

// panicError is a panic as an error.
type panicError struct {
	value any
	stack string // where it came from
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// panicked is what was recovered from a panic as an error. One that is meant to
// drop the connection goes on to net/http.
func panicked(p any) error {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	return &panicError{p, string(debug.Stack())}
}

// contained does something and returns a panic in it as an error.
func contained(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return do()
}

// posted is a function that the host invokes by its own protocol, with POST.
func posted(serve serveFunc) serveFunc {
	return func(a App, r *http.Request, rec *record) reply {
		if r.Method == http.MethodPost {
			return serve(a, r, rec)
		}
		rec.reason = "the host invokes functions with POST"
		answer := settlement(http.StatusMethodNotAllowed, rec.line())
		answer.header = http.Header{"Allow": {http.MethodPost}}
		return answer
	}
}

// unknown answers a path that no function has.
func unknown(_ App, r *http.Request, rec *record) reply {
	rec.reason = "no function has this path"
	rec.more = []slog.Attr{slog.String("path", clip(r.URL.Path))}
	return settlement(http.StatusNotFound, rec.reason)
}

// alive answers the host's probe. The host asks every 25 ms while it starts and
// takes any answer for "ready", so it depends on nothing and is not logged.
func alive() reply {
	return reply{status: http.StatusOK, contentType: jsonType, body: struct {
		Status    string   `json:"status"`
		Functions []string `json:"functions"`
	}{"ready", Names()}}
}

// settle is the host's answer to an invocation that ended with an outcome.
func settle(rec *record) reply {
	status, _ := statusOf(rec.outcome)
	return settlement(status, rec.line())
}

// statusOf is the one table from outcome to HTTP status: for the host, which
// completes a message at 200 and delivers it again at once at anything else,
// and for whoever called the API.
func statusOf(o workflow.Outcome) (host, api int) {
	switch o {
	case workflow.Applied, workflow.Held, workflow.Blocked:
		return http.StatusOK, http.StatusAccepted
	case workflow.Duplicate, workflow.Stale, workflow.Skipped:
		return http.StatusOK, http.StatusOK
	case workflow.Rejected:
		return http.StatusOK, http.StatusConflict
	case workflow.Failed:
	}
	return http.StatusInternalServerError, http.StatusServiceUnavailable
}
