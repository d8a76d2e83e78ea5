package workflow

import "time"

// Search says which orders are listed: those of which all is true that is asked.
// The zero value asks nothing.
type Search struct {
	// Statuses are those that an order may have; none means all that this program
	// knows.
	Statuses []Status
	// Prefix is how the order's ID begins, letter by letter.
	Prefix string
	// From and To bound when an order became known and when it was last decided
	// about, by the database's clock. Zero is no bound; To is exclusive.
	CreatedFrom, CreatedTo, UpdatedFrom, UpdatedTo time.Time
	// Blocked: only orders that a message blocks.
	Blocked bool
	// Oldest: those last decided about longest ago come first. One that moves while
	// the pages are read comes again at the end, and none is missed.
	Oldest bool
	// Top is how many orders there are on a page at most, 1 to TopMost; zero means
	// TopDefault.
	Top int
	// After is the Next of the page before; empty for the first.
	After string
}

// How long a page is.
const (
	TopDefault = 50
	TopMost    = 1000
)

// Listed is an order in a list.
type Listed struct {
	Order    Order
	Revision int64
	// CreatedAt, Since and UpdatedAt are as in a Story.
	CreatedAt, Since, UpdatedAt time.Time
	BlockedBy                   string
	DeadlineAt                  time.Time // zero when none is armed
	Dead                        int       // commands that the broker refused for good
	// Held is how many early messages wait, and HeldSince since when the first
	// does.
	Held      int
	HeldSince time.Time
	// Waiting is since when the oldest command waits to be sent; zero when none
	// does.
	Waiting time.Time
}

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	// Next asks for the page after this one; empty at the end.
	Next string
}

// Summary is how all orders stand.
type Summary struct {
	// ByStatus counts the orders; a status that no order has is missing. One that
	// is not known was written by a newer program.
	ByStatus map[Status]int
	Backlog  Backlog
	ReadAt   time.Time // by the database's clock
}

// DispatchAt is an outbox row, in a list of those of all orders. A command's is
// without its body.
type DispatchAt struct {
	OrderID string
	Dispatch
}

// Kept is a message that waits, in a list of those of all orders: early, or in
// the line of its order. It is without its body.
type Kept struct {
	OrderID string
	Envelope
	Size       int64   // of the body, in bytes
	Outcome    Outcome // Held or Blocked
	Reason     string
	ReceivedAt time.Time
	Delivery   Delivery
}

// Refused is a rejected message. Its ID is the store's own; the MessageId is its
// Envelope's, and may be anything.
type Refused struct {
	ID string
	Rejection
	Size            int64 // of the whole body, in bytes; of a large one only the beginning is kept
	FirstAt, LastAt time.Time
	Times           int // how often it came
	// Settled is what a person did about it last; zero for nothing yet.
	Settled Settlement
	// Open: nobody settled it since it last came.
	Open bool
}

// Settlement is what a person did about a rejected message.
type Settlement struct {
	How    string // SettledByDiscard or SettledByResubmit
	At     time.Time
	By     string
	Reason string
}

// How a rejected message is settled. The texts are stored.
const (
	SettledByDiscard  = "discarded"
	SettledByResubmit = "resubmitted"
)

// Words say how, by whom and why.
func (s Settlement) Words() string {
	if s.By == "" {
		return s.How + ": " + s.Reason
	}
	return s.How + " by " + s.By + ": " + s.Reason
}
