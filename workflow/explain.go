package workflow

import (
	"fmt"
	"strings"
)

// Explanation answers "why is this order waiting?" in words.
type Explanation struct {
	// Meaning is what the order's status means.
	Meaning string
	// WaitsFor is what moves the order on, empty at an end.
	WaitsFor string
	// Facts are what is known that bears on it: each effect and how it stands,
	// and what went wrong.
	Facts []string
}

// Explain says in words where an order stands.
func Explain(o Order) Explanation {
	if o.Status == "" {
		o.Status = NotStarted
	}
	row := table[o.Status].row
	e := Explanation{Meaning: row.Means, WaitsFor: row.WaitsFor}
	if last := o.lastStanding(); o.Status == Compensating && last != nil {
		e.WaitsFor = "the answer to " + CommandID(o.ID, undoOf(last.Kind), o.count(undoOf(last.Kind)))
	}
	if stuck := o.stuckOn(); o.Status == NeedsAttention && stuck != nil {
		e.WaitsFor = "a person, about the " + string(stuck.Kind) + ": " + choices(stuck)
	}
	for _, effect := range o.Effects {
		e.Facts = append(e.Facts, describe(effect))
	}
	if o.Because != "" {
		e.Facts = append(e.Facts, "turned back because "+o.Because)
	}
	if o.Problem != "" {
		e.Facts = append(e.Facts, o.Problem)
	}
	return e
}

// choices is what a person may do about what an order is stuck on.
func choices(e *Effect) string {
	const resolve = "resolve it to cancelled or completed"
	switch e.State {
	case EffectFailed:
		return "retry, or " + resolve
	case EffectOverdue:
		return "send the unanswered command again, or " + resolve
	case EffectHeld, EffectWaiting, EffectUndone:
	}
	return resolve
}

// describe says how an effect stands: "money payment-77 held".
func describe(e Effect) string {
	parts := []string{string(e.Kind)}
	if e.Ref != "" {
		parts = append(parts, e.Ref)
	}
	switch e.State {
	case EffectHeld:
		parts = append(parts, "held")
	case EffectWaiting:
		parts = append(parts, "waiting for an answer")
	case EffectOverdue:
		parts = append(parts, "not answered in time")
	case EffectFailed:
		parts = append(parts, "undo failed")
		if e.Failure != "" {
			parts = append(parts, "("+e.Failure+")")
		}
	case EffectUndone:
		parts = append(parts, "undone")
		if e.Undo != "" && e.Undo != e.Ref {
			parts = append(parts, "("+e.Undo+")")
		}
	}
	return strings.Join(parts, " ")
}

// String is the explanation in one line.
func (e Explanation) String() string {
	text := e.Meaning
	if e.WaitsFor != "" {
		text += fmt.Sprintf("; waits for %s", e.WaitsFor)
	}
	return text
}
