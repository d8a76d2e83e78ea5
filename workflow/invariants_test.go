package workflow_test

import (
	"fmt"
	"slices"
	"strings"

	"orderflow/workflow"
)

// state is an order with what is held for it and, for the invariants that ask
// for it, whether a person ever said that the order is fulfilled.
type state struct {
	order workflow.Order
	held  []workflow.Message
	word  bool
}

// move is one decision: the order before it and after it.
type move struct {
	from, to workflow.Order
	decision workflow.Decision
}

// invariant is one numbered sentence of docs/process.md. One of the two
// functions may be missing: what holds of a state, and what holds of a move.
type invariant struct {
	number   int
	sentence string
	ofState  func(state) error
	ofMove   func(move) error
}

var invariants = []invariant{
	{1, "Forward commands and CancelOrder are sent at most once; once backing out began no forward command is sent or awaited.", sentOnce, noWayForward},
	{2, "An undo is sent only for the last effect not undone, never when goods left or may have left; ordinal n+1 only by Retry after attempt n was reported failed.", nil, undoneWithCare},
	{3, "Cancelled: every known effect undone. Completed without a person's word: goods, money, shipment held.", endsAreTrue, nil},
	{4, "Shipped and refunded is NeedsAttention until a person resolves it.", shippedAndRefunded, nil},
	{5, "A reported reservation, payment or shipment is recorded, held early, or a visible conflict.", nil, reportsAreKept},
	{6, "Every waiting status has its own deadline armed; NeedsAttention and the ends have none.", waitsAreBounded, nil},
	{7, "An end is reachable from everywhere; in silence, deadlines alone lead to an end or to NeedsAttention, and a person from there to either end.", endsAreNear, nil},
	{8, "No held message would be acceptable.", nothingHeldIsDue, nil},
	{9, "Ordinals and generations rise by one: every ID is new. What is not applied changes nothing.", nil, everyIDIsNew},
}

func checkState(s state) error {
	for _, inv := range invariants {
		if inv.ofState == nil {
			continue
		}
		if err := inv.ofState(s); err != nil {
			return fmt.Errorf("invariant %d (%s): %w", inv.number, inv.sentence, err)
		}
	}
	return nil
}

func checkMove(m move) error {
	for _, inv := range invariants {
		if inv.ofMove == nil {
			continue
		}
		if err := inv.ofMove(m); err != nil {
			return fmt.Errorf("invariant %d (%s): %w", inv.number, inv.sentence, err)
		}
	}
	return nil
}

var forward = []workflow.MessageType{workflow.ReserveInventory, workflow.CapturePayment, workflow.ShipOrder}

// stepNames are the names of the commands inside IDs and in Order.Counts.
var stepNames = map[workflow.MessageType]string{
	workflow.ReserveInventory: "reserve-inventory", workflow.CapturePayment: "capture-payment",
	workflow.ShipOrder: "ship-order", workflow.RefundPayment: "refund-payment",
	workflow.ReleaseInventory: "release-inventory", workflow.CancelOrder: "cancel-order",
}

func times(o workflow.Order, t workflow.MessageType) int { return o.Counts[stepNames[t]] }

func backingOut(o workflow.Order) bool {
	return o.Status == workflow.Compensating || o.Status == workflow.Cancelled ||
		times(o, workflow.RefundPayment)+times(o, workflow.ReleaseInventory)+times(o, workflow.CancelOrder) > 0
}

func effectOf(o workflow.Order, kind workflow.EffectKind) (workflow.Effect, bool) {
	for _, e := range o.Effects {
		if e.Kind == kind {
			return e, true
		}
	}
	return workflow.Effect{}, false
}

func isIn(o workflow.Order, kind workflow.EffectKind, states ...workflow.EffectState) bool {
	e, known := effectOf(o, kind)
	return known && slices.Contains(states, e.State)
}

func sentOnce(s state) error {
	for _, t := range append([]workflow.MessageType{workflow.CancelOrder}, forward...) {
		if n := times(s.order, t); n > 1 {
			return fmt.Errorf("%s was sent %d times", t, n)
		}
	}
	if !backingOut(s.order) {
		return nil
	}
	for _, t := range forward {
		if s.order.Awaits(workflow.CommandID(s.order.ID, t, 1)) {
			return fmt.Errorf("%s is awaited", t)
		}
	}
	return nil
}

func noWayForward(m move) error {
	if c := m.decision.Command; c != nil && backingOut(m.from) && slices.Contains(forward, c.Type) {
		return fmt.Errorf("%s was sent", c.Type)
	}
	return nil
}

var undoes = map[workflow.MessageType]workflow.EffectKind{
	workflow.RefundPayment: workflow.Money, workflow.ReleaseInventory: workflow.Goods,
}

func undoneWithCare(m move) error {
	for command, kind := range undoes {
		was, _ := effectOf(m.from, kind)
		is, _ := effectOf(m.to, kind)
		if was.State != workflow.EffectFailed && is.State == workflow.EffectFailed &&
			m.decision.Message.Facts.CommandID != workflow.CommandID(m.from.ID, command, times(m.from, command)) {
			return fmt.Errorf("%s failed, it is said, because of another attempt than the latest", command)
		}
		sent := m.decision.Command
		if sent == nil || sent.Type != command {
			continue
		}
		last := workflow.Effect{}
		for _, e := range m.to.Effects {
			if e.State != workflow.EffectUndone {
				last = e
			}
		}
		switch {
		case last.Kind != kind || last.State != workflow.EffectWaiting:
			return fmt.Errorf("%s was sent, but the last effect not undone is %+v", command, last)
		case isIn(m.to, workflow.Shipment, workflow.EffectHeld, workflow.EffectWaiting, workflow.EffectOverdue):
			return fmt.Errorf("%s was sent although the goods left or may have left", command)
		case times(m.from, command) > 0 && (m.decision.Message.Type != workflow.Retry || was.State != workflow.EffectFailed):
			return fmt.Errorf("%s was sent again by %s while its effect was %s", command, m.decision.Message.Type, was.State)
		}
	}
	return nil
}

func endsAreTrue(s state) error {
	if s.order.Status == workflow.Cancelled {
		for _, e := range s.order.Effects {
			if e.State != workflow.EffectUndone {
				return fmt.Errorf("cancelled with %s %s", e.Kind, e.State)
			}
		}
	}
	if s.order.Status == workflow.Completed && !s.word {
		for _, kind := range []workflow.EffectKind{workflow.Goods, workflow.Money, workflow.Shipment} {
			if !isIn(s.order, kind, workflow.EffectHeld) {
				return fmt.Errorf("completed without %s", kind)
			}
		}
	}
	return nil
}

func shippedAndRefunded(s state) error {
	if !isIn(s.order, workflow.Shipment, workflow.EffectHeld) || !isIn(s.order, workflow.Money, workflow.EffectUndone) {
		return nil
	}
	if s.order.Status != workflow.NeedsAttention && !s.word {
		return fmt.Errorf("it is %s", s.order.Status)
	}
	return nil
}

// reported says which effect a message reports, and its name.
func reported(m workflow.Message) (workflow.EffectKind, string) {
	switch m.Type {
	case workflow.InventoryReserved:
		return workflow.Goods, m.Facts.ReservationID
	case workflow.PaymentCaptured:
		return workflow.Money, m.Facts.PaymentID
	case workflow.ShipmentConfirmed:
		return workflow.Shipment, m.Facts.ShipmentID
	default:
		return "", ""
	}
}

func reportsAreKept(m move) error {
	kind, ref := reported(m.decision.Message)
	if kind == "" {
		return nil
	}
	e, _ := effectOf(m.to, kind)
	switch m.decision.Outcome {
	case workflow.Held:
		return nil
	case workflow.Applied, workflow.Stale:
		if e.Ref == ref {
			return nil
		}
	case workflow.Rejected:
		if e.Ref != ref && strings.HasPrefix(m.decision.Reason, "conflict") && strings.Contains(m.decision.Reason, e.Ref) {
			return nil
		}
	case workflow.Duplicate, workflow.Blocked, workflow.Skipped, workflow.Failed:
	}
	return fmt.Errorf("%s of %s is %s (%s) and the order knows %q", m.decision.Message.Type, ref, m.decision.Outcome, m.decision.Reason, e.Ref)
}

func waitsAreBounded(s state) error {
	want := ""
	if purpose := purposes[s.order.Status]; purpose != "" {
		want = workflow.DeadlineID(s.order.ID, purpose, s.order.Counts[string(purpose)])
	}
	if s.order.Armed != want {
		return fmt.Errorf("%s has %q armed, not %q", s.order.Status, s.order.Armed, want)
	}
	return nil
}

func endsAreNear(s state) error {
	quiet := s
	if quiet.order.Status == workflow.NotStarted {
		quiet = after(quiet, placed())
	}
	quiet = silence(quiet)
	switch quiet.order.Status {
	case workflow.Completed, workflow.Cancelled:
		return nil
	case workflow.NeedsAttention:
	default:
		return fmt.Errorf("in silence it stays %s", quiet.order.Status)
	}
	if done := after(quiet, resolveCompleted); done.order.Status != workflow.Completed {
		return fmt.Errorf("a person cannot complete it: it is %s", done.order.Status)
	}
	for range 4 {
		if quiet = silence(after(quiet, resolveCancelled)); quiet.order.Status == workflow.Cancelled {
			return nil
		}
	}
	return fmt.Errorf("a person cannot cancel it: it stays %s", quiet.order.Status)
}

// silence lets one deadline after the other pass, and nothing else happen.
func silence(s state) state {
	for range 4 {
		if s.order.Armed == "" {
			return s
		}
		s = after(s, expired(short(s.order.Armed)))
	}
	return s
}

func after(s state, say saying) state {
	r := workflow.Apply(s.order, say.straight(s.order, fmt.Sprintf("then-%d", s.order.Version)), s.held)
	return state{order: r.Order, held: remaining(s.held, r)}
}

func nothingHeldIsDue(s state) error {
	for _, m := range s.held {
		if r := workflow.Apply(s.order, m, nil); r.Decisions[0].Outcome != workflow.Held {
			return fmt.Errorf("%s is held and would be %s", m.Type, r.Decisions[0].Outcome)
		}
	}
	return nil
}

func everyIDIsNew(m move) error {
	d := m.decision
	if d.Outcome != workflow.Applied {
		if !sameOrder(m.from, m.to) || d.Command != nil || d.Deadline != nil || d.From != d.To {
			return fmt.Errorf("%s was %s and changed something", d.Message.Type, d.Outcome)
		}
		return nil
	}
	if m.to.Version != m.from.Version+1 {
		return fmt.Errorf("version %d became %d", m.from.Version, m.to.Version)
	}
	names := map[string]bool{}
	if c := d.Command; c != nil {
		names[stepNames[c.Type]] = true
		if c.ID != workflow.CommandID(m.from.ID, c.Type, times(m.from, c.Type)+1) {
			return fmt.Errorf("%s after %d of its kind", c.ID, times(m.from, c.Type))
		}
	}
	if a := d.Deadline; a != nil {
		names[string(a.Purpose)] = true
		if a.ID != workflow.DeadlineID(m.from.ID, a.Purpose, m.from.Counts[string(a.Purpose)]+1) {
			return fmt.Errorf("%s after generation %d", a.ID, m.from.Counts[string(a.Purpose)])
		}
	}
	for name, n := range m.to.Counts {
		want := m.from.Counts[name]
		if names[name] {
			want++
		}
		if n != want {
			return fmt.Errorf("the count of %s is %d, not %d", name, n, want)
		}
	}
	return nil
}

// sameOrder is equality of all that is known; nil and empty lists are equal.
func sameOrder(a, b workflow.Order) bool {
	if len(a.Counts) != len(b.Counts) {
		return false
	}
	for name, n := range a.Counts {
		if b.Counts[name] != n {
			return false
		}
	}
	return a.ID == b.ID && a.Status == b.Status && a.Version == b.Version &&
		a.Conversation == b.Conversation && a.Origin == b.Origin &&
		a.CustomerID == b.CustomerID && a.Currency == b.Currency && a.Amount == b.Amount &&
		slices.Equal(a.Lines, b.Lines) && slices.Equal(a.Effects, b.Effects) &&
		a.Armed == b.Armed && a.Problem == b.Problem && a.Because == b.Because
}
