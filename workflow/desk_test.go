package workflow_test

import (
	"fmt"
	"strings"

	"orderflow/workflow"
)

// desk does for one order what the store does around Apply: it knows what was
// handled, keeps what is held, and remembers what was sent.
type desk struct {
	order   workflow.Order
	held    []workflow.Message
	handled map[string]bool
	sent    []string
	letters int
}

func newDesk() *desk {
	return &desk{order: workflow.Order{ID: theOrder}, handled: map[string]bool{}}
}

// hears applies sayings one after the other and returns the last result.
func (d *desk) hears(sayings ...saying) workflow.Result {
	var r workflow.Result
	for _, s := range sayings {
		d.letters++
		m := s.to(d.order, fmt.Sprintf("letter-%d", d.letters))
		switch s.Type {
		case workflow.Retry, workflow.ResolveCancelled, workflow.ResolveCompleted:
			m.ID = workflow.ActionID(d.order.ID, s.Type, m.Facts.Version)
		case workflow.DispatchFailed:
			m.ID = workflow.DeathID(m.Facts.CommandID, d.letters)
		default:
		}
		r = d.takes(m)
	}
	return r
}

// takes applies a message that is no duplicate.
func (d *desk) takes(m workflow.Message) workflow.Result {
	r := workflow.Apply(d.order, m, d.held)
	d.order = r.Order
	d.held = remaining(d.held, r)
	for i := range r.Decisions {
		if r.Decisions[i].Outcome != workflow.Rejected {
			d.handled[r.Decisions[i].Message.ID] = true
		}
	}
	for _, e := range r.Emissions() {
		d.sent = append(d.sent, short(e.ID))
	}
	return r
}

// remaining is what is held after a result: what it held, and what it did not
// take up.
func remaining(held []workflow.Message, r workflow.Result) []workflow.Message {
	var rest []workflow.Message
	for _, h := range held {
		decided := false
		for _, d := range r.Decisions[1:] {
			decided = decided || d.Message.ID == h.ID
		}
		if !decided {
			rest = append(rest, h)
		}
	}
	if r.Decisions[0].Outcome == workflow.Held {
		rest = append(rest, r.Decisions[0].Message)
	}
	return rest
}

// short leaves the order's name out of an ID.
func short(id string) string { return strings.TrimPrefix(id, theOrder+":") }

// told writes a result as the stories of docs/process.md are written: the
// status if it changed, what was sent, and [the deadline that was armed]; else
// "recorded", "stale", "conflict", "refused" or "held". What was taken up
// follows after semicolons.
func told(r workflow.Result) string {
	parts := make([]string, 0, len(r.Decisions))
	for i := range r.Decisions {
		parts = append(parts, toldOne(&r.Decisions[i]))
	}
	return strings.Join(parts, "; ")
}

func toldOne(d *workflow.Decision) string {
	var words []string
	switch d.Outcome {
	case workflow.Applied:
	case workflow.Rejected:
		if strings.HasPrefix(d.Reason, "conflict") {
			return "conflict"
		}
		return "refused"
	default:
		return strings.ToLower(string(d.Outcome))
	}
	if d.To != d.From {
		words = append(words, "→ "+string(d.To))
	}
	if d.Command != nil {
		words = append(words, short(d.Command.ID))
	}
	if d.Deadline != nil {
		words = append(words, "["+short(d.Deadline.ID)+"]")
	}
	if len(words) == 0 {
		return "recorded"
	}
	return strings.Join(words, " ")
}

// standing writes the effects of an order: "goods res-1 waiting, money pay-1
// undone by ref-1".
func standing(o workflow.Order) string {
	parts := make([]string, 0, len(o.Effects))
	for _, e := range o.Effects {
		text := string(e.Kind)
		if e.Ref != "" {
			text += " " + byHandShort(e.Ref)
		}
		text += " " + string(e.State)
		if e.Undo != "" {
			text += " by " + byHandShort(e.Undo)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func byHandShort(ref string) string {
	if strings.HasPrefix(ref, "by hand: ") {
		return "hand"
	}
	return ref
}
