package amqp

import (
	"fmt"
	"math"
)

// performative is the body of a frame (2.7). Fields that nothing here uses are
// left out of the types.
type performative interface {
	composite() Described
}

// open negotiates the connection (2.7.1).
type open struct {
	ContainerID  string
	Hostname     string
	MaxFrameSize uint32
	ChannelMax   uint16
	IdleTimeOut  uint32 // milliseconds; zero means none
}

func (o open) composite() Described {
	return composite(descOpen, o.ContainerID, null(o.Hostname), o.MaxFrameSize, o.ChannelMax, null(o.IdleTimeOut))
}

// begin starts a session (2.7.2).
type begin struct {
	RemoteChannel  *uint16
	NextOutgoingID uint32
	IncomingWindow uint32
	OutgoingWindow uint32
	HandleMax      uint32
}

func (b begin) composite() Described {
	return composite(descBegin, deref(b.RemoteChannel), b.NextOutgoingID, b.IncomingWindow, b.OutgoingWindow, b.HandleMax)
}

// Role tells which end of a link sends a frame (2.8.1).
type Role bool

// The two ends of a link.
const (
	RoleSender   Role = false
	RoleReceiver Role = true
)

// Settle modes (2.8.2, 2.8.3).
const (
	SenderSettled  uint8 = 1
	senderMixed    uint8 = 2
	receiverFirst  uint8 = 0
	ReceiverSecond uint8 = 1
)

// Attach joins a link to a session (2.7.3). Source is nil when there is none,
// Target also when it is not an ordinary one, as a transaction coordinator is.
type Attach struct {
	Name           string
	Role           Role // the client's
	SndSettleMode  uint8
	RcvSettleMode  uint8
	Source         *Source
	Target         *Target
	MaxMessageSize uint64 // zero means no limit
	Properties     Map

	handle               uint32
	initialDeliveryCount *uint32
}

func (a Attach) composite() Described {
	var source, target any
	if a.Source != nil {
		source = a.Source.composite()
	}
	if a.Target != nil {
		target = a.Target.composite()
	}
	return composite(descAttach, a.Name, a.handle, bool(a.Role), a.SndSettleMode, a.RcvSettleMode, source, target,
		nil, nil, deref(a.initialDeliveryCount), null(a.MaxMessageSize), nil, nil, nullMap(a.Properties))
}

// flow updates the state of a session and perhaps of a link (2.7.4).
type flow struct {
	NextIncomingID *uint32
	IncomingWindow uint32
	NextOutgoingID uint32
	OutgoingWindow uint32
	Handle         *uint32
	DeliveryCount  *uint32
	LinkCredit     *uint32
	Available      *uint32
	Drain          bool
	Echo           bool
}

func (f flow) composite() Described {
	return composite(descFlow, deref(f.NextIncomingID), f.IncomingWindow, f.NextOutgoingID, f.OutgoingWindow,
		deref(f.Handle), deref(f.DeliveryCount), deref(f.LinkCredit), deref(f.Available), null(f.Drain), null(f.Echo))
}

// transfer carries a message or a part of one (2.7.5).
type transfer struct {
	Handle        uint32
	DeliveryID    *uint32
	DeliveryTag   []byte
	MessageFormat *uint32
	Settled       *bool
	More          bool
	Aborted       bool
}

func (t transfer) composite() Described {
	var tag any
	if t.DeliveryTag != nil {
		tag = t.DeliveryTag
	}
	return composite(descTransfer, t.Handle, deref(t.DeliveryID), tag, deref(t.MessageFormat),
		deref(t.Settled), null(t.More), nil, nil, nil, null(t.Aborted))
}

// disposition tells the state of deliveries (2.7.6).
type disposition struct {
	Role    Role
	First   uint32
	Last    *uint32
	Settled bool
	State   State
}

func (d disposition) composite() Described {
	var state any
	if d.State != nil {
		state = d.State.composite()
	}
	return composite(descDisposition, bool(d.Role), d.First, deref(d.Last), d.Settled, state)
}

// detach takes a link from its session (2.7.7).
type detach struct {
	Handle uint32
	Closed bool
	Error  *Error
}

func (d detach) composite() Described {
	return composite(descDetach, d.Handle, d.Closed, d.Error.value())
}

// end ends a session (2.7.8).
type end struct{ Error *Error }

func (e end) composite() Described { return composite(descEnd, e.Error.value()) }

// closing ends the connection: the performative close (2.7.9).
type closing struct{ Error *Error }

func (c closing) composite() Described { return composite(descClose, c.Error.value()) }

// decodePerformative reads the body of an AMQP frame; the rest is the payload.
func decodePerformative(b []byte) (p performative, payload []byte, err error) {
	v, payload, err := Decode(b)
	if err != nil {
		return nil, nil, err
	}
	code, value, ok := descriptor(v)
	list, isList := value.([]any)
	if !ok || !isList {
		return nil, nil, fmt.Errorf("amqp: decode: a frame's body is no performative")
	}
	p, err = newPerformative(code, list)
	return p, payload, err
}

func newPerformative(code uint64, list []any) (performative, error) {
	f := &fields{list: list}
	var p performative
	switch code {
	case descOpen:
		f.of = "open"
		p = open{
			ContainerID:  required[string](f, "container-id"),
			Hostname:     optional[string](f, "hostname"),
			MaxFrameSize: field[uint32](f, "max-frame-size", math.MaxUint32),
			ChannelMax:   field[uint16](f, "channel-max", math.MaxUint16),
			IdleTimeOut:  optional[uint32](f, "idle-time-out"),
		}
	case descBegin:
		f.of = "begin"
		p = begin{
			RemoteChannel:  pointer[uint16](f, "remote-channel"),
			NextOutgoingID: required[uint32](f, "next-outgoing-id"),
			IncomingWindow: required[uint32](f, "incoming-window"),
			OutgoingWindow: required[uint32](f, "outgoing-window"),
			HandleMax:      field[uint32](f, "handle-max", math.MaxUint32),
		}
	case descAttach:
		f.of = "attach"
		p = newAttach(f)
	case descFlow:
		f.of = "flow"
		p = flow{
			NextIncomingID: pointer[uint32](f, "next-incoming-id"),
			IncomingWindow: required[uint32](f, "incoming-window"),
			NextOutgoingID: required[uint32](f, "next-outgoing-id"),
			OutgoingWindow: required[uint32](f, "outgoing-window"),
			Handle:         pointer[uint32](f, "handle"),
			DeliveryCount:  pointer[uint32](f, "delivery-count"),
			LinkCredit:     pointer[uint32](f, "link-credit"),
			Available:      pointer[uint32](f, "available"),
			Drain:          optional[bool](f, "drain"),
			Echo:           optional[bool](f, "echo"),
		}
	case descTransfer:
		f.of = "transfer"
		p = newTransfer(f)
	case descDisposition:
		f.of = "disposition"
		p = disposition{
			Role:    Role(required[bool](f, "role")),
			First:   required[uint32](f, "first"),
			Last:    pointer[uint32](f, "last"),
			Settled: optional[bool](f, "settled"),
			State:   newState(f, f.any()),
		}
	case descDetach:
		f.of = "detach"
		p = detach{
			Handle: required[uint32](f, "handle"),
			Closed: optional[bool](f, "closed"),
			Error:  newError(f, f.any()),
		}
	case descEnd:
		f.of = "end"
		p = end{Error: newError(f, f.any())}
	case descClose:
		f.of = "close"
		p = closing{Error: newError(f, f.any())}
	default:
		return nil, fmt.Errorf("amqp: decode: 0x%02x is no performative", code)
	}
	return p, f.err
}

func newAttach(f *fields) Attach {
	a := Attach{
		Name:          required[string](f, "name"),
		handle:        required[uint32](f, "handle"),
		Role:          Role(required[bool](f, "role")),
		SndSettleMode: field(f, "snd-settle-mode", senderMixed),
		RcvSettleMode: field(f, "rcv-settle-mode", receiverFirst),
		Source:        newSource(f, f.any()),
		Target:        newTarget(f, f.any()),
	}
	f.skip(2) // unsettled, incomplete-unsettled: links are not resumed
	a.initialDeliveryCount = pointer[uint32](f, "initial-delivery-count")
	a.MaxMessageSize = optional[uint64](f, "max-message-size")
	f.skip(2) // offered-capabilities, desired-capabilities
	a.Properties = optional[Map](f, "properties")
	if a.Role == RoleSender && a.initialDeliveryCount == nil {
		f.fail("initial-delivery-count", "is missing")
	}
	if a.SndSettleMode > senderMixed || a.RcvSettleMode > ReceiverSecond {
		f.fail("settle mode", "is not defined")
	}
	return a
}

func newTransfer(f *fields) transfer {
	t := transfer{
		Handle:        required[uint32](f, "handle"),
		DeliveryID:    pointer[uint32](f, "delivery-id"),
		DeliveryTag:   optional[[]byte](f, "delivery-tag"),
		MessageFormat: pointer[uint32](f, "message-format"),
		Settled:       pointer[bool](f, "settled"),
		More:          optional[bool](f, "more"),
	}
	f.skip(3) // rcv-settle-mode, state, resume: deliveries are not resumed
	t.Aborted = optional[bool](f, "aborted")
	return t
}
