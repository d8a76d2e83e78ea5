package workflow

import (
	"fmt"
	"slices"
)

// rules hold in every status and come before the table, in this order. A rule
// that has nothing to say returns the empty outcome. The numbers are those of
// docs/process.md.
//
//nolint:gochecknoglobals // read-only: part of the process
var rules = []func(*Order, *Message) (Outcome, string){
	deadlines,        // 1
	deadCommands,     // 2
	placedAgain,      // 3
	knownReference,   // 4
	shipmentFailed,   // 5
	answersToAnUndo,  // 6
	operatorsActions, // 7
}

// deadlines is rule 1: only the armed deadline counts, and not before it is due
// by database time.
func deadlines(o *Order, m *Message) (Outcome, string) {
	purpose, is := purposeOf(m.Type)
	if !is {
		return "", ""
	}
	armed := table[o.Status].row.Deadline
	if purpose != armed || o.Armed == "" || m.Facts.TimeoutID != o.Armed {
		return Stale, fmt.Sprintf("deadline %s is not armed", quote(m.Facts.TimeoutID))
	}
	if m.NotDue {
		return Applied, "" // take arms it again
	}
	return "", ""
}

// deadCommands is rule 2: a command that nobody waits for may die unnoticed.
func deadCommands(o *Order, m *Message) (Outcome, string) {
	if m.Type == DispatchFailed && !o.Awaits(m.Facts.CommandID) {
		return Stale, fmt.Sprintf("command %s is not awaited", quote(m.Facts.CommandID))
	}
	return "", ""
}

// placedAgain is rule 3: an order starts once.
func placedAgain(o *Order, m *Message) (Outcome, string) {
	if m.Type != OrderPlaced || o.Status == NotStarted {
		return "", ""
	}
	f := &m.Facts
	switch {
	case f.CustomerID != o.CustomerID:
		return conflict("customerId", o.CustomerID, f.CustomerID)
	case f.Currency != o.Currency:
		return conflict("currency", o.Currency, f.Currency)
	case f.Amount != o.Amount:
		return conflict("amount", fmt.Sprint(o.Amount), fmt.Sprint(f.Amount))
	case !slices.Equal(f.Lines, o.Lines):
		return conflict("lines", fmt.Sprint(o.Lines), fmt.Sprint(f.Lines))
	}
	return Stale, "the order was placed before, with the same content"
}

// knownReference is rule 4: a reservation, payment or shipment has one name.
func knownReference(o *Order, m *Message) (Outcome, string) {
	says, ok := reports[m.Type]
	if !ok || says.State != EffectHeld {
		return "", ""
	}
	e := o.effect(says.Effect)
	if e == nil || e.Ref == "" {
		return "", ""
	}
	if ref := m.Facts.ref(says.Effect); ref != e.Ref {
		return conflict(string(says.Effect), e.Ref, ref)
	}
	return Stale, fmt.Sprintf("%s %s is known already", says.Effect, quote(e.Ref))
}

// shipmentFailed is rule 5: goods that left cannot have stayed.
func shipmentFailed(o *Order, m *Message) (Outcome, string) {
	if m.Type != ShipmentFailed {
		return "", ""
	}
	e := o.effect(Shipment)
	switch {
	case e == nil:
		return "", ""
	case e.State == EffectHeld:
		return Rejected, fmt.Sprintf("conflict: shipment %s was confirmed, now it is said to have failed", quote(e.Ref))
	case e.State == EffectUndone:
		return Stale, "the shipment is known to have failed"
	}
	return "", ""
}

// answersToAnUndo is rule 6: an answer needs a question.
func answersToAnUndo(o *Order, m *Message) (Outcome, string) {
	says, ok := reports[m.Type]
	if !ok || says.State == EffectHeld || says.Effect == Shipment {
		return "", ""
	}
	e := o.effect(says.Effect)
	if e == nil || e.State == EffectHeld {
		return Rejected, fmt.Sprintf("nobody asked to give the %s back", says.Effect)
	}
	if ref := m.Facts.ref(says.Effect); ref != e.Ref {
		return conflict(string(says.Effect), e.Ref, ref)
	}
	if says.State == EffectUndone {
		if e.State != EffectUndone {
			return "", ""
		}
		if ref := m.Facts.undoRef(says.Effect); ref != e.Undo {
			return conflict("the return of the "+string(says.Effect), e.Undo, ref)
		}
		return Stale, fmt.Sprintf("the %s is known to be given back", says.Effect)
	}
	undo := undoOf(says.Effect)
	latest := o.count(undo)
	switch attempt := attemptOf(o, undo, m.Facts.CommandID); {
	case e.State == EffectUndone, e.State == EffectFailed:
		return Stale, fmt.Sprintf("the %s is %s already", says.Effect, e.State)
	case attempt == 0: // believed, it would allow a second undo beside the one in flight
		return Rejected, fmt.Sprintf("nobody sent a command %s", quote(m.Facts.CommandID))
	case attempt < latest:
		return Stale, fmt.Sprintf("attempt %d was followed by attempt %d", attempt, latest)
	}
	return "", ""
}

// attemptOf is which attempt of a command an ID names, 0 for none that was sent.
func attemptOf(o *Order, command MessageType, id string) int {
	for n := o.count(command); n > 0; n-- {
		if CommandID(o.ID, command, n) == id {
			return n
		}
	}
	return 0
}

// operatorsActions is rule 7: a person decides about the order that was seen.
func operatorsActions(o *Order, m *Message) (Outcome, string) {
	if !m.Type.Action() {
		return "", ""
	}
	if m.Facts.Version != o.Version {
		return Rejected, fmt.Sprintf("the order was seen at version %d and is at version %d now", m.Facts.Version, o.Version)
	}
	if m.Type != Retry || o.Status != NeedsAttention {
		return "", ""
	}
	if e := o.stuckOn(); e == nil || e.State != EffectFailed {
		return Rejected, "nothing failed that could be tried again: send the unanswered command again, or resolve the order"
	}
	return "", ""
}

// conflict is a refusal that names what is recorded.
func conflict(what, recorded, said string) (Outcome, string) {
	return Rejected, fmt.Sprintf("conflict: %s is recorded as %s, the message says %s", what, quote(recorded), quote(said))
}

// purposeOf is the deadline whose expiry a type announces.
func purposeOf(t MessageType) (Purpose, bool) {
	switch t {
	case InventoryDeadlineExpired:
		return InventoryTimeout, true
	case PaymentDeadlineExpired:
		return PaymentTimeout, true
	case ShipmentDeadlineExpired:
		return ShipmentTimeout, true
	case CompensationDeadlineExpired:
		return CompensationTimeout, true
	default:
		return "", false
	}
}
