// Package functions is HTTP in, settlement out: it reads what the Azure
// Functions host posts for each function of the app, turns it into a workflow
// message, has it handled, and answers what the host needs to settle it.
//
// Read registry.go first, which lists the functions; then message.go, the way
// of one message; then hold.go, what becomes of one that cannot be handled; then
// invoke.go, from outcome to answer; then bounds.go, how much is done at once.
//
// What people and programs reach over HTTP is listed in api.go: act.go is what
// operators do, list.go how lists are told, ops.go what their page shows,
// redrive.go how what the broker gave up comes back.
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
	DefaultHoldFrom   = 8
	DefaultMaxBody    = 256 << 10
	DefaultMaxRequest = 16 << 20
	DefaultMaxMemory  = 64 << 20
)

// Process decides about messages and makes the decision last.
type Process interface {
	// Handle decides about a message and commits the decision. An error means
	// that nothing was decided and the message should be delivered again.
	Handle(context.Context, workflow.Message) (workflow.Decision, error)
	// Reject keeps a message that can never be accepted. An error means that it
	// was not kept.
	Reject(context.Context, workflow.Rejection) error
	// Hold keeps a message that could not be handled, and why. It blocks its
	// order, or waits behind the one that does; what comes later waits behind
	// it. Of the message it needs the envelope, with a sound ID and order ID, and
	// the delivery. The message may turn out to be a duplicate. An error means
	// that it was not kept.
	Hold(ctx context.Context, m workflow.Message, why string) (workflow.Decision, error)
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

// Backlog counts what is not done yet.
type Backlog interface {
	Backlog(context.Context) (workflow.Backlog, error)
}

// Sweeper does what only the passing of time asks for.
type Sweeper interface {
	Sweep(context.Context) (workflow.Swept, error)
}

// App is what the functions need to do their work.
type App struct {
	Process Process
	Orders  Orders
	Outbox  Outbox
	Backlog Backlog // nil: what is not done yet is not counted
	Sweeper Sweeper

	// DeadLetters are what the broker gave up; nil: nobody looks.
	DeadLetters DeadLetters

	// Operators and Database are for the people who look after the orders.
	Operators Operators
	Database  Database
	// Page draws what they look at in a browser.
	Page Page
	// ReadOnly keeps operators from acting: they can look, and orders go on.
	ReadOnly bool
	// DuplicateDetection is how long the broker remembers what it was sent, so how
	// long a command is not sent again. Zero tells nobody.
	DuplicateDetection time.Duration
	// Limits are from when on an order counts as stuck; zero means
	// workflow.LimitsFor deadlines of 24 hours.
	Limits workflow.Limits

	// Context ends all invocations when it ends: the process is about to. Nil
	// never does.
	Context context.Context //nolint:containedctx // the life of the process, which no call has

	// Log takes one line for each invocation; nil is silence. The lines hold
	// identities and outcomes, no bodies and nothing about customers.
	Log *slog.Logger
	// Now is the clock by which invocations are timed, for the log and
	// telemetry, and by which
	// an order is told to be stuck. Nil leaves the duration of an invocation out,
	// and whatever makes an order stuck by the passing of time.
	Now func() time.Time
	// Trace is told of each message that has come, before anything is decided
	// about it. It returns the trace context under which the message is recorded
	// and what it causes is sent, empty to leave it as it came, and who is told,
	// nil for nobody, when its invocation is over. Nil traces nothing.
	Trace func(Invocation) (traceParent string, over func(Invocation))
	// Measure is told of each invocation that is over. Nil measures nothing.
	Measure func(Invocation)

	// HoldFrom is the delivery of a message from which on a failure to handle it
	// does not leave it to the next: it is kept, and its order waits for a
	// person. The broker gives a message up after ten and lets the next of its
	// order overtake it. Zero means DefaultHoldFrom.
	HoldFrom int
	// Concurrent is how many messages and reads are given to the database at
	// once; the others wait here, as long as their invocations last. Zero is no
	// bound.
	Concurrent int

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
	// MaxMemory is how many bytes of requests are held at once, those that are
	// being read included; other requests wait. Zero means DefaultMaxMemory. It
	// is never less than the largest request needs.
	MaxMemory int64

	shared *shared
	decode func(workflow.Envelope) (workflow.Message, error) // Envelope.Decode
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
	forwarded := api(endpoints())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if path == "/" {
			alive().write(w)
			return
		}
		f, known := byPath[path]
		if !known {
			f, known = forwarded.route(r)
		}
		if !known {
			f = function{serve: unknown}
		}
		a.invoke(w, r, f) //nolint:contextcheck // an invocation outlives its caller
	})
}

func (a App) withDefaults() App {
	if a.Log == nil {
		a.Log = slog.New(slog.DiscardHandler)
	}
	if a.Context == nil {
		a.Context = context.Background()
	}
	if a.HoldFrom <= 0 {
		a.HoldFrom = DefaultHoldFrom
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
	if a.MaxMemory <= 0 {
		a.MaxMemory = DefaultMaxMemory
	}
	if a.Limits.Age == nil {
		a.Limits = workflow.LimitsFor(nil)
	}
	if a.decode == nil {
		a.decode = workflow.Envelope.Decode
	}
	a.shared = share(a)
	return a
}
