package workflow_test

import (
	"fmt"
	"slices"
	"strings"

	"orderflow/workflow"
	"orderflow/workflow/invariants"
)

// The small world in which every state is visited: one order, and services
// that answer what they were asked never, once or twice, in any order, truly or
// not. Time is left out: a deadline may pass whenever it is armed.
//
// Three things keep it small without leaving anything out.
//   - Deadline generations and the version number are not part of a state:
//     they decide only whether an ID or version is the present one, and the
//     events name present ones and old ones.
//   - What changes nothing leads nowhere: an answer that is stale or refused
//     leaves the world as if it had not been given, which the bounds allow.
//   - While a reference is unknown, the first to come is called the first.

// bounds limit what may happen.
type bounds struct {
	answers int // that each command may get
	retries int
	unasked int // answers to nothing that was sent
}

// What an event uses up. A command's answers are counted by command, undos by
// attempt.
const (
	free      = -1
	reserve   = 0
	capture   = 1
	ship      = 2
	refund    = 3 // to 5, by attempt
	release   = 6 // to 8
	cancel    = 9
	retrying  = 10
	unasked   = 11
	slots     = 12
	attempts  = 3 // of an undo, at most, in any bounds
	slotWidth = 2 // bits
)

// event is something that may happen to an order now.
type event struct {
	say  saying
	uses int
}

// events lists what may happen to an order, bounds aside.
func events(s invariants.State) []event {
	o := s.Order
	list := []event{{placed(), free}, {cancelled, cancel}}
	add := func(uses int, sayings ...saying) {
		for _, say := range sayings {
			list = append(list, event{say, uses})
		}
	}
	if o.Status != workflow.NotStarted {
		add(free, placedFor(500))
	}

	// Answers to what was sent.
	if invariants.Sent(o, workflow.ReserveInventory) > 0 {
		add(reserve, reserved("res-1"), notReserved)
		if heard(s, workflow.Goods) {
			add(reserve, reserved("res-2"))
		}
	}
	if invariants.Sent(o, workflow.CapturePayment) > 0 {
		add(capture, captured("pay-1"), notPaid)
		if heard(s, workflow.Money) {
			add(capture, captured("pay-2"))
		}
	}
	if invariants.Sent(o, workflow.ShipOrder) > 0 {
		add(ship, shipped("ship-1"), notShipped)
		if heard(s, workflow.Shipment) {
			add(ship, shipped("ship-2"))
		}
	}
	for n := 1; n <= invariants.Sent(o, workflow.RefundPayment); n++ {
		add(refund+n-1, refunded("pay-1", "ref-1"), refunded("pay-1", "ref-2"), refunded("pay-2", "ref-1"),
			refundFailed("pay-1", n), refundFailed("pay-2", n))
	}
	for n := 1; n <= invariants.Sent(o, workflow.ReleaseInventory); n++ {
		add(release+n-1, released("res-1"), released("res-2"), releaseFailed("res-1", n), releaseFailed("res-2", n))
	}

	// Answers to nothing.
	add(unasked, reserved("res-1"), notReserved, captured("pay-1"), notPaid, shipped("ship-1"), notShipped,
		refunded("pay-1", "ref-1"), refundFailed("pay-1", 1), refundFailed("pay-1", invariants.Sent(o, workflow.RefundPayment)+1),
		released("res-1"), releaseFailed("res-1", 1), releaseFailed("res-1", invariants.Sent(o, workflow.ReleaseInventory)+1))

	// Deadlines: the armed one, due or not; each of an older generation; the
	// armed one's ID under each other type.
	for _, purpose := range []workflow.Purpose{
		workflow.InventoryTimeout, workflow.PaymentTimeout, workflow.ShipmentTimeout, workflow.CompensationTimeout,
	} {
		add(free, expired(fmt.Sprintf("%s:%d", purpose, o.Counts[string(purpose)]-1)))
		if o.Armed == "" {
			add(free, expired(fmt.Sprintf("%s:%d", purpose, max(1, o.Counts[string(purpose)]))))
			continue
		}
		under := expired(string(purpose) + ":1")
		under.of = expired(short(o.Armed)).of
		add(free, under)
		under.early = true
		add(free, under)
	}

	// Dead commands, sent or not.
	for t, name := range invariants.Steps {
		for n := 1; n <= max(1, invariants.Sent(o, t)); n++ {
			add(free, dead(fmt.Sprintf("%s:%d", name, n)))
		}
	}

	// People.
	add(retrying, retry)
	add(free, resolveCancelled, resolveCompleted)
	if o.Version > 0 {
		add(free, actedLate(workflow.Retry, 1), actedLate(workflow.ResolveCancelled, 1), actedLate(workflow.ResolveCompleted, 1))
	}
	return list
}

// heard says whether a first reference of a kind was reported, taken or held.
func heard(s invariants.State, kind workflow.EffectKind) bool {
	if e, known := invariants.Effect(s.Order, kind); known && e.Ref != "" {
		return true
	}
	return slices.ContainsFunc(s.Held, func(m workflow.Message) bool {
		k, _ := invariants.Reported(m)
		return k == kind
	})
}

// key is equal for states between which nothing that follows can tell.
func key(s invariants.State) string {
	var b strings.Builder
	o := s.Order
	fmt.Fprintf(&b, "%s %t %t|", o.Status, s.Word, o.Problem != "")
	b.WriteString(standing(o))
	for _, t := range []workflow.MessageType{
		workflow.ReserveInventory, workflow.CapturePayment, workflow.ShipOrder,
		workflow.RefundPayment, workflow.ReleaseInventory, workflow.CancelOrder,
	} {
		fmt.Fprintf(&b, "|%d", invariants.Sent(o, t))
	}
	for _, m := range s.Held {
		fmt.Fprintf(&b, "|%s %s%s%s", m.Type, m.Facts.ReservationID, m.Facts.PaymentID, m.Facts.ShipmentID)
	}
	return b.String()
}
