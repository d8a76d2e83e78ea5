package busserver

import (
	"context"
	"sync/atomic"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// Faults let a test break the server at a chosen moment. The zero value breaks
// nothing.
type Faults struct {
	// On is asked at each moment what is to go wrong there. It may be called
	// from many goroutines. Nil means nothing ever goes wrong.
	On func(Event) Fault
}

// Moment is where in its work the server is.
type Moment string

// The moments.
const (
	Attaching Moment = "attaching" // a link to an entity or its $management asks to be attached
	Arrived   Moment = "arrived"   // messages came from a sender; the bus does not have them yet
	Taken     Moment = "taken"     // the bus has them; the sender does not know yet
	Settling  Moment = "settling"  // a receiver's outcome came; the bus does not know yet
	Settled   Moment = "settled"   // the bus knows; the receiver has no answer yet
	Requested Moment = "requested" // a request came to a $management node
)

// Event is one moment. Fields that have no meaning there are empty.
type Event struct {
	Moment    Moment
	Address   string
	Operation string // of a request, such as com.microsoft:renew-session-lock
	// Messages are those that were sent, or the one that is settled.
	Messages []localbus.Message
}

// Fault is what goes wrong. The zero value is nothing. Of several the first
// that makes sense at the moment counts, in the order of the fields.
type Fault struct {
	// Until holds the server up until it is closed, before the rest.
	Until <-chan struct{}
	// Cut drops the connection without a word.
	Cut bool
	// Detach detaches the link with this error.
	Detach *amqp.Error
	// Refuse answers with this error instead of doing what was asked, or at
	// Taken and Settled although it was done.
	Refuse *amqp.Error
	// LoseLock takes the lock away: that of the session, or of a dead letter.
	// At Settling only.
	LoseLock bool
	// LoseAnswer leaves the client without an answer.
	LoseAnswer bool
}

// ServerBusy is the service's way to ask for a pause.
func ServerBusy() *amqp.Error {
	return amqp.Errorf(condServerBusy, "The server is busy. Please retry the operation.")
}

// Times is On that answers the first n events of one moment with a fault.
func Times(n int, at Moment, f Fault) func(Event) Fault {
	var seen atomic.Int64
	return func(e Event) Fault {
		if e.Moment != at || seen.Add(1) > int64(n) {
			return Fault{}
		}
		return f
	}
}

func (f Faults) at(ctx context.Context, e Event) Fault {
	if f.On == nil {
		return Fault{}
	}
	fault := f.On(e)
	if fault.Until != nil {
		select {
		case <-fault.Until:
		case <-ctx.Done():
		}
	}
	return fault
}

// refusal is a fault of a moment at which only a refusal makes sense.
func (c *connection) refusal(f Fault) *amqp.Error {
	switch {
	case f.Cut:
		_ = c.net.Close()
	case f.Detach != nil:
		return f.Detach
	}
	return f.Refuse
}

// struck lets a fault take the link away and says whether it has.
func (c *connection) struck(l *amqp.Link, f Fault) bool {
	switch {
	case f.Cut:
		_ = c.net.Close()
	case f.Detach != nil:
		_ = l.Detach(f.Detach)
	default:
		return false
	}
	return true
}
