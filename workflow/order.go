package workflow

import (
	"maps"
	"slices"
)

// Order is all that is known of one order, as far as decisions need it. The
// zero value with an ID is an order that has not started. It is stored as JSON;
// its fields may be added to, never renamed.
type Order struct {
	ID      string `json:"-"`
	Status  Status `json:"-"`
	Version int64  `json:"-"` // counts applied messages

	// Conversation and Origin are copied unchanged to every message sent.
	Conversation string `json:"conversation,omitempty"`
	Origin       string `json:"origin,omitempty"`

	CustomerID string `json:"customerId,omitempty"`
	Currency   string `json:"currency,omitempty"`
	Amount     int64  `json:"amount,omitempty"`
	Lines      []Line `json:"lines,omitempty"`

	// Effects are in the order in which they became known, at most one of a
	// kind.
	Effects []Effect `json:"effects,omitempty"`
	// Counts holds, by step and purpose, the last ordinal or generation used.
	Counts map[string]int `json:"counts,omitempty"`
	// Armed is the ID of the deadline that bounds the present wait, empty when
	// none does.
	Armed string `json:"armed,omitempty"`
	// Problem is what went wrong with sending a command that is still awaited.
	Problem string `json:"problem,omitempty"`
	// Because is why the order was first turned back.
	Because string `json:"because,omitempty"`
}

// EffectKind is one of the three things an order brings about elsewhere.
type EffectKind string

// The effects of an order.
const (
	Goods    EffectKind = "goods"
	Money    EffectKind = "money"
	Shipment EffectKind = "shipment"
)

// EffectState says how an effect stands.
type EffectState string

// The states of an effect.
const (
	// EffectHeld: it happened and stands.
	EffectHeld EffectState = "held"
	// EffectWaiting: an answer about its undo, or about the shipment itself, is
	// awaited.
	EffectWaiting EffectState = "waiting"
	// EffectOverdue: no answer came in time.
	EffectOverdue EffectState = "overdue"
	// EffectFailed: the undo was answered with a failure.
	EffectFailed EffectState = "failed"
	// EffectUndone: released, refunded, never left, or settled by hand.
	EffectUndone EffectState = "undone"
)

// Effect is something another service did for an order.
type Effect struct {
	Kind  EffectKind  `json:"kind"`
	State EffectState `json:"state"`
	// Ref is the service's own name for it: reservationId, paymentId or
	// shipmentId. Empty while unknown.
	Ref string `json:"ref,omitempty"`
	// Undo is what settled it once it is undone: a refundId, the reservationId
	// released, or byHand and the operator's action.
	Undo string `json:"undo,omitempty"`
	// Failure is the reason given when its undo failed.
	Failure string `json:"failure,omitempty"`
}

// byHand begins a reference that a person gave by settling an effect.
const byHand = "by hand: "

// effect is the order's effect of a kind, or nil. It points into the order.
func (o *Order) effect(kind EffectKind) *Effect {
	for i := range o.Effects {
		if o.Effects[i].Kind == kind {
			return &o.Effects[i]
		}
	}
	return nil
}

// record adds an effect, or finds the one that is there already.
func (o *Order) record(kind EffectKind) *Effect {
	if e := o.effect(kind); e != nil {
		return e
	}
	o.Effects = append(o.Effects, Effect{Kind: kind})
	return &o.Effects[len(o.Effects)-1]
}

func (o *Order) holds(kind EffectKind) bool {
	e := o.effect(kind)
	return e != nil && e.State == EffectHeld
}

// count is the last ordinal of a command that was sent, 0 for none.
func (o *Order) count(command MessageType) int { return o.Counts[step(command)] }

// clone is a copy that can be changed without touching the original.
func (o *Order) clone() Order {
	c := *o
	c.Effects = slices.Clone(o.Effects)
	c.Counts = maps.Clone(o.Counts)
	if c.Counts == nil {
		c.Counts = make(map[string]int, 8)
	}
	return c
}

// Awaited lists the IDs of the commands whose answer the order still wants, in
// the order in which they were sent. Only these may be sent again.
func (o *Order) Awaited() []string {
	var ids []string
	await := func(command MessageType) {
		if n := o.count(command); n > 0 {
			ids = append(ids, CommandID(o.ID, command, n))
		}
	}
	if o.Status == AwaitingInventory {
		await(ReserveInventory)
	}
	if o.Status == AwaitingPayment {
		await(CapturePayment)
	}
	for _, e := range o.Effects {
		if e.State == EffectWaiting || e.State == EffectOverdue {
			await(answered(e.Kind))
		}
	}
	await(CancelOrder)
	return ids
}

// Awaits reports whether the answer to a command is still wanted.
func (o *Order) Awaits(commandID string) bool { return slices.Contains(o.Awaited(), commandID) }

// answered is the command that an effect which is waiting or overdue waits for:
// the one that makes a shipment, or undoes the others.
func answered(kind EffectKind) MessageType {
	if kind == Shipment {
		return ShipOrder
	}
	return undoOf(kind)
}
