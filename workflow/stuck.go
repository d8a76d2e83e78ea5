package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// StuckKind is why an order is taken to be stuck. The texts are part of the
// API.
type StuckKind string

// Why an order is stuck.
const (
	StuckAttention  StuckKind = "attention"  // only a person can decide
	StuckBlocked    StuckKind = "blocked"    // a message could not be handled
	StuckDead       StuckKind = "dead"       // a command cannot be sent
	StuckOverdue    StuckKind = "overdue"    // its deadline passed and did nothing
	StuckUnsent     StuckKind = "unsent"     // a command waits too long to be sent
	StuckUnanswered StuckKind = "unanswered" // it waits too long for an answer
	StuckEarly      StuckKind = "early"      // messages wait for an order that was not placed
)

// Stuck is one reason why an order is stuck, in words that stay the same as long
// as the reason does.
type Stuck struct {
	Kind StuckKind
	Why  string
}

// Flagged is an order in a list, with why it is stuck; no reasons when it is not.
type Flagged struct {
	Listed
	Stuck []Stuck
}

// Limits are how long something may take before an order counts as stuck.
type Limits struct {
	Age     map[Status]time.Duration // in a status; none for one that is not named
	Overdue time.Duration            // since its deadline was due
	Unsent  time.Duration            // since a command could be sent
}

// LimitsFor are the limits that go with the lengths of deadlines: half of the
// deadline of a status. A length that is missing is the default.
func LimitsFor(deadlines map[Purpose]time.Duration) Limits {
	l := Limits{Age: map[Status]time.Duration{NotStarted: time.Hour}, Overdue: time.Minute, Unsent: 5 * time.Minute}
	for _, row := range Table() {
		if row.Deadline == "" {
			continue
		}
		length := deadlines[row.Deadline]
		if length <= 0 {
			length = row.Deadline.Default()
		}
		l.Age[row.Status] = length / 2
	}
	return l
}

// WhyStuck says why an order is stuck, the gravest first; nothing when it is
// not. Without a time, zero, only what does not depend on it is told.
func WhyStuck(l Listed, now time.Time, limits Limits) []Stuck {
	var all []Stuck
	add := func(kind StuckKind, format string, args ...any) {
		all = append(all, Stuck{kind, fmt.Sprintf(format, args...)})
	}
	longer := func(since time.Time, limit time.Duration) bool {
		return !now.IsZero() && !since.IsZero() && limit > 0 && now.Sub(since) > limit
	}
	status := l.Order.Status
	if status == NeedsAttention {
		add(StuckAttention, "it waits for %s", Explain(l.Order).WaitsFor)
	}
	if l.BlockedBy != "" {
		add(StuckBlocked, "message %s could not be handled and blocks it", l.BlockedBy)
	}
	if l.Dead > 0 {
		add(StuckDead, "the broker refused %d of its commands for good", l.Dead)
	}
	if longer(l.DeadlineAt, limits.Overdue) {
		add(StuckOverdue, "its deadline %s passed more than %s ago and has had no effect", l.Order.Armed, span(limits.Overdue))
	}
	if longer(l.Waiting, limits.Unsent) {
		add(StuckUnsent, "a command has waited more than %s to be sent", span(limits.Unsent))
	}
	switch limit := limits.Age[status]; {
	case status == NotStarted: // whose messages are given up in the end
		if longer(l.HeldSince, limit) {
			add(StuckEarly, "messages have waited more than %s for an order that was not placed", span(limit))
		}
	case longer(l.Since, limit):
		add(StuckUnanswered, "it has waited more than %s for %s", span(limit), Explain(l.Order).WaitsFor)
	}
	return all
}

// Listed is the order of a story as a list would show it.
func (s *Story) Listed() Listed {
	l := Listed{
		Order: s.Order, Revision: s.Revision, CreatedAt: s.CreatedAt, Since: s.Since, UpdatedAt: s.UpdatedAt,
		BlockedBy: s.BlockedBy, DeadlineAt: s.DeadlineAt, Held: len(s.Held),
	}
	for _, e := range s.Journal {
		if e.Outcome == Held && l.HeldSince.IsZero() {
			l.HeldSince = e.At
		}
	}
	for _, d := range s.Outbox {
		switch {
		case d.Purpose != "":
		case d.State == DispatchDead:
			l.Dead++
		case d.State == DispatchWaiting && l.Waiting.IsZero():
			l.Waiting = s.waitsSince(d.ID)
		}
	}
	return l
}

// waitsSince is when it was last decided to send a command; zero when the journal
// no longer says.
func (s *Story) waitsSince(id string) (at time.Time) {
	for _, e := range s.Journal {
		if slices.Contains(e.Emitted, id) || e.ParentID == id && e.Type == MessageType(SendAgain) {
			at = e.At
		}
	}
	return at
}

// span is a length of time without the zeros at its end.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Default is how long a deadline is where nothing else is said.
func (p Purpose) Default() time.Duration {
	if p == ShipmentTimeout {
		return 7 * 24 * time.Hour
	}
	return 24 * time.Hour
}
