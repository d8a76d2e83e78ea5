package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Decision is what was decided about one message.
type Decision struct {
	Message Message
	Outcome Outcome
	// Reason says why, for people: the table's Why, or what was refused.
	Reason   string
	From, To Status
	// Version is the order's business version after the decision.
	Version int64
	// Command is what is sent, nil for nothing.
	Command *Outgoing
	// Deadline is what is armed, nil for none.
	Deadline *Outgoing
	// Late is how long after it was due a deadline was decided about, by database
	// time; zero for any other message.
	Late time.Duration
	// Trouble is what went wrong on the way, for the log: the stack of a panic,
	// or which early message blocks the order now.
	Trouble string
}

// Outgoing is a message that an order sends: a command to another service, or
// a deadline to itself.
type Outgoing struct {
	ID           string
	Type         MessageType
	OrderID      string // also the SessionId
	Conversation string
	ParentID     string
	OriginID     string
	TraceParent  string
	// Purpose is set for a deadline and empty for a command.
	Purpose Purpose
	// DueAt is when a deadline is due where that is known: when one is armed
	// again for the same time, or once it is in the database. Zero on a new
	// one, which is due its purpose's duration after the commit.
	DueAt time.Time
	// Body is the JSON body. A deadline's gets its dueAt when it is sent.
	Body []byte
}

// Result is what one message, and the held ones that it made acceptable, do to
// an order. All of it is committed together or not at all.
type Result struct {
	Before, Order Order
	// Decisions begins with the message itself; then those taken up, in order.
	Decisions []Decision
}

// Apply decides what a message does to an order. held are the order's early
// messages, oldest first. Those that the message made acceptable, stale or
// refused are decided in the same result, each the parent of what it causes;
// the others stay held and are not mentioned. Nothing it is given changes.
//
// Duplicates by MessageId do not get here; the store knows them.
func Apply(o Order, m Message, held []Message) Result {
	if o.Status == "" {
		o.Status = NotStarted
	}
	r := Result{Before: o, Order: o}
	d := r.decide(&m)
	r.Decisions = append(r.Decisions, d)
	if d.Outcome != Applied || len(held) == 0 {
		return r
	}
	// Rule 11: held messages are decided again, oldest first, until none is
	// acceptable. Only one that was applied can make an older one so.
	held = slices.Clone(held)
	for i := 0; i < len(held); {
		d := r.decide(&held[i])
		if d.Outcome == Held {
			i++
			continue
		}
		r.Decisions = append(r.Decisions, d)
		held = slices.Delete(held, i, i+1)
		if d.Outcome == Applied {
			i = 0
		}
	}
	return r
}

// decide is the decision about one message; it moves the order on.
func (r *Result) decide(m *Message) Decision {
	d := Decision{Message: *m, From: r.Order.Status}
	d.Outcome, d.Reason = judge(&r.Order, m)
	if d.Outcome == Applied {
		r.Order = r.Order.clone()
		take(&r.Order, m, &d)
		r.Order.Version++
	}
	d.To, d.Version = r.Order.Status, r.Order.Version
	return d
}

// judge asks the rules and then the table whether a message is taken.
func judge(o *Order, m *Message) (Outcome, string) {
	for _, rule := range rules {
		if outcome, why := rule(o, m); outcome != "" {
			return outcome, why
		}
	}
	// Rule 8: the table.
	c := table[o.Status].cells[m.Type]
	switch c.kind {
	case taken:
		return Applied, c.transition.Why
	case stale:
		return Stale, "too late to matter while the order is " + string(o.Status)
	case early:
		return Held, "too early while the order is " + string(o.Status)
	case refused:
	}
	return Rejected, fmt.Sprintf("%s is not expected while the order is %s", m.Type, o.Status)
}

// take does what an applied message does: rules 1, 9 and 10.
func take(o *Order, m *Message, d *Decision) {
	if _, is := purposeOf(m.Type); is && m.NotDue { // rule 1
		d.Reason = "it came before it was due, so it is armed again for the same time"
		d.Deadline = arm(o, m, table[o.Status].row.Deadline)
		d.Deadline.DueAt = m.DueAt
		return
	}
	t := table[o.Status].cells[m.Type].transition
	if said := m.Facts.Said(); said != "" {
		d.Reason = t.Why + ": " + said
	}

	// Rule 9: record what the message says, then send or back out.
	from := o.Status
	record(o, m)
	to, send := t.To, t.Send
	switch to {
	case Stay:
		to = from
	case BackOut:
		if to, send = backOut(o); to != Completed && o.Because == "" {
			o.Because = d.Reason
		}
	default:
	}
	o.Status = to
	if send != "" {
		d.Command = command(o, m, send)
	}

	// Rule 10: a new wait has a deadline of its own and a clean slate.
	if to != from || send != "" {
		o.Problem = ""
		o.Armed = ""
		if purpose := table[to].row.Deadline; purpose != "" {
			d.Deadline = arm(o, m, purpose)
		}
	}
}

// record writes down what an applied message says.
func record(o *Order, m *Message) {
	f := &m.Facts
	if says, ok := reports[m.Type]; ok {
		recordReport(o, m, says)
		return
	}
	switch m.Type {
	case OrderPlaced:
		o.CustomerID, o.Currency, o.Amount, o.Lines = f.CustomerID, f.Currency, f.Amount, f.Lines
		o.Conversation, o.Origin = m.Conversation, m.OriginID
		if o.Conversation == "" {
			o.Conversation = m.ID
		}
	case ShipmentDeadlineExpired, CompensationDeadlineExpired:
		for i := range o.Effects {
			if o.Effects[i].State == EffectWaiting {
				o.Effects[i].State = EffectOverdue
			}
		}
	case DispatchFailed:
		o.Problem = unsent(f.CommandID) + f.Said()
	case Retry:
		if e := o.stuckOn(); e != nil {
			e.State, e.Failure = EffectHeld, ""
		}
	case ResolveCancelled:
		if e := o.stuckOn(); e != nil {
			e.State, e.Undo, e.Failure = EffectUndone, byHand+m.ID, ""
		}
	case ResolveCompleted:
		e := o.record(Shipment)
		e.State, e.Undo = EffectHeld, ""
		if e.Ref == "" {
			e.Ref = byHand + m.ID
		}
	default: // the others say nothing beyond that they came
	}
}

// recordReport writes down what a message says about goods, money or the
// shipment.
func recordReport(o *Order, m *Message, says report) {
	e := o.record(says.Effect)
	e.State, e.Failure = says.State, ""
	switch says.State {
	case EffectHeld:
		e.Ref, e.Undo = m.Facts.ref(says.Effect), ""
	case EffectUndone:
		e.Undo = m.Facts.undoRef(says.Effect)
	case EffectFailed:
		e.Failure = m.Facts.Said()
	case EffectWaiting, EffectOverdue:
	}
}

// Said is the reason that a message gives, shortened to what fits a row, a
// command's body and a person's eye. The whole text stays in the message.
func (f *Facts) Said() string { return clip(f.Reason, 1000) }

// ref is the reference that a message names for an effect.
func (f *Facts) ref(kind EffectKind) string {
	switch kind {
	case Goods:
		return f.ReservationID
	case Money:
		return f.PaymentID
	case Shipment:
		return f.ShipmentID
	}
	return ""
}

// undoRef is the reference that a message names for the undo of an effect.
func (f *Facts) undoRef(kind EffectKind) string {
	if kind == Money {
		return f.RefundID
	}
	return f.ref(kind)
}

// command makes the next command of a type. A shipment waits from here on.
func command(o *Order, m *Message, t MessageType) *Outgoing {
	name := step(t)
	o.Counts[name]++
	if t == ShipOrder {
		o.record(Shipment).State = EffectWaiting
	}
	out := outgoing(o, m, t, o.ID+":"+name+":"+strconv.Itoa(o.Counts[name]))
	out.Body = commandBody(o, t)
	return out
}

// arm makes the next deadline of a purpose.
func arm(o *Order, m *Message, purpose Purpose) *Outgoing {
	name := string(purpose)
	o.Counts[name]++
	o.Armed = o.ID + ":" + name + ":" + strconv.Itoa(o.Counts[name])
	out := outgoing(o, m, purpose.Expired(), o.Armed)
	out.Purpose = purpose
	return out
}

// outgoing gives a message its lineage: the conversation and origin of the
// order, and as parent the message that caused it.
func outgoing(o *Order, m *Message, t MessageType, id string) *Outgoing {
	return &Outgoing{
		ID: id, Type: t, OrderID: o.ID,
		Conversation: o.Conversation, ParentID: m.ID, OriginID: o.Origin,
		TraceParent: m.TraceParent,
	}
}

// Emission is an Outgoing as it goes into the outbox.
type Emission struct {
	Outgoing
	// Closed: the same commit already turned back from it, so it is kept for
	// the record and never sent.
	Closed bool
}

// Emissions lists what goes into the outbox, in the order decided. A deadline
// that was armed and replaced within the result is not written; its generation
// is spent.
func (r *Result) Emissions() []Emission {
	out := make([]Emission, 0, 2)
	for i := range r.Decisions {
		if c := r.Decisions[i].Command; c != nil {
			out = append(out, Emission{Outgoing: *c, Closed: len(r.Decisions) > 1 && !r.Order.Awaits(c.ID)})
		}
		if d := r.Decisions[i].Deadline; d != nil && d.ID == r.Order.Armed {
			out = append(out, Emission{Outgoing: *d})
		}
	}
	return out
}

// Settled lists the IDs of outbox rows of earlier commits that are no longer
// wanted: the deadline that was armed, and commands that are not awaited any
// more. They are closed unless a sender holds them.
func (r *Result) Settled() []string {
	var ids []string
	if r.Before.Armed != "" && r.Before.Armed != r.Order.Armed {
		ids = append(ids, r.Before.Armed)
	}
	for _, id := range r.Before.Awaited() {
		if !r.Order.Awaits(id) {
			ids = append(ids, id)
		}
	}
	return ids
}
