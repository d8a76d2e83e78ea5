package workflow

import "time"

// Claimed is an outbox row in a sender's hands until its lease ends.
type Claimed struct {
	Outgoing
	Seq     int64 // its place in the order's line
	Attempt int   // 1 the first time it is claimed
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
	Error      string
	RetryAfter time.Duration
}
