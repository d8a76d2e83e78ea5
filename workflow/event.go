package workflow

import "time"

// EventKind says what happened. The texts are written to the audit.
type EventKind string

// What happens to an order.
const (
	// EventMessage: a message was handled, or an operator's action, and this was
	// decided about it.
	EventMessage EventKind = "message"
	// EventSent: a command or deadline was given to the broker.
	EventSent EventKind = "sent"
	// EventDead: a command was given up, since the broker refuses it.
	EventDead EventKind = "dead"
	// EventClosed: a command or deadline is not wanted any more.
	EventClosed EventKind = "closed"
	// EventRejected: a message was refused for good and kept apart.
	EventRejected EventKind = "rejected"
	// EventSettled: a person discarded a rejected message, or had it handled after
	// all.
	EventSettled EventKind = "settled"
)

// Event is one thing that happened, as the database recorded it after its
// commit. It is for the audit; nothing is decided by it.
type Event struct {
	// OrderID is what the event is about. Of a rejected message it is what that
	// says, and may be anything, or empty.
	OrderID string
	// Key tells the event from all others of its order and is the same whenever
	// it is read.
	Key  string
	At   time.Time // by the database's clock, in UTC
	Kind EventKind

	MessageID    string
	Type         MessageType
	Conversation string
	ParentID     string
	OriginID     string
	TraceParent  string
	Outcome      Outcome // of a message
	Reason       string  // why it was decided so, the broker's last error, or the person's words
	Said, Actor  string  // as in an Entry
	From, To     Status
	Version      int64 // the order's, after it
	Revision     int64
	Emitted      []string // the IDs of what a message sent and armed
	Function     string   // where a message arrived
	Deliveries   int      // its DeliveryCount
	Attempts     int      // of a row, so far
	Sequence     int64    // the broker's number of a scheduled message
	DueAt        time.Time
	Size         int64 // of the body, in bytes
}
