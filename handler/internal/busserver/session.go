package busserver

import (
	"context"
	"errors"
	"time"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

const (
	sessionFilter = "com.microsoft:session-filter"
	// acceptWait is how long a client that names no time waits for a session.
	acceptWait = time.Minute
)

// acceptSession locks the session that the filter names, or with null the next
// that has a message and no holder. The filter comes as a described value from
// some clients and as a bare one from others.
func (s *Server) acceptSession(ctx context.Context, a address, filter any, properties amqp.Map) (*localbus.Session, error) {
	if d, described := filter.(amqp.Described); described {
		filter = d.Value
	}
	switch id := filter.(type) {
	case string:
		return s.bus.AcceptSession(ctx, a.topic, a.subscription, id)
	case nil:
	default:
		return nil, amqp.Errorf(amqp.InvalidField, "The session filter is a %T.", filter)
	}
	waiting, cancel := context.WithTimeout(ctx, waitFor(properties))
	defer cancel()
	session, err := s.bus.AcceptNextSession(waiting, a.topic, a.subscription)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, amqp.Errorf(condTimeout, "The operation did not complete within the allotted time.")
	}
	return session, err
}

// waitFor is how long to wait for a session: a little less than the client
// does, so that it hears of the time-out before it has its own.
func waitFor(properties amqp.Map) time.Duration {
	ms, ok := properties.Get("com.microsoft:timeout").(uint32)
	if !ok {
		return acceptWait
	}
	wait := time.Duration(ms) * time.Millisecond
	return wait - min(wait/20, 100*time.Millisecond)
}

// grantedFilter is the filter set with the session that was locked, in the
// shape in which it was asked for.
func grantedFilter(filter amqp.Map, id string) amqp.Map {
	granted := make(amqp.Map, len(filter))
	for i, e := range filter {
		if e.Key == amqp.Symbol(sessionFilter) || e.Key == sessionFilter {
			if d, described := e.Value.(amqp.Described); described {
				e.Value = amqp.Described{Descriptor: d.Descriptor, Value: id}
			} else {
				e.Value = id
			}
		}
		granted[i] = e
	}
	return granted
}

// ticks is a moment as .NET counts it: in 100 ns from the year 1.
func ticks(t time.Time) int64 {
	const unixEpoch = 621_355_968_000_000_000
	return unixEpoch + t.UnixMicro()*10
}
