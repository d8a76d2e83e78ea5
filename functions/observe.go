package functions

import (
	"log/slog"
	"strings"
	"time"

	"orderflow/workflow"
)

// Invocation is what is known of one invocation: identities and outcomes,
// nothing of what a body says.
type Invocation struct {
	// Function is empty when no function has the path.
	Function string
	// Forwarded: it is a caller's own request, and no message of the broker's.
	Forwarded bool
	Envelope  workflow.Envelope // without its body; zero when no message came
	Delivery  workflow.Delivery
	Began     time.Time // zero when it is not timed

	// What follows is known once it is over.

	Outcome  workflow.Outcome // empty of one that is about no message
	Reason   string
	From, To workflow.Status
	Version  int64
	Late     time.Duration // of a deadline
	Status   int           // of the answer
	Took     time.Duration
	// Failed: its log line is an error, and Trouble says why as far as that is
	// known.
	Failed  bool
	Trouble string
}

// told is what others are told of a record.
func (rec *record) told() Invocation {
	i := Invocation{
		Function: rec.function, Forwarded: rec.forwarded, Envelope: rec.envelope, Delivery: rec.delivery, Began: rec.began,
		Outcome: rec.outcome, Reason: clip(rec.reason), From: rec.from, To: rec.to, Version: rec.version, Late: rec.late,
		Status: rec.status, Took: rec.took, Failed: rec.failed(),
	}
	switch {
	case rec.err != nil:
		i.Trouble = rec.err.Error()
	case rec.trouble != "" && rec.outcome != workflow.Blocked: // whose reason says it
		i.Trouble, _, _ = strings.Cut(rec.trouble, "\n") // a stack may follow
	case i.Failed:
		i.Trouble = i.Reason
	}
	return i
}

// trace tells of a message that has come, before anything is decided about it,
// and returns the trace context under which it goes on.
func (a App) trace(rec *record) string {
	if a.Trace != nil {
		a.tell(rec, func() error {
			parent, over := a.Trace(rec.told())
			rec.over = over
			if sound := traceParent(parent); sound != "" {
				rec.envelope.TraceParent = sound
			}
			return nil
		})
	}
	return rec.envelope.TraceParent
}

// observed tells of an invocation that is over.
func (a App) observed(rec *record) {
	if rec.over != nil {
		a.tell(rec, func() error {
			rec.over(rec.told())
			return nil
		})
	}
	if a.Measure != nil {
		a.tell(rec, func() error {
			a.Measure(rec.told())
			return nil
		})
	}
}

// tell keeps what only watches from breaking what is watched.
func (a App) tell(rec *record, what func() error) {
	if err := contained(what); err != nil {
		a.Log.Error("telemetry failed", slog.String("function", rec.function), slog.String("error", err.Error()))
	}
}
