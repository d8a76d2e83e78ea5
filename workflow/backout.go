package workflow

// backOut decides where an order that cannot go forward goes next, and marks
// and returns the undo or the word to the customer that has to be sent, if any.
// Everything that happened is undone, the last first; what only a person can
// judge is left to a person.
func backOut(o *Order) (Status, MessageType) {
	if o.holds(Shipment) { // the goods left: nothing can be undone by sending
		if o.holds(Goods) && o.holds(Money) && o.count(CancelOrder) == 0 {
			return Completed, ""
		}
		return NeedsAttention, ""
	}
	last := o.lastStanding()
	if last == nil {
		if o.count(CancelOrder) == 0 {
			return Cancelled, CancelOrder
		}
		return Cancelled, ""
	}
	switch last.State {
	case EffectHeld:
		last.State = EffectWaiting
		return Compensating, undoOf(last.Kind)
	case EffectWaiting:
		return Compensating, ""
	case EffectOverdue, EffectFailed, EffectUndone:
	}
	return NeedsAttention, ""
}

// lastStanding is the last effect that is not undone, or nil.
func (o *Order) lastStanding() *Effect {
	for i := len(o.Effects) - 1; i >= 0; i-- {
		if o.Effects[i].State != EffectUndone {
			return &o.Effects[i]
		}
	}
	return nil
}

// stuckOn is what a person has to decide about: the shipment if the goods left,
// else the last effect not undone. Nil when everything is undone.
func (o *Order) stuckOn() *Effect {
	if o.holds(Shipment) {
		return o.effect(Shipment)
	}
	return o.lastStanding()
}

// undoOf is the command that gives an effect back. A shipment has none.
func undoOf(kind EffectKind) MessageType {
	switch kind {
	case Goods:
		return ReleaseInventory
	case Money:
		return RefundPayment
	case Shipment:
	}
	return ""
}
