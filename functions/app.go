// Package functions is HTTP in, settlement out: it reads what the Azure
// Functions host posts for each function of the app, turns it into a workflow
// message, has it handled, and answers what the host needs to settle it.
//
// Read registry.go first, which lists the functions; then message.go, the way
// of one message; then invoke.go, from outcome to answer.
package functions

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"orderflow/workflow"
)

// Defaults of App.
const (
	DefaultDeadline   = 60 * time.Second
	DefaultMaxBody    = 256 << 10
	DefaultMaxRequest = 16 << 20
)

// Process decides about messages and makes the decision last.
type Process interface {
	// Handle decides about a message and commits the decision. An error means
	// that nothing was decided and the message should be delivered again.
	Handle(context.Context, workflow.Message) (workflow.Decision, error)
	// Reject keeps a message that can never be accepted. An error means that it
	// was not kept.
	Reject(context.Context, workflow.Rejection) error
}

// Orders tells what is recorded of an order.
type Orders interface {
	// Story returns an error that wraps workflow.ErrNoOrder when nothing is
	// known of the order.
	Story(ctx context.Context, orderID string) (workflow.Story, error)
}

// Outbox sends what was decided on and not yet sent.
type Outbox interface {
	// Drain sends what is due. more says that something due is left.
	Drain(context.Context) (sent int, more bool, err error)
}

// App is what the functions need to do their work.
type App struct {
	Process Process
	Orders  Orders
	Outbox  Outbox

	// Log takes one line for each invocation; nil is silence. The lines hold
	// identities and outcomes, no bodies and nothing about customers.
	Log *slog.Logger
	// Now is the clock by which invocations are timed, for the log only; nil
	// leaves their duration out.
	Now func() time.Time

	// Deadline ends an invocation. It has to be shorter than functionTimeout in
	// host.json, at which the host kills the process and every other invocation
	// with it. Zero means DefaultDeadline.
	Deadline time.Duration
	// MaxBody is the size, in bytes, of the largest message body that is
	// handled; a larger one is rejected, and that much of it kept. Zero means
	// DefaultMaxBody.
	MaxBody int
	// MaxRequest is the size, in bytes, of the largest HTTP request that is
	// read; a larger one fails and stays with the broker. Encoding makes a
	// request up to six times as large as its message. Zero means
	// DefaultMaxRequest.
	MaxRequest int64
}

// Handler serves all functions. Paths are matched exactly and nothing is ever
// redirected: the host would follow a redirect with a GET.
func (a App) Handler() http.Handler {
	a = a.withDefaults()
	byPath := make(map[string]function)
	for _, f := range registry() {
		if !f.forwarded {
			byPath["/"+f.name] = f
		}
	}
	forwarded := orders()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if path == "/" {
			alive().write(w)
			return
		}
		f, known := byPath[path]
		if _, ok := belowOrders(path); ok {
			f, known = forwarded, true
		}
		if !known {
			f = function{serve: unknown}
		}
		a.invoke(w, r, f)
	})
}

func (a App) withDefaults() App {
	if a.Log == nil {
		a.Log = slog.New(slog.DiscardHandler)
	}
	if a.Deadline <= 0 {
		a.Deadline = DefaultDeadline
	}
	if a.MaxBody <= 0 {
		a.MaxBody = DefaultMaxBody
	}
	if a.MaxRequest <= 0 {
		a.MaxRequest = DefaultMaxRequest
	}
	return a
}
