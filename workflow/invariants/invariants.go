// Package invariants holds the nine sentences of docs/process.md that are true
// of every order in every state, for all tests that look at orders: the walk
// over every state, the random ones, and the proof that a database of orders is
// sound. They are written without the code they are about: what a command is
// called and which deadline a status has is said here once more.
package invariants

import (
	"fmt"
	"slices"
	"strings"

	"orderflow/workflow"
)

// State is an order with what is held for it and, for the invariants that ask
// for it, whether a person ever said that the order is fulfilled.
type State struct {
	Order workflow.Order
	Held  []workflow.Message
	Word  bool
}

// After is the state that a result leaves.
func (s State) After(r workflow.Result) State {
	decided := make(map[string]bool, len(r.Decisions))
	next := State{Order: r.Order, Word: s.Word}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		decided[d.Message.ID] = i > 0
		next.Word = next.Word || d.Message.Type == workflow.ResolveCompleted && d.Outcome == workflow.Applied
	}
	for _, m := range s.Held {
		if !decided[m.ID] {
			next.Held = append(next.Held, m)
		}
	}
	if first := &r.Decisions[0]; first.Outcome == workflow.Held {
		next.Held = append(next.Held, first.Message)
	}
	return next
}

// Move is one decision: the order before it and after it.
type Move struct {
	From, To workflow.Order
	Decision workflow.Decision
}

// invariant is one numbered sentence of docs/process.md. One of the two
// functions may be missing: what holds of a state, and what holds of a move.
type invariant struct {
	number   int
	sentence string
	ofState  func(State) error
	ofMove   func(Move) error
}

var all = []invariant{
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

// Check says which invariant a state breaks; nil for none.
func (s State) Check() error {
	for _, inv := range all {
		if inv.ofState == nil {
			continue
		}
		if err := inv.ofState(s); err != nil {
			return fmt.Errorf("invariant %d (%s): %w", inv.number, inv.sentence, err)
		}
	}
	return nil
}

// Check says which invariant a move breaks; nil for none.
func (m Move) Check() error {
	for _, inv := range all {
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

// Steps are the names of the commands inside IDs and in Order.Counts.
var Steps = map[workflow.MessageType]string{
	workflow.ReserveInventory: "reserve-inventory", workflow.CapturePayment: "capture-payment",
	workflow.ShipOrder: "ship-order", workflow.RefundPayment: "refund-payment",
	workflow.ReleaseInventory: "release-inventory", workflow.CancelOrder: "cancel-order",
}

// Sent is how many commands of a type an order has sent.
func Sent(o workflow.Order, t workflow.MessageType) int { return o.Counts[Steps[t]] }

func backingOut(o workflow.Order) bool {
	return o.Status == workflow.Compensating || o.Status == workflow.Cancelled ||
		Sent(o, workflow.RefundPayment)+Sent(o, workflow.ReleaseInventory)+Sent(o, workflow.CancelOrder) > 0
}

// Effect is an order's effect of a kind, if it has one.
func Effect(o workflow.Order, kind workflow.EffectKind) (workflow.Effect, bool) {
	for _, e := range o.Effects {
		if e.Kind == kind {
			return e, true
		}
	}
	return workflow.Effect{}, false
}

func isIn(o workflow.Order, kind workflow.EffectKind, states ...workflow.EffectState) bool {
	e, known := Effect(o, kind)
	return known && slices.Contains(states, e.State)
}

func sentOnce(s State) error {
	for _, t := range append([]workflow.MessageType{workflow.CancelOrder}, forward...) {
		if n := Sent(s.Order, t); n > 1 {
			return fmt.Errorf("%s was sent %d times", t, n)
		}
	}
	if !backingOut(s.Order) {
		return nil
	}
	for _, t := range forward {
		if s.Order.Awaits(workflow.CommandID(s.Order.ID, t, 1)) {
			return fmt.Errorf("%s is awaited", t)
		}
	}
	return nil
}

func noWayForward(m Move) error {
	if c := m.Decision.Command; c != nil && backingOut(m.From) && slices.Contains(forward, c.Type) {
		return fmt.Errorf("%s was sent", c.Type)
	}
	return nil
}

var undoes = map[workflow.MessageType]workflow.EffectKind{
	workflow.RefundPayment: workflow.Money, workflow.ReleaseInventory: workflow.Goods,
}

func undoneWithCare(m Move) error {
	for command, kind := range undoes {
		was, _ := Effect(m.From, kind)
		is, _ := Effect(m.To, kind)
		if was.State != workflow.EffectFailed && is.State == workflow.EffectFailed &&
			m.Decision.Message.Facts.CommandID != workflow.CommandID(m.From.ID, command, Sent(m.From, command)) {
			return fmt.Errorf("%s failed, it is said, because of another attempt than the latest", command)
		}
		sent := m.Decision.Command
		if sent == nil || sent.Type != command {
			continue
		}
		last := workflow.Effect{}
		for _, e := range m.To.Effects {
			if e.State != workflow.EffectUndone {
				last = e
			}
		}
		switch {
		case last.Kind != kind || last.State != workflow.EffectWaiting:
			return fmt.Errorf("%s was sent, but the last effect not undone is %+v", command, last)
		case isIn(m.To, workflow.Shipment, workflow.EffectHeld, workflow.EffectWaiting, workflow.EffectOverdue):
			return fmt.Errorf("%s was sent although the goods left or may have left", command)
		case Sent(m.From, command) > 0 && (m.Decision.Message.Type != workflow.Retry || was.State != workflow.EffectFailed):
			return fmt.Errorf("%s was sent again by %s while its effect was %s", command, m.Decision.Message.Type, was.State)
		}
	}
	return nil
}

func endsAreTrue(s State) error {
	if s.Order.Status == workflow.Cancelled {
		for _, e := range s.Order.Effects {
			if e.State != workflow.EffectUndone {
				return fmt.Errorf("cancelled with %s %s", e.Kind, e.State)
			}
		}
	}
	if s.Order.Status == workflow.Completed && !s.Word {
		for _, kind := range []workflow.EffectKind{workflow.Goods, workflow.Money, workflow.Shipment} {
			if !isIn(s.Order, kind, workflow.EffectHeld) {
				return fmt.Errorf("completed without %s", kind)
			}
		}
	}
	return nil
}

func shippedAndRefunded(s State) error {
	if !isIn(s.Order, workflow.Shipment, workflow.EffectHeld) || !isIn(s.Order, workflow.Money, workflow.EffectUndone) {
		return nil
	}
	if s.Order.Status != workflow.NeedsAttention && !s.Word {
		return fmt.Errorf("it is %s", s.Order.Status)
	}
	return nil
}

// Reported says which effect a message reports, and its name.
func Reported(m workflow.Message) (workflow.EffectKind, string) {
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

func reportsAreKept(m Move) error {
	kind, ref := Reported(m.Decision.Message)
	if kind == "" {
		return nil
	}
	e, _ := Effect(m.To, kind)
	switch m.Decision.Outcome {
	case workflow.Held:
		return nil
	case workflow.Applied, workflow.Stale:
		if e.Ref == ref {
			return nil
		}
	case workflow.Rejected:
		if e.Ref != ref && strings.HasPrefix(m.Decision.Reason, "conflict") && strings.Contains(m.Decision.Reason, e.Ref) {
			return nil
		}
	case workflow.Duplicate, workflow.Blocked, workflow.Skipped, workflow.Failed:
	}
	return fmt.Errorf("%s of %s is %s (%s) and the order knows %q", m.Decision.Message.Type, ref, m.Decision.Outcome, m.Decision.Reason, e.Ref)
}

// purposes says which deadline each waiting status has.
var purposes = map[workflow.Status]workflow.Purpose{
	workflow.AwaitingInventory: workflow.InventoryTimeout,
	workflow.AwaitingPayment:   workflow.PaymentTimeout,
	workflow.AwaitingShipment:  workflow.ShipmentTimeout,
	workflow.Compensating:      workflow.CompensationTimeout,
}

func waitsAreBounded(s State) error {
	want := ""
	if purpose := purposes[s.Order.Status]; purpose != "" {
		want = workflow.DeadlineID(s.Order.ID, purpose, s.Order.Counts[string(purpose)])
	}
	if s.Order.Armed != want {
		return fmt.Errorf("%s has %q armed, not %q", s.Order.Status, s.Order.Armed, want)
	}
	return nil
}

func endsAreNear(s State) error {
	quiet := s
	if quiet.Order.Status == workflow.NotStarted || quiet.Order.Status == "" {
		quiet = quiet.then(workflow.OrderPlaced, workflow.Facts{
			CustomerID: "c", Currency: "EUR", Amount: 1, Lines: []workflow.Line{{SKU: "s", Quantity: 1}},
		})
	}
	quiet = quiet.silence()
	switch quiet.Order.Status {
	case workflow.Completed, workflow.Cancelled:
		return nil
	case workflow.NeedsAttention:
	default:
		return fmt.Errorf("in silence it stays %s", quiet.Order.Status)
	}
	if done := quiet.resolved(workflow.ResolveCompleted); done.Order.Status != workflow.Completed {
		return fmt.Errorf("a person cannot complete it: it is %s", done.Order.Status)
	}
	for range 4 {
		if quiet = quiet.resolved(workflow.ResolveCancelled).silence(); quiet.Order.Status == workflow.Cancelled {
			return nil
		}
	}
	return fmt.Errorf("a person cannot cancel it: it stays %s", quiet.Order.Status)
}

// silence lets one deadline after the other pass, and nothing else happen.
func (s State) silence() State {
	for range 4 {
		if s.Order.Armed == "" {
			return s
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(s.Order.Armed, s.Order.ID+":"), ":")
		s = s.then(workflow.Purpose(name).Expired(), workflow.Facts{TimeoutID: s.Order.Armed})
	}
	return s
}

func (s State) resolved(how workflow.MessageType) State {
	return s.then(how, workflow.Facts{Version: s.Order.Version, Reason: "asked for by phone"})
}

// then is the state after one more message.
func (s State) then(t workflow.MessageType, f workflow.Facts) State {
	m := workflow.Message{Envelope: workflow.Envelope{ID: fmt.Sprintf("then-%d", s.Order.Version), Type: t, OrderID: s.Order.ID}, Facts: f}
	return s.After(workflow.Apply(s.Order, m, s.Held))
}

func nothingHeldIsDue(s State) error {
	for _, m := range s.Held {
		if r := workflow.Apply(s.Order, m, nil); r.Decisions[0].Outcome != workflow.Held {
			return fmt.Errorf("%s is held and would be %s", m.Type, r.Decisions[0].Outcome)
		}
	}
	return nil
}

func everyIDIsNew(m Move) error {
	d := m.Decision
	if d.Outcome != workflow.Applied {
		if !Same(m.From, m.To) || d.Command != nil || d.Deadline != nil || d.From != d.To {
			return fmt.Errorf("%s was %s and changed something", d.Message.Type, d.Outcome)
		}
		return nil
	}
	if m.To.Version != m.From.Version+1 {
		return fmt.Errorf("version %d became %d", m.From.Version, m.To.Version)
	}
	names := map[string]bool{}
	if c := d.Command; c != nil {
		names[Steps[c.Type]] = true
		if c.ID != workflow.CommandID(m.From.ID, c.Type, Sent(m.From, c.Type)+1) {
			return fmt.Errorf("%s after %d of its kind", c.ID, Sent(m.From, c.Type))
		}
	}
	if a := d.Deadline; a != nil {
		names[string(a.Purpose)] = true
		if a.ID != workflow.DeadlineID(m.From.ID, a.Purpose, m.From.Counts[string(a.Purpose)]+1) {
			return fmt.Errorf("%s after generation %d", a.ID, m.From.Counts[string(a.Purpose)])
		}
	}
	for name, n := range m.To.Counts {
		want := m.From.Counts[name]
		if names[name] {
			want++
		}
		if n != want {
			return fmt.Errorf("the count of %s is %d, not %d", name, n, want)
		}
	}
	return nil
}

// Same is equality of all that is known; nil and empty lists are equal.
func Same(a, b workflow.Order) bool {
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
