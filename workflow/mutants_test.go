package workflow_test

import "slices"

// mutant is one way to break the package: in a file, one text for another. The
// old text occurs exactly once.
type mutant struct {
	what     string
	file     string
	old, new string
}

func mutants() []mutant {
	return slices.Concat(tableMutants(), ruleMutants(), takingMutants(), backOutMutants(), sendingMutants())
}

// The declaration: a wrong cell of each kind.
func tableMutants() []mutant {
	const f = "process.go"
	return []mutant{
		{"a wrong next status", f, `{On: PaymentCaptured, To: AwaitingShipment, Send: ShipOrder,`, `{On: PaymentCaptured, To: Completed, Send: ShipOrder,`},
		{"shipping is given up without a person", f, `{On: ShipmentDeadlineExpired, To: NeedsAttention,`, `{On: ShipmentDeadlineExpired, To: BackOut,`},
		{"a confirmed shipment asks for attention", f, `{On: ShipmentConfirmed, To: Completed, Why: "the goods left"},`, `{On: ShipmentConfirmed, To: NeedsAttention, Why: "the goods left"},`},
		{"a failed payment cancels without backing out", f, `{On: PaymentFailed, To: BackOut, Why: "the payment failed"},`, `{On: PaymentFailed, To: Cancelled, Why: "the payment failed"},`},
		{"a command is not sent", f, `{On: InventoryReserved, To: AwaitingPayment, Send: CapturePayment,`, `{On: InventoryReserved, To: AwaitingPayment,`},
		{"a wrong command is sent", f, `To: AwaitingInventory, Send: ReserveInventory,`, `To: AwaitingInventory, Send: CapturePayment,`},
		{"a row is removed: late money while compensating", f, `				{On: PaymentCaptured, To: BackOut, Why: "money turned up late"},
				{On: ShipmentConfirmed, To: BackOut, Why: "the goods left although the order was being backed out"},`, `				{On: ShipmentConfirmed, To: BackOut, Why: "the goods left although the order was being backed out"},`},
		{"a row is removed: goods that left after the end", f, `				{On: ShipmentConfirmed, To: BackOut, Why: "the goods left although the order was cancelled"},
`, ``},
		{"a row is removed: cancelling while payment is awaited", f, `				{On: CancellationRequested, To: BackOut, Why: "the customer cancelled"},
				{On: PaymentDeadlineExpired,`, `				{On: PaymentDeadlineExpired,`},
		{"a row is added: cancelling while shipping", f, `				{On: ShipmentFailed, To: BackOut, Why: "the goods cannot be shipped"},
				{On: ShipmentDeadlineExpired,`, `				{On: ShipmentFailed, To: BackOut, Why: "the goods cannot be shipped"},
				{On: CancellationRequested, To: BackOut, Why: "the customer cancelled"},
				{On: ShipmentDeadlineExpired,`},
		{"a refund of a fulfilled order passes unseen", f, `{On: PaymentRefunded, To: NeedsAttention,`, `{On: PaymentRefunded, To: Stay,`},
		{"a failed refund reopens a fulfilled order", f, `				{On: PaymentRefundFailed, To: Stay, Why: "the refund failed"},`, `				{On: PaymentRefundFailed, To: NeedsAttention, Why: "the refund failed"},`},
		{"a stale message is forgotten", f, `Stale: []MessageType{InventoryRejected, PaymentFailed},`, `Stale: []MessageType{InventoryRejected},`},
		{"a dead command of a fulfilled order is not stale", f, `			Stale: []MessageType{DispatchFailed},
`, ``},
		{"an early message is forgotten", f, `Early: []MessageType{ShipmentConfirmed, ShipmentFailed},`, `Early: []MessageType{ShipmentConfirmed},`},
		{"an early cancellation is forgotten", f, `ShipmentConfirmed, ShipmentFailed, CancellationRequested,
			},`, `ShipmentConfirmed, ShipmentFailed,
			},`},
		{"an early message is taken for stale", f, `Early: []MessageType{PaymentCaptured, PaymentFailed, ShipmentConfirmed, ShipmentFailed},`, `Early: []MessageType{PaymentCaptured, ShipmentConfirmed, ShipmentFailed},
			Stale: []MessageType{PaymentFailed},`},
		{"a deadline is dropped", f, `			Deadline: CompensationTimeout,
`, ``},
		{"a deadline is another's", f, `Deadline: PaymentTimeout,`, `Deadline: ShipmentTimeout,`},
		{"people cannot retry", f, `				{On: Retry, To: BackOut, Why: "a person asked for another attempt"},
`, ``},
		{"a person's word for fulfilled is asked again", f, `{On: ResolveCompleted, To: Completed,`, `{On: ResolveCompleted, To: BackOut,`},
		{"a report is missing", f, `	ShipmentFailed:         {Shipment, EffectUndone},
`, ``},
		{"a report is of a wrong state", f, `	PaymentRefundFailed:    {Money, EffectFailed},`, `	PaymentRefundFailed:    {Money, EffectUndone},`},
		{"a report is of a wrong effect", f, `	InventoryReleased:      {Goods, EffectUndone},`, `	InventoryReleased:      {Money, EffectUndone},`},
	}
}

// Rules 1 to 7, whole and branch by branch.
func ruleMutants() []mutant {
	const f = "rules.go"
	return []mutant{
		{"rule 1 is left out", f, `	deadlines,        // 1
`, ``},
		{"rule 1 takes any generation", f, ` || m.Facts.TimeoutID != o.Armed {`, ` {`},
		{"rule 1 takes any deadline's type", f, `if purpose != armed || o.Armed`, `if purpose == "" || armed == "" || o.Armed`},
		{"rule 1 believes the broker's clock", "apply.go", `	if _, is := purposeOf(m.Type); is && m.NotDue {`, `	if m.Type == "" {`},
		{"rule 1 takes what is no deadline for one", "apply.go", `	if _, is := purposeOf(m.Type); is && m.NotDue {`, `	if m.NotDue {`},
		{"rule 2 is left out", f, `	deadCommands,     // 2
`, ``},
		{"rule 2 takes every command for unwanted", f, `m.Type == DispatchFailed && !o.Awaits(m.Facts.CommandID)`, `m.Type == DispatchFailed`},
		{"rule 3 is left out", f, `	placedAgain,      // 3
`, ``},
		{"rule 3 does not compare amounts", f, `	case f.Amount != o.Amount:
		return conflict("amount", fmt.Sprint(o.Amount), fmt.Sprint(f.Amount))
`, ``},
		{"rule 3 does not compare lines", f, `	case !slices.Equal(f.Lines, o.Lines):`, `	case len(f.Lines) != len(o.Lines) || !slices.Equal(f.Lines, f.Lines):`},
		{"rule 4 is left out", f, `	knownReference,   // 4
`, ``},
		{"rule 4 sees no conflict", f, `	if ref := m.Facts.ref(says.Effect); ref != e.Ref {
		return conflict(string(says.Effect), e.Ref, ref)
	}
	return Stale, fmt.Sprintf("%s %s is known already", says.Effect, quote(e.Ref))`, `	return Stale, fmt.Sprintf("%s %s is known already", says.Effect, quote(e.Ref))`},
		{"rule 4 takes a shipment without a name for known", f, `if e == nil || e.Ref == "" {`, `if e == nil {`},
		{"rule 5 is left out", f, `	shipmentFailed,   // 5
`, ``},
		{"rule 5 lets goods that left fail", f, `	case e.State == EffectHeld:
		return Rejected, fmt.Sprintf("conflict: shipment`, `	case e.State == EffectFailed:
		return Rejected, fmt.Sprintf("conflict: shipment`},
		{"rule 5 takes a failure twice", f, `	case e.State == EffectUndone:
		return Stale, "the shipment is known to have failed"
`, ``},
		{"rule 6 is left out", f, `	answersToAnUndo,  // 6
`, ``},
		{"rule 6 takes answers that nobody asked for", f, `if e == nil || e.State == EffectHeld {`, `if e == nil {`},
		{"rule 6 takes answers about unknown effects", f, `if e == nil || e.State == EffectHeld {
		return Rejected`, `if e == nil {
		return "", ""
	}
	if e.State == EffectHeld {
		return Rejected`},
		{"rule 6 takes another's answer", f, `	if ref := m.Facts.ref(says.Effect); ref != e.Ref {
		return conflict(string(says.Effect), e.Ref, ref)
	}
	if says.State`, `	if says.State`},
		{"rule 6 takes a success twice", f, `		if e.State != EffectUndone {
			return "", ""
		}
		if ref`, `		if e.State != EffectHeld {
			return "", ""
		}
		if ref`},
		{"rule 6 sees no second refund", f, `		if ref := m.Facts.undoRef(says.Effect); ref != e.Undo {
			return conflict("the return of the "+string(says.Effect), e.Undo, ref)
		}
`, ``},
		{"rule 6 takes a failure of what is undone", f, `	case e.State == EffectUndone, e.State == EffectFailed:`, `	case e.State == EffectFailed:`},
		{"rule 6 takes a failure twice", f, `	case e.State == EffectUndone, e.State == EffectFailed:`, `	case e.State == EffectUndone:`},
		{"rule 6 takes an attempt that was never made", f, `	case attempt == 0: //`, `	case attempt < 0: //`},
		{"rule 6 takes an earlier attempt's failure", f, `	case attempt < latest:`, `	case attempt > latest:`},
		{"rule 7 is left out", f, `	operatorsActions, // 7
`, ``},
		{"rule 7 takes an action on an older version", f, `	if m.Facts.Version != o.Version {`, `	if m.Facts.Version > o.Version {`},
		{"rule 7 retries what did not fail", f, `e == nil || e.State != EffectFailed {`, `e == nil {`},
		{"rules are asked in another order", f, `	deadlines,        // 1
	deadCommands,     // 2
	placedAgain,      // 3
	knownReference,   // 4`, `	knownReference,   // 4
	deadlines,        // 1
	deadCommands,     // 2
	placedAgain,      // 3`},
	}
}

// Rules 8 to 11.
func takingMutants() []mutant {
	const f = "apply.go"
	return []mutant{
		{"rule 8 holds what is refused", f, `	case refused:
	}
	return Rejected,`, `	case refused:
	}
	return Held,`},
		{"rule 9 records nothing", f, `	record(o, m)
	to, send`, `	to, send`},
		{"rule 9 does not record a reference", f, `		e.Ref, e.Undo = m.Facts.ref(says.Effect), ""
`, ``},
		{"rule 9 does not record a refund", f, `		e.Undo = m.Facts.undoRef(says.Effect)
`, ``},
		{"rule 9 does not append a waiting shipment", f, `		o.record(Shipment).State = EffectWaiting
`, `		_ = EffectWaiting
`},
		{"rule 9 leaves waiting effects waiting", f, `				o.Effects[i].State = EffectOverdue
`, `				continue
`},
		{"rule 9 turns every effect overdue", f, `			if o.Effects[i].State == EffectWaiting {`, `			if o.Effects[i].State != EffectUndone {`},
		{"rule 9 makes only compensation overdue", f, `	case ShipmentDeadlineExpired, CompensationDeadlineExpired:`, `	case CompensationDeadlineExpired:`},
		{"rule 9 forgets the order's content", f, `		o.CustomerID, o.Currency, o.Amount, o.Lines = f.CustomerID, f.Currency, f.Amount, f.Lines
`, ``},
		{"rule 9 does not note a dead command", f, `		o.Problem = unsent(f.CommandID) + f.Said()
`, ``},
		{"a retry retries nothing", f, `			e.State, e.Failure = EffectHeld, ""
`, `			e.Failure = ""
`},
		{"settled by hand leaves no trace", f, `e.State, e.Undo, e.Failure = EffectUndone, byHand+m.ID, ""`, `e.State, e.Failure = EffectUndone, ""`},
		{"settled by hand is not undone", f, `e.State, e.Undo, e.Failure = EffectUndone, byHand+m.ID, ""`, `e.Undo, e.Failure = byHand+m.ID, ""`},
		{"a shipment by a person's word has no name", f, `			e.Ref = byHand + m.ID
`, `			_ = byHand
`},
		{"a person's word renames a shipment", f, `		if e.Ref == "" {
			e.Ref = byHand + m.ID
		}`, `		e.Ref = byHand + m.ID`},
		{"an order is not turned back because of anything", f, `			o.Because = d.Reason
`, `			_ = d.Reason
`},
		{"the last reason counts, not the first", f, `to != Completed && o.Because == "" {`, `to != Completed {`},
		{"rule 10 leaves a deadline armed at rest", f, `		o.Armed = ""
`, ``},
		{"rule 10 arms nothing", f, `			d.Deadline = arm(o, m, purpose)
		}
	}`, `			_ = purpose
		}
	}`},
		{"rule 10 arms anew only for a new status", f, `	if to != from || send != "" {`, `	if to != from {`},
		{"rule 10 arms anew for every message", f, `	if to != from || send != "" {`, `	if to != "" {`},
		{"rule 10 keeps the noted problem", f, `		o.Problem = ""
`, ``},
		{"a deadline armed again is due at another time", f, `		d.Deadline.DueAt = m.DueAt
`, ``},
		{"rule 11 does not count versions", f, `		r.Order.Version++
`, ``},
		{"rule 11 takes up nothing", f, `len(held) == 0 {
		return r`, `len(held) >= 0 {
		return r`},
		{"rule 11 takes up the youngest first", f, `	held = slices.Clone(held)
`, `	held = slices.Clone(held)
	slices.Reverse(held)
`},
		{"rule 11 takes up only one", f, `		if d.Outcome == Applied {
			i = 0
		}`, `		if d.Outcome == Applied {
			break
		}`},
		{"rule 11 does not ask older ones again", f, `		if d.Outcome == Applied {
			i = 0
		}`, `		_ = d`},
		{"rule 11 changes the list it was given", f, `	held = slices.Clone(held)
`, `	held = slices.Clip(held)
`},
		{"an order is changed where it lies", f, `		r.Order = r.Order.clone()
`, ``},
	}
}

// Backing out, and what is awaited.
func backOutMutants() []mutant {
	return []mutant{
		{"back out undoes the first effect first", "backout.go", `	for i := len(o.Effects) - 1; i >= 0; i-- {`, `	for i := range o.Effects {`},
		{"back out does not see that the goods left", "backout.go", `	if o.holds(Shipment) { // the`, `	if o.count(ShipOrder) > 9 { // the`},
		{"back out completes without money", "backout.go", `o.holds(Goods) && o.holds(Money) && `, `o.holds(Goods) && `},
		{"back out completes without goods", "backout.go", `o.holds(Goods) && o.holds(Money) && `, `o.holds(Money) && `},
		{"back out tells the customer again", "backout.go", `		if o.count(CancelOrder) == 0 {
			return Cancelled, CancelOrder
		}
		return Cancelled, ""`, `		return Cancelled, CancelOrder`},
		{"back out never tells the customer", "backout.go", `			return Cancelled, CancelOrder
`, `			return Cancelled, ""
`},
		{"back out does not mark what it asks back", "backout.go", `		last.State = EffectWaiting
`, ``},
		{"back out sends a waiting undo again", "backout.go", `	case EffectWaiting:
		return Compensating, ""`, `	case EffectWaiting:
		return Compensating, undoOf(last.Kind)`},
		{"back out waits on for what is overdue", "backout.go", `	case EffectOverdue, EffectFailed, EffectUndone:
	}
	return`, `	case EffectOverdue:
		return Compensating, ""
	case EffectFailed, EffectUndone:
	}
	return`},
		{"back out retries failures by itself", "backout.go", `	case EffectOverdue, EffectFailed, EffectUndone:
	}
	return`, `	case EffectFailed:
		last.State = EffectWaiting
		return Compensating, undoOf(last.Kind)
	case EffectOverdue, EffectUndone:
	}
	return`},
		{"money is released and goods refunded", "backout.go", `	case Goods:
		return ReleaseInventory
	case Money:
		return RefundPayment`, `	case Money:
		return ReleaseInventory
	case Goods:
		return RefundPayment`},
		{"a person decides about money although the goods left", "backout.go", `	if o.holds(Shipment) {
		return o.effect(Shipment)
	}
	return o.lastStanding()`, `	return o.lastStanding()`},
		{"an effect is listed twice", "order.go", `	if e := o.effect(kind); e != nil {
		return e
	}
	o.Effects`, `	o.Effects`},
		{"capturing is awaited while goods are", "order.go", `	if o.Status == AwaitingPayment {
		await(CapturePayment)
	}
`, ``},
		{"what is overdue is not awaited", "order.go", `if e.State == EffectWaiting || e.State == EffectOverdue {`, `if e.State == EffectWaiting {`},
		{"every attempt is awaited that failed", "order.go", `if e.State == EffectWaiting || e.State == EffectOverdue {`, `if e.State != EffectHeld && e.State != EffectUndone {`},
		{"the word to the customer is not awaited", "order.go", `	await(CancelOrder)
`, ``},
		{"effects are shared between orders", "order.go", `	c.Effects = slices.Clone(o.Effects)
`, `	c.Effects = slices.Clip(o.Effects)
`},
	}
}

// What goes out, and in whose name.
func sendingMutants() []mutant {
	return []mutant{
		{"ordinals do not rise", "apply.go", `	name := step(t)
	o.Counts[name]++`, `	name := step(t)
	o.Counts[name] = 1`},
		{"generations do not rise", "apply.go", `	name := string(purpose)
	o.Counts[name]++`, `	name := string(purpose)
	o.Counts[name] = 1`},
		{"the parent is the message's parent", "apply.go", `ParentID: m.ID, OriginID`, `ParentID: m.ParentID, OriginID`},
		{"the origin is the message", "apply.go", `OriginID: o.Origin,`, `OriginID: m.ID,`},
		{"the conversation is the message's", "apply.go", `Conversation: o.Conversation, ParentID`, `Conversation: m.Conversation, ParentID`},
		{"an order without a conversation has none", "apply.go", `			o.Conversation = m.ID
`, `			_ = m.ID
`},
		{"a replaced deadline is written", "apply.go", `d != nil && d.ID == r.Order.Armed {`, `d != nil {`},
		{"what was turned back from is sent", "apply.go", `Closed: len(r.Decisions) > 1 && !r.Order.Awaits(c.ID)`, `Closed: false`},
		{"a deadline that is over is not cancelled", "apply.go", `	if r.Before.Armed != "" && r.Before.Armed != r.Order.Armed {`, `	if r.Before.Armed == r.Order.ID {`},
		{"an armed deadline is cancelled", "apply.go", `r.Before.Armed != "" && r.Before.Armed != r.Order.Armed {`, `r.Before.Armed != "" {`},
		{"a command that is not awaited stays open", "apply.go", `		if !r.Order.Awaits(id) {
			ids`, `		if r.Order.ID == "" {
			ids`},
		{"a command that is awaited is closed", "apply.go", `		if !r.Order.Awaits(id) {
			ids`, `		if id != "" {
			ids`},
		{"a refund does not name the payment", "body.go", `		b.PaymentID, b.Amount, b.Currency = o.ref(Money), &o.Amount, o.Currency
`, `		b.Amount, b.Currency = &o.Amount, o.Currency
`},
		{"an amount of nothing is left out", "body.go", `b.CustomerID, b.Amount, b.Currency, b.ReservationID = o.CustomerID, &o.Amount, o.Currency, o.ref(Goods)`, `b.CustomerID, b.Currency, b.ReservationID = o.CustomerID, o.Currency, o.ref(Goods)`},
		{"a step has another name", "ids.go", `		return "release-inventory"`, `		return "inventory-release"`},
		{"a deadline's message has another type", "workflow.go", `	case ShipmentTimeout:
		return ShipmentDeadlineExpired`, `	case ShipmentTimeout:
		return PaymentDeadlineExpired`},
	}
}
