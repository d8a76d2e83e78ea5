package ops

import (
	"slices"
	"strconv"
	"strings"

	"orderflow/workflow"
)

// mostSteps is how many entries of a journal are shown, the last ones; the API
// has them all.
const mostSteps = 200

// mostLines is how many lines of an order are shown at once; the others are
// folded away.
const mostLines = 20

type order struct {
	workflow.Story
	Status   workflow.Status
	Means    string
	WaitsFor string
	Why      []workflow.Stuck
	Tone     string // of why: bad, or warn where it only waits
	Blocker  string // why the message that blocks it could not be handled
	Deadline string // the armed one
	Ordered  []workflow.Line
	Folded   []workflow.Line // what is ordered besides
	Effects  []effect
	Notes    []string // what was noted of it besides
	Actions  []action
	ReadOnly bool // the actions are not offered
	Diagram  diagram
	Steps    []step
	Earlier  int // entries that are not shown
	Loose    []sent
}

// effect is something that another service did for the order.
type effect struct {
	Kind  workflow.EffectKind
	State workflow.EffectState
	Ref   string
	Note  string
}

// step is one message that came, and what it brought about.
type step struct {
	Anchor string
	workflow.Entry
	ID     string
	Moved  bool
	After  string // how long after the entry before it
	By     string // the operator who asked for it and why, where the reason does not say so
	Parent *cause
	Sent   []sent
}

// cause is the message that caused another. Without an anchor it is not on the
// page.
type cause struct{ Anchor, ID, Full string }

// sent is one message that the order sends, or a deadline that it armed.
type sent struct {
	Anchor string
	workflow.Dispatch
	Short    string
	Deadline bool
	Armed    bool
	Awaited  bool // a command that was sent and whose answer is still wanted
}

// Order shows one order, and why it is stuck.
func (p *Page) Order(s workflow.Story, why []workflow.Stuck) []byte {
	o := s.Order
	explained := workflow.Explain(o)
	v := order{
		Story: s, Status: o.Status, Means: explained.Meaning, WaitsFor: s.WaitsFor(), Why: why, Actions: actions(s), ReadOnly: p.readOnly,
		Deadline: short(o.ID, o.Armed), Diagram: orderDiagram(s),
	}
	if v.Status == "" {
		v.Status = workflow.NotStarted
	}
	first := min(len(o.Lines), mostLines)
	v.Ordered, v.Folded = o.Lines[:first], o.Lines[first:]
	v.Tone = "warn"
	for _, w := range why {
		switch w.Kind {
		case workflow.StuckBlocked, workflow.StuckDead, workflow.StuckOverdue, workflow.StuckUnsent:
			v.Tone = "bad"
		case workflow.StuckAttention, workflow.StuckUnanswered, workflow.StuckEarly:
		}
	}
	for _, e := range o.Effects {
		note := e.Failure
		if e.State == workflow.EffectUndone && e.Undo != e.Ref {
			note = e.Undo
		}
		v.Effects = append(v.Effects, effect{e.Kind, e.State, e.Ref, note})
	}
	if o.Because != "" {
		v.Notes = append(v.Notes, "turned back because "+o.Because)
	}
	if o.Problem != "" {
		v.Notes = append(v.Notes, o.Problem)
	}
	for _, e := range s.Journal {
		if e.Outcome == workflow.Blocked && e.MessageID == s.BlockedBy {
			v.Blocker = e.Reason
		}
	}
	v.timeline(s)
	return p.render("order", v)
}

// timeline sets out what came, and beneath it what that sent. What was sent by
// an entry that is not here stands by itself.
func (v *order) timeline(s workflow.Story) {
	id := s.Order.ID
	from := max(0, len(s.Journal)-mostSteps)
	v.Earlier = from
	anchors := make(map[string]string)
	rows := make(map[string]sent)
	for i, d := range s.Outbox {
		row := sent{
			Anchor: "s" + strconv.Itoa(i), Dispatch: d, Short: short(id, d.ID), Deadline: d.Purpose != "", Armed: d.ID == s.Order.Armed,
			// Nothing answers CancelOrder, though it counts as awaited for ever.
			Awaited: d.Purpose == "" && d.Type != workflow.CancelOrder && d.State == workflow.DispatchSent && s.Order.Awaits(d.ID),
		}
		rows[d.ID], anchors[d.ID] = row, row.Anchor
	}
	for i, e := range s.Journal[from:] {
		anchors[e.MessageID] = "e" + strconv.Itoa(from+i)
	}
	shown := make(map[string]bool)
	for i, e := range s.Journal[from:] {
		t := step{
			Anchor: "e" + strconv.Itoa(from+i), Entry: e, ID: short(id, e.MessageID),
			Moved: e.Outcome == workflow.Applied && e.From != e.To, By: askedBy(e),
		}
		if before := from + i - 1; before >= 0 {
			t.After = pause(e.At.Sub(s.Journal[before].At))
		}
		if e.ParentID != "" && e.ParentID != e.MessageID {
			t.Parent = &cause{anchors[e.ParentID], short(id, e.ParentID), e.ParentID}
		}
		for _, emitted := range e.Emitted {
			row, kept := rows[emitted]
			if !kept {
				row = sent{Short: short(id, emitted), Deadline: deadlineOf(id, emitted), Dispatch: workflow.Dispatch{Outgoing: workflow.Outgoing{ID: emitted}}}
			}
			t.Sent, shown[emitted] = append(t.Sent, row), true
		}
		v.Steps = append(v.Steps, t)
	}
	for _, d := range s.Outbox {
		if !shown[d.ID] && !slices.ContainsFunc(s.Journal[:from], func(e workflow.Entry) bool { return slices.Contains(e.Emitted, d.ID) }) {
			v.Loose = append(v.Loose, rows[d.ID])
		}
	}
}

// askedBy is which operator asked for what an entry tells, and why, as far as
// its reason does not say so already.
func askedBy(e workflow.Entry) string {
	switch {
	case e.Actor == "" || strings.Contains(e.Reason, "by "+e.Actor):
		return ""
	case e.Said == "" || strings.Contains(e.Reason, e.Said):
		return e.Actor
	}
	return e.Actor + ": " + e.Said
}

// deadlineOf reports whether an ID is that of one of the order's deadlines.
func deadlineOf(orderID, id string) bool {
	return slices.ContainsFunc(workflow.Table(), func(row workflow.Row) bool {
		return row.Deadline != "" && strings.HasPrefix(id, strings.TrimSuffix(workflow.DeadlineID(orderID, row.Deadline, 1), "1"))
	})
}

// Says is how the message stands, in words.
func (s sent) Says() string {
	var parts []string
	switch {
	case s.State == "":
		return "not kept any more"
	case s.State == workflow.DispatchDead:
		parts = append(parts, "dead: the broker refused it for good")
	case s.Armed:
		parts = append(parts, "armed")
	case s.State == workflow.DispatchWaiting && s.Deadline:
		parts = append(parts, "kept until it is near")
	case s.State == workflow.DispatchWaiting:
		parts = append(parts, "not sent yet")
	case s.State == workflow.DispatchSent && s.Deadline:
		parts = append(parts, "at the broker")
	case s.Awaited:
		parts = append(parts, "sent, not answered")
	case s.State == workflow.DispatchClosed && s.Deadline:
		parts = append(parts, "settled")
	case s.State == workflow.DispatchClosed:
		parts = append(parts, "not wanted any more")
	case s.State == workflow.DispatchRecall:
		parts = append(parts, "to be recalled from the broker")
	default:
		parts = append(parts, s.State)
	}
	if s.Attempts > 1 {
		parts = append(parts, plural(s.Attempts, "attempt", "attempts"))
	}
	return strings.Join(parts, ", ")
}
