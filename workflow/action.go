package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ActionKind is what an operator does to one message of an order, beside the
// process: in itself it moves no status. (Retry, ResolveCompleted and
// ResolveCancelled are messages of the process.) The texts are stored.
type ActionKind string

// The actions.
const (
	// RetryMessage: the message that blocks the order is handled again, and then
	// those that wait behind it.
	RetryMessage ActionKind = "RetryMessage"
	// SkipMessage: the message that blocks the order is given up, and those that
	// wait behind it are handled.
	SkipMessage ActionKind = "SkipMessage"
	// SendAgain: a command that is dead, or was not answered, is sent again
	// under its own MessageId.
	SendAgain ActionKind = "SendAgain"
	// DiscardCommand: a command that is dead, or was not answered, is closed.
	DiscardCommand ActionKind = "DiscardCommand"
	// FireDeadline: the deadline that is armed is handled as if it were due. It is
	// a message of its own, of which the action is the parent.
	FireDeadline ActionKind = "FireDeadline"
)

// ActionKinds lists the actions.
func ActionKinds() []ActionKind {
	return []ActionKind{RetryMessage, SkipMessage, SendAgain, DiscardCommand, FireDeadline}
}

// OperatorsFunction is the function through which operators act on orders, with
// a key of its own. Who acted is believed of what came through it and of nothing
// else: a message of the broker may claim anything.
const OperatorsFunction = "order-actions"

// Known reports whether it is one of the actions.
func (k ActionKind) Known() bool { return slices.Contains(ActionKinds(), k) }

// Action is something an operator asks for about one message of an order. It is
// journalled like a message.
type Action struct {
	// ID is its MessageId: the same asked twice is one action. Empty takes one
	// made of the order, the action and the order's revision.
	ID      string
	Kind    ActionKind
	OrderID string
	// Target is the MessageId of the blocking message, of the command, or of the
	// deadline.
	Target string
	Reason string // why, in the operator's words; required
	Actor  string // who
}

// Fault says what is missing of an action; empty when nothing is.
func (a Action) Fault() string {
	switch {
	case !a.Kind.Known():
		return fmt.Sprintf("the action %s is not known", quote(string(a.Kind)))
	case OrderIDFault(a.OrderID) != "":
		return "the order ID " + OrderIDFault(a.OrderID)
	case IDFault(a.Target) != "":
		return "the ID of the message that is meant " + IDFault(a.Target)
	case a.ID != "" && IDFault(a.ID) != "":
		return "the MessageId of the action " + IDFault(a.ID)
	case ownID(a.OrderID, a.ID) && !strings.HasPrefix(a.ID, a.OrderID+":"+step(MessageType(a.Kind))+":"):
		return "the MessageId of the action " + quote(a.ID) + " is one that the order gives to its own messages"
	case strings.TrimSpace(a.Reason) == "":
		return "the reason is missing"
	}
	return ""
}

// Message is the action as it is journalled: its parent is the message that is
// meant.
func (a Action) Message() Message {
	kind := MessageType(a.Kind)
	said := map[string]any{"orderId": a.OrderID, "messageId": a.Target, "reason": a.Reason}
	if a.Actor != "" {
		said["actor"] = a.Actor
	}
	m := Message{
		Envelope:    Envelope{ID: a.ID, Type: kind, OrderID: a.OrderID, ParentID: a.Target, Schema: "1", Body: mustJSON(said)},
		Facts:       Facts{CommandID: a.Target, Reason: a.Reason},
		Fingerprint: fingerprint(kind, said),
	}
	if a.Kind == FireDeadline {
		m.Facts.CommandID, m.Facts.TimeoutID = "", a.Target
	}
	return m
}

// Words say what was done, by whom and why, for the journal.
func (a Action) Words() string {
	words := map[ActionKind]string{
		RetryMessage: "handled again", SkipMessage: "skipped", SendAgain: "sent again", DiscardCommand: "discarded",
		FireDeadline: "fired",
	}[a.Kind]
	if a.Actor != "" {
		words += " by " + a.Actor
	}
	return words + ": " + a.Reason
}

// CommandFault says why the command that an action means may not be sent again
// or discarded; empty when it may. state is that of its row, empty for none;
// quiet is how long ago it was sent, and window for how long the broker
// remembers the MessageIds it was sent.
func (a Action) CommandFault(o Order, state string, quiet, window time.Duration) string {
	switch state {
	case "":
		return "the order sent no such command"
	case DispatchWaiting:
		return "it is waiting to be sent"
	case DispatchDead, DispatchSent:
	default:
		return "it is " + state
	}
	switch {
	case a.Kind == DiscardCommand:
		return ""
	case !o.Awaits(a.Target):
		return "its answer is not awaited any more: it can only be discarded"
	case state == DispatchSent && quiet < window:
		return fmt.Sprintf("it was sent %s ago, and the broker drops what it is sent twice within %s: wait until then", quiet.Round(time.Second), window)
	}
	return ""
}

// Forgiven is the order without the problem noted about a command, now that it
// is sent again. One with another command stays.
func (o Order) Forgiven(commandID string) Order {
	if strings.HasPrefix(o.Problem, unsent(commandID)) {
		o.Problem = ""
	}
	return o
}

// Rearmed is the order after a person gave up one of its messages, by the action
// m. If that was the armed deadline, the next generation is armed, whose time
// begins anew: no wait is without bound. Else nothing changes, and none is.
func (o Order) Rearmed(m Message, skipped string) (Order, *Outgoing) {
	if o.Armed == "" || o.Armed != skipped {
		return o, nil
	}
	o = o.clone()
	return o, arm(&o, &m, table[o.Status].row.Deadline)
}

// unsent begins the problem with a command that could not be sent.
func unsent(commandID string) string { return commandID + " could not be sent: " }

// DeadlineFault says why the deadline that an action means may not be fired;
// empty when it may.
func (a Action) DeadlineFault(o Order) string {
	switch o.Armed {
	case "":
		return "no deadline is armed"
	case a.Target:
		return ""
	}
	return "armed is " + o.Armed + ", not that deadline"
}

// Fired is the armed deadline of an order as the message that it will be, due
// now instead of at dueAt, and caused by an action. Its content is what the
// broker brings, if it does later.
func (o Order) Fired(by Message, dueAt time.Time) (Message, error) {
	m, err := Envelope{
		ID: o.Armed, Type: table[o.Status].row.Deadline.Expired(), OrderID: o.ID,
		Conversation: o.Conversation, ParentID: by.ID, OriginID: o.Origin, TraceParent: by.TraceParent,
		Body: DeadlineBody(o.ID, o.Armed, dueAt),
	}.Decode()
	m.DueAt = dueAt
	return m, err
}
