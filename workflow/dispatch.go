package workflow

import "time"

// Want says which outbox rows a sender takes: those that go to a topic known not
// to take any are left alone.
type Want struct{ Commands, Deadlines bool }

// Claimed is an outbox row in a sender's hands until its lease ends.
type Claimed struct {
	Outgoing
	Seq      int64 // its place in the order's line
	Attempt  int   // 1 the first time it is claimed
	Refusals int   // how often the broker refused the message itself so far
}

// Mark is what became of a claimed row. One of Sent, GiveBack and Error says
// which.
type Mark struct {
	OrderID string
	Seq     int64
	// Sent: the broker accepted it; Sequence is its number there if it is
	// scheduled.
	Sent     bool
	Sequence int64
	// GiveBack: it was not tried and does not count as an attempt.
	GiveBack bool
	// Error is why it was not accepted; it is tried again after RetryAfter.
	// Refused: the broker refused the message itself.
	Error      string
	Refused    bool
	RetryAfter time.Duration
}

// Recall is a deadline that nobody wants any more and that the broker holds
// under a sequence number.
type Recall struct {
	OrderID  string
	Seq      int64
	Sequence int64
}

// Swept is what one sweep did.
type Swept struct {
	Resent   int // deadlines that should have fired and did not, to be sent again
	TooEarly int // early messages rejected because their order never started
	Replayed int // messages handled that waited in an order's line
	Purged   int // orders at rest whose old rows were deleted
	Settled  int // rejected messages deleted that a person settled long ago
	// More says that the sweep ended before its work did.
	More bool
}

// Backlog is what is not done yet, as far as it should be.
type Backlog struct {
	Waiting int // rows to be sent now, deadlines that have come near included
	// Lag is for how long the oldest of them could have been sent.
	Lag     time.Duration
	Dead    int // commands that the broker refused for good
	Blocked int // orders that a message blocks
	Early   int // messages that wait to become acceptable
	// Overdue is how many deadlines the broker was given and should have
	// delivered more than a minute ago.
	Overdue int
}
