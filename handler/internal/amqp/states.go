package amqp

// State is the state of a delivery (3.4).
type State interface {
	composite() Described
}

// Accepted says that the message was processed (3.4.2).
type Accepted struct{}

// Rejected says that the message is invalid (3.4.3). Error may be nil.
type Rejected struct{ Error *Error }

// Released gives the message back, as if it had not been sent (3.4.4).
type Released struct{}

// Modified gives the message back and says what has changed (3.4.5).
type Modified struct {
	DeliveryFailed    bool
	UndeliverableHere bool
	Annotations       Map
}

// received says how far a delivery has come (3.4.1); no outcome.
type received struct {
	Section uint32
	Offset  uint64
}

func (Accepted) composite() Described   { return composite(descAccepted) }
func (r Rejected) composite() Described { return composite(descRejected, r.Error.value()) }
func (Released) composite() Described   { return composite(descReleased) }
func (m Modified) composite() Described {
	return composite(descModified, null(m.DeliveryFailed), null(m.UndeliverableHere), nullMap(m.Annotations))
}
func (r received) composite() Described { return composite(descReceived, r.Section, r.Offset) }

// newState reads a field that holds a delivery state; nil when it is null.
func newState(f *fields, v any) State {
	if v == nil {
		return nil
	}
	code, value, ok := descriptor(v)
	list, isList := value.([]any)
	if !ok || !isList {
		f.fail("state", "%T where a delivery state belongs", v)
		return nil
	}
	s := &fields{list: list}
	var state State
	switch code {
	case descReceived:
		s.of = "received"
		state = received{Section: required[uint32](s, "section-number"), Offset: required[uint64](s, "section-offset")}
	case descAccepted:
		state = Accepted{}
	case descRejected:
		s.of = "rejected"
		state = Rejected{Error: newError(s, s.any())}
	case descReleased:
		state = Released{}
	case descModified:
		s.of = "modified"
		state = Modified{
			DeliveryFailed:    optional[bool](s, "delivery-failed"),
			UndeliverableHere: optional[bool](s, "undeliverable-here"),
			Annotations:       optional[Map](s, "message-annotations"),
		}
	default:
		f.fail("state", "0x%02x is no delivery state known here", code)
	}
	f.adopt(s)
	return state
}

// value is the error as a field.
func (e *Error) value() any {
	if e == nil {
		return nil
	}
	return composite(descError, e.Condition, null(e.Description), nullMap(e.Info))
}

// newError reads a field that holds an error; nil when it is null.
func newError(f *fields, v any) *Error {
	if v == nil {
		return nil
	}
	code, value, _ := descriptor(v)
	list, isList := value.([]any)
	if code != descError || !isList {
		f.fail("error", "%T where an error belongs", v)
		return nil
	}
	e := &fields{of: "error", list: list}
	result := &Error{
		Condition:   required[Symbol](e, "condition"),
		Description: optional[string](e, "description"),
		Info:        optional[Map](e, "info"),
	}
	f.adopt(e)
	return result
}
