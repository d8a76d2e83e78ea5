package workflow

import "time"

// Possible is something that an operator may do about an order as it stands.
type Possible struct {
	Action string // the name it has in the API: cancel, retry, skip, …
	Target string // the MessageId that is meant, empty where the order is
	To     string // how it may be resolved
	// SentAt is when the command that may be sent again was sent: it may be once the
	// broker has forgotten its MessageId. Zero for all else.
	SentAt time.Time
}

// String is the possibility as it may be read in a sentence.
func (p Possible) String() string {
	switch {
	case p.Target != "":
		return p.Action + " " + p.Target
	case p.To != "":
		return p.Action + " to " + p.To
	}
	return p.Action
}

// Allowed lists what an operator may do about an order as it stands. A command
// that was sent may be sent again once the broker has forgotten its MessageId.
func Allowed(s Story) []Possible {
	var all []Possible
	o := s.Order
	if o.Status == "" {
		o.Status = NotStarted
	}
	if s.BlockedBy != "" { // what else is decided waits until it is not
		all = append(all, Possible{Action: "retry", Target: s.BlockedBy}, Possible{Action: "skip", Target: s.BlockedBy})
	} else if o.Status == NeedsAttention {
		if stuck := o.stuckOn(); stuck != nil && stuck.State == EffectFailed {
			all = append(all, Possible{Action: "retry"})
		}
		all = append(all, Possible{Action: "resolve", To: "cancelled"}, Possible{Action: "resolve", To: "completed"})
	}
	switch table[o.Status].cells[CancellationRequested].kind {
	case taken, early:
		all = append(all, Possible{Action: "cancel"})
	case stale, refused:
	}
	if s.BlockedBy != "" { // the answer to a command, or a deadline, may wait in the line
		return all
	}
	if o.Armed != "" && len(s.Line) == 0 { // those that wait are handled first
		all = append(all, Possible{Action: "fire-deadline", Target: o.Armed})
	}
	for _, d := range s.Outbox {
		if d.State != DispatchDead && d.State != DispatchSent {
			continue
		}
		if d.Type == CancelOrder && d.State == DispatchSent {
			continue // nobody answers it, so it is not one whose answer is missing
		}
		awaited := o.Awaits(d.ID)
		if awaited {
			again := Possible{Action: "send-again", Target: d.ID}
			if d.State == DispatchSent {
				again.SentAt = d.SentAt
			}
			all = append(all, again)
		}
		if awaited || d.State == DispatchDead {
			all = append(all, Possible{Action: "discard", Target: d.ID})
		}
	}
	return all
}
