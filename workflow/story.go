package workflow

import "time"

// Story is everything recorded about one order: the answer to "why does it
// wait?" and the trail of how it got there.
type Story struct {
	Order Order
	// Revision counts every decision about the order, applied or not.
	Revision int64
	// CreatedAt, Since and UpdatedAt are when the order became known, when it
	// entered its status, and when it was last decided about.
	CreatedAt, Since, UpdatedAt time.Time
	// DeadlineAt is when the armed deadline is due; zero when none is armed.
	DeadlineAt time.Time
	Journal    []Entry    // what was handled, oldest first
	Outbox     []Dispatch // what is to be sent or was, oldest first
	Held       []Envelope // what waits to become acceptable, oldest first
	// BlockedBy is the MessageId of the message that blocks the order, empty when
	// none does.
	BlockedBy string
	// Line is what waits to be handled in order: behind the blocking message,
	// which is the first, or while those before it are handled.
	Line     []Envelope
	Rejected []Refusal // what was refused for good, oldest first
}

// WaitsFor says in words what moves the order on; empty at an end.
func (s *Story) WaitsFor() string {
	if s.BlockedBy != "" {
		return "a person, who retries or skips the message that blocks it"
	}
	return Explain(s.Order).WaitsFor
}

// Entry is one line of an order's journal: a message and what was decided.
type Entry struct {
	At        time.Time
	MessageID string
	Type      MessageType
	ParentID  string
	Outcome   Outcome
	Reason    string
	From, To  Status
	Version   int64
	Emitted   []string // the IDs of what it sent and armed
	// Function is the one that it came through; empty for what came from within.
	Function string
	// Said is why somebody asked for it, in that person's words, and Actor which
	// operator that is: of what an operator had the process decide, and of a
	// cancellation. Of what was done about one message the Reason says both.
	Said, Actor string
}

// The states of an outbox row. The texts are stored.
const (
	// DispatchWaiting: it is still to be sent.
	DispatchWaiting = "waiting"
	// DispatchSent: the broker has it. A deadline stays so until it is settled.
	DispatchSent = "sent"
	// DispatchClosed: nobody wants it any more.
	DispatchClosed = "closed"
	// DispatchRecall: a deadline that nobody wants any more and that the broker
	// has scheduled; it is to be cancelled there, which is best effort.
	DispatchRecall = "recall"
	// DispatchDead: a command that the broker refused for good. It is out of its
	// order's way; a person sends it again or discards it.
	DispatchDead = "dead"
)

// Dispatch is one outbox row as people see it.
type Dispatch struct {
	Outgoing
	State         string // one of the Dispatch… texts
	Attempts      int    // how often it was claimed to be sent
	Refusals      int    // how often the broker refused the message itself
	Deaths        int    // how often it was given up
	NextAttemptAt time.Time
	SentAt        time.Time // zero until sent
	ClosedAt      time.Time // since when nobody wants it; zero while somebody does
	LastError     string
}

// Refusal is a rejected message as people see it.
type Refusal struct {
	At        time.Time
	MessageID string
	Type      MessageType
	Reason    string
	Times     int // how often it came
}

// Rejection is a message that can never be accepted, with all that could be
// read of it. Its envelope may be invalid in any way.
type Rejection struct {
	Envelope
	Delivery Delivery
	Reason   string
	// Fingerprint is that of the content, empty where it could not be taken.
	Fingerprint string
}
