package functions

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"orderflow/workflow"
)

// record is what is known of one invocation, filled in on the way, for its log
// line.
type record struct {
	function   string
	invocation string
	envelope   workflow.Envelope
	delivery   workflow.Delivery
	outcome    workflow.Outcome
	reason     string // without values from a body
	from, to   workflow.Status
	version    int64
	late       time.Duration
	room       room
	err        error
	trouble    string // beside the outcome: where it panicked, what blocks the order
	status     int
	forwarded  bool
	deadLetter bool // the message is one, brought back
	began      time.Time
	took       time.Duration
	timed      bool
	over       func(Invocation) // wants to know when it is; or nil
	more       []slog.Attr
	warn       bool // it went well, and a person should look
}

// arrived notes who came, leaving the body out of it.
func (rec *record) arrived(e workflow.Envelope, d workflow.Delivery) {
	e.Body = nil
	rec.envelope, rec.delivery = e, d
}

// decided notes what was decided.
func (rec *record) decided(d workflow.Decision) {
	rec.outcome, rec.from, rec.to, rec.version, rec.late = d.Outcome, d.From, d.To, d.Version, d.Late
	rec.trouble = d.Trouble
	// What a service said in its own words follows the reason; it may speak of
	// a customer.
	rec.reason = withoutValues(strings.TrimSuffix(d.Reason, ": "+d.Message.Facts.Said()))
}

// rejected notes what was kept apart, and why.
func (rec *record) rejected(reason string) {
	rec.outcome, rec.reason = workflow.Rejected, withoutValues(reason)
}

// fail notes an invocation that came to nothing.
func (rec *record) fail(err error) {
	rec.outcome = workflow.Failed
	rec.because(err)
}

// because notes an error that the outcome is due to.
func (rec *record) because(err error) {
	rec.err = err
	if p := (*panicError)(nil); errors.As(err, &p) {
		rec.trouble = p.stack
	}
}

// failed reports whether something went wrong that is not the message's own
// fault.
func (rec *record) failed() bool {
	return rec.err != nil || rec.status >= 500 || rec.trouble != ""
}

// log writes the invocation's one line.
func (rec *record) log(ctx context.Context, log *slog.Logger) {
	level := slog.LevelInfo
	switch {
	case rec.failed():
		level = slog.LevelError
	case rec.outcome == workflow.Rejected || rec.outcome == workflow.Blocked || rec.status >= 400 || rec.warn:
		level = slog.LevelWarn
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 20)
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, clip(value)))
		}
	}
	text("invocationId", rec.invocation)
	text("function", rec.function)
	text("orderId", rec.envelope.OrderID)
	text("messageId", rec.envelope.ID)
	text("messageType", string(rec.envelope.Type))
	if rec.delivery.Count > 0 {
		attrs = append(attrs, slog.Int("deliveryCount", rec.delivery.Count))
	}
	text("outcome", string(rec.outcome))
	text("from", string(rec.from))
	text("to", string(rec.to))
	if rec.version > 0 {
		attrs = append(attrs, slog.Int64("version", rec.version))
	}
	if rec.late > 0 {
		attrs = append(attrs, slog.Float64("lateMs", milliseconds(rec.late)))
	}
	text("reason", rec.reason)
	text("traceId", traceID(rec.envelope.TraceParent))
	attrs = append(attrs, slog.Int("status", rec.status))
	if rec.timed {
		attrs = append(attrs, slog.Float64("durationMs", milliseconds(rec.took)))
	}
	attrs = append(attrs, rec.more...)
	if rec.err != nil {
		attrs = append(attrs, slog.String("error", rec.err.Error()))
	}
	if rec.trouble != "" {
		attrs = append(attrs, slog.String("trouble", rec.trouble))
	}
	log.LogAttrs(ctx, level, "invocation", attrs...)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// line is the invocation in one line of words, for the function's own log in
// the host. Texts from outside are quoted, so that none can begin a new line.
func (rec *record) line() string {
	var b strings.Builder
	b.Grow(192)
	b.WriteString(rec.function)
	if rec.outcome != "" {
		b.WriteString(": " + string(rec.outcome))
	}
	if t := rec.envelope.Type; t != "" {
		b.WriteString(" " + quote(string(t)))
	}
	if id := rec.envelope.ID; id != "" {
		b.WriteString(" " + quote(id))
	}
	if id := rec.envelope.OrderID; id != "" {
		b.WriteString(" of order " + quote(id))
	}
	if rec.to != "" {
		b.WriteString(", " + string(rec.from) + " → " + string(rec.to))
	}
	if rec.reason != "" {
		b.WriteString(": " + rec.reason)
	}
	if rec.outcome == workflow.Failed {
		b.WriteString("; the cause is in the log of the process")
	}
	return b.String()
}
