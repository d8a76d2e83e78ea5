package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func model() []scenario {
	return []scenario{
		{"whatever is said, again, fails, is retried, skipped, drained, waited for and restarted, the database is what the rules make of it", func(w *world) {
			checks := 0
			rapid.Check(w.T, func(t *rapid.T) {
				checks++
				p := &play{T: t, w: w, orders: map[string]*modelled{}, luck: bad()}
				p.restart(t)
				for n := range 2 {
					id := fmt.Sprintf("order-%d-%d", checks, n)
					p.orders[id] = &modelled{luck: p.luck, order: workflow.Order{ID: id, Status: workflow.NotStarted}, handled: map[string]workflow.Message{}}
					p.ids = append(p.ids, id)
				}
				t.Repeat(map[string]func(*rapid.T){
					"say": p.say, "say more": p.say, "say again": p.again, "say otherwise": p.otherwise,
					"drain": p.drain, "wait": p.wait, "restart": p.restart,
					"retry": p.retry, "mend and retry": p.mend, "skip": p.skip, "leave the line": p.leave, "send again": p.sendAgain,
				})
				for _, id := range p.ids {
					p.compare(id)
					if p.orders[id].revision > 0 {
						w.replays(id)
					}
				}
			})
		}},
	}
}

// modelled is one order as the rules make it, without a database.
type modelled struct {
	order    workflow.Order
	revision int64
	handled  map[string]workflow.Message // what occupies its MessageId
	said     []workflow.Message
	held     []workflow.Message
	line     []workflow.Message // the blocking message, if one does, is the first
	blocked  bool
	luck     *luck
	journal  []string
	outbox   []modelRow
	rejected int
}

type modelRow struct {
	workflow.Emission
	state  string
	sentAt time.Time
}

// play is one run of the model beside the database.
type play struct {
	*rapid.T
	w       *world
	orders  map[string]*modelled
	luck    *luck
	ids     []string
	letters int
}

func (p *play) any(t *rapid.T) *modelled {
	return p.orders[rapid.SampledFrom(p.ids).Draw(t, "order")]
}

func (p *play) say(t *rapid.T) {
	o := p.any(t)
	p.letters++
	id := fmt.Sprint("letter-", p.letters)
	p.luck.turn(id, rapid.IntRange(0, 4).Draw(t, "luck") == 0)
	p.hears(o, o.message(t, id))
}

// again says what was said before, some order's or other's.
func (p *play) again(t *rapid.T) {
	if o := p.any(t); len(o.said) > 0 {
		p.hears(o, rapid.SampledFrom(o.said).Draw(t, "message"))
	}
}

// otherwise says something else under an ID that was used.
func (p *play) otherwise(t *rapid.T) {
	if o := p.any(t); len(o.said) > 0 {
		p.hears(o, o.message(t, rapid.SampledFrom(o.said).Draw(t, "message").ID))
	}
}

func (p *play) wait(t *rapid.T) {
	p.w.db.Pass(time.Duration(rapid.IntRange(1, 26).Draw(t, "hours")) * time.Hour)
}

func (p *play) restart(*rapid.T) {
	require.NoError(p, p.w.Close())
	var err error
	p.w.Store, err = p.w.db.Open(store.Options{Apply: p.luck.apply})
	require.NoError(p, err)
	s := p.w.Store
	p.w.Cleanup(func() { _ = s.Close() })
}

func (p *play) drain(*rapid.T) {
	p.w.drain(&broker{})
	for _, o := range p.orders {
		for i := range o.outbox {
			r := &o.outbox[i]
			ready := r.Purpose == "" || !r.DueAt.Add(-2*time.Minute).After(p.w.db.Now())
			if r.state == "waiting" && ready {
				r.state, r.sentAt = "sent", p.w.db.Now()
			}
		}
	}
}

// acts has an operator act in the database. The model says what must become of
// it, and changes with it.
func (p *play) acts(o *modelled, kind workflow.ActionKind, target string, want workflow.Outcome) {
	d, err := p.w.Act(p.w.Context(), workflow.Action{Kind: kind, OrderID: o.order.ID, Target: target, Reason: "as agreed"})
	require.NoError(p, err)
	require.Equal(p, want, d.Outcome, "%s %s: %s", kind, target, d.Reason)
	if want == workflow.Applied {
		o.journal = append(o.journal, workflow.ActionID(o.order.ID, workflow.MessageType(kind), o.revision)+" Applied")
		o.revision++
	}
}

func (p *play) retry(t *rapid.T) { p.unblocks(p.any(t), workflow.RetryMessage) }
func (p *play) skip(t *rapid.T)  { p.unblocks(p.any(t), workflow.SkipMessage) }

// mend has the blocking message do better, and retries it.
func (p *play) mend(t *rapid.T) {
	o := p.any(t)
	if o.blocked {
		p.luck.turn(o.line[0].ID, false)
	}
	p.unblocks(o, workflow.RetryMessage)
}

func (p *play) unblocks(o *modelled, kind workflow.ActionKind) {
	if !o.blocked {
		p.acts(o, kind, "letter-1", workflow.Rejected)
		p.compare(o.order.ID)
		return
	}
	first := o.line[0].ID
	p.acts(o, kind, first, workflow.Applied)
	o.blocked = false
	if kind == workflow.SkipMessage {
		o.line = o.line[1:]
		o.entry(first, workflow.Skipped)
	}
	o.replay(p.w.db.Now())
	p.compare(o.order.ID)
}

// leave ends the process that unblocks an order before it goes on with the line.
func (p *play) leave(t *rapid.T) {
	o := p.any(t)
	p.w.tamper("UPDATE orders SET blocked_by = NULL WHERE order_id = '" + o.order.ID + "'")
	o.blocked = false
}

// sendAgain sends a command again, if it may be.
func (p *play) sendAgain(t *rapid.T) {
	o := p.any(t)
	if len(o.outbox) == 0 {
		return
	}
	i := rapid.IntRange(0, len(o.outbox)-1).Draw(t, "row")
	row := o.outbox[i]
	may := !o.blocked && row.Purpose == "" && row.state == "sent" && o.order.Awaits(row.ID) && p.w.db.Now().Sub(row.sentAt) >= forgets
	if !may {
		p.acts(o, workflow.SendAgain, row.ID, workflow.Rejected)
		return
	}
	p.acts(o, workflow.SendAgain, row.ID, workflow.Applied)
	o.order = o.order.Forgiven(row.ID)
	row.state = "waiting"
	o.outbox = append(slices.Delete(o.outbox, i, i+1), row)
	p.compare(o.order.ID)
}

// hears has the database and the model decide about a message.
func (p *play) hears(o *modelled, m workflow.Message) {
	d, err := p.w.Handle(p.w.Context(), m)
	require.NoError(p, err)
	require.Equal(p, o.decides(m, p.w.db.Now()), d.Outcome, "%s: %s", m.Type, d.Reason)
	o.said = append(o.said, m)
	p.compare(o.order.ID)
}

// decides is what the store does around workflow.Apply, in memory.
func (o *modelled) decides(m workflow.Message, now time.Time) workflow.Outcome {
	if before, handled := o.handled[m.ID]; handled {
		if before.Fingerprint == m.Fingerprint {
			return workflow.Duplicate
		}
		o.rejected++
		return workflow.Rejected
	}
	switch {
	case len(o.line) == 0:
		return o.takes(m, now, false)
	case o.blocked && m.Type.Action():
		o.rejected++
		return workflow.Rejected
	}
	o.revision++
	o.waits(m)
	o.replay(now)
	return workflow.Blocked
}

// waits puts a message at the end of the line.
func (o *modelled) waits(m workflow.Message) {
	o.line = append(o.line, m)
	o.handled[m.ID] = m
	o.entry(m.ID, workflow.Blocked)
}

// entry is written at the end of the journal; what waited leaves its place.
func (o *modelled) entry(id string, outcome workflow.Outcome) {
	o.journal = slices.DeleteFunc(o.journal, func(line string) bool { return line == id+" Held" || line == id+" Blocked" })
	o.journal = append(o.journal, id+" "+string(outcome))
}

// turns changes what a message waits for, where it is in the journal.
func (o *modelled) turns(id string, from, to workflow.Outcome) {
	o.journal[slices.Index(o.journal, id+" "+string(from))] = id + " " + string(to)
}

// replay handles the line as far as it goes.
func (o *modelled) replay(now time.Time) {
	for !o.blocked && len(o.line) > 0 {
		first := o.line[0]
		o.line = o.line[1:]
		o.takes(first, now, true)
	}
}

// runs is workflow.Apply up to what fails, and the message that does.
func (o *modelled) runs(m workflow.Message) (r workflow.Result, fails string) {
	r = workflow.Apply(o.order, m, o.held)
	for n, d := range r.Decisions {
		if d.Outcome == workflow.Held || !o.luck.with(d.Message.ID) {
			continue
		}
		r.Decisions, r.Order = r.Decisions[:n], o.order
		for _, d := range r.Decisions {
			r.Order = workflow.Apply(r.Order, d.Message, nil).Order
		}
		return r, d.Message.ID
	}
	return r, ""
}

// takes decides about a message in its turn, which may have waited in the line.
func (o *modelled) takes(m workflow.Message, now time.Time, waited bool) workflow.Outcome {
	for _, r := range o.outbox {
		if r.ID == m.Facts.TimeoutID && r.Purpose != "" {
			m.DueAt, m.NotDue = r.DueAt, r.DueAt.After(now)
		}
	}
	r, fails := o.runs(m)
	if fails == m.ID {
		o.revision++
		o.blocked = true
		if waited {
			o.line = append([]workflow.Message{m}, o.line...)
		} else {
			o.waits(m)
		}
		return workflow.Blocked
	}
	first := r.Decisions[0].Outcome
	if first == workflow.Rejected {
		o.rejected++
		if o.revision > 0 {
			o.revision++
		}
		if waited {
			o.entry(m.ID, first)
			delete(o.handled, m.ID)
		}
		return first
	}
	o.revision++
	o.order = r.Order
	for n, d := range r.Decisions {
		if n > 0 {
			o.held = slices.DeleteFunc(o.held, func(h workflow.Message) bool { return h.ID == d.Message.ID })
		}
		if waited && d.Outcome == workflow.Held {
			o.turns(d.Message.ID, workflow.Blocked, workflow.Held)
		} else {
			o.entry(d.Message.ID, d.Outcome)
		}
		switch d.Outcome {
		case workflow.Rejected:
			o.rejected++
			delete(o.handled, d.Message.ID)
		case workflow.Held:
			o.held = append(o.held, d.Message)
			fallthrough
		default:
			o.handled[d.Message.ID] = d.Message
		}
	}
	if fails != "" {
		o.blocked = true
		i := slices.IndexFunc(o.held, func(h workflow.Message) bool { return h.ID == fails })
		for _, h := range o.held[i:] {
			o.turns(h.ID, workflow.Held, workflow.Blocked)
		}
		o.line = append(slices.Clone(o.held[i:]), o.line...)
		o.held = o.held[:i]
	}
	for i := range o.outbox {
		row := &o.outbox[i]
		if slices.Contains(r.Settled(), row.ID) && (row.state == "waiting" || row.Purpose != "") {
			row.state = "closed"
		}
	}
	for _, e := range r.Emissions() {
		row := modelRow{Emission: e, state: "waiting"}
		if e.Closed {
			row.state = "closed"
		}
		if e.Purpose != "" && e.DueAt.IsZero() {
			after := 24 * time.Hour
			if e.Purpose == workflow.ShipmentTimeout {
				after *= 7
			}
			row.DueAt = now.Add(after).Truncate(time.Microsecond)
		}
		o.outbox = append(o.outbox, row)
	}
	return first
}

// compare holds the database against the model.
func (p *play) compare(id string) {
	o := p.orders[id]
	if o.revision == 0 {
		_, err := p.w.Story(p.w.Context(), id)
		require.ErrorIs(p, err, workflow.ErrNoOrder)
		return
	}
	s, err := p.w.Story(p.w.Context(), id)
	require.NoError(p, err)
	require.Equal(p, o.revision, s.Revision)
	require.Equal(p, o.order.Version, s.Order.Version)
	require.Equal(p, o.order.Status, s.Order.Status)
	want, _ := json.Marshal(o.order)
	got, _ := json.Marshal(s.Order)
	require.JSONEq(p, string(want), string(got))

	var journal, outbox, wantOutbox, held, wantHeld, line, wantLine []string
	for _, e := range s.Journal {
		journal = append(journal, e.MessageID+" "+string(e.Outcome))
	}
	require.Equal(p, o.journal, journal)
	for _, e := range s.Held {
		held = append(held, e.ID)
	}
	for _, m := range o.held {
		wantHeld = append(wantHeld, m.ID)
	}
	require.Equal(p, wantHeld, held)
	for _, e := range s.Line {
		line = append(line, e.ID)
	}
	for _, m := range o.line {
		wantLine = append(wantLine, m.ID)
	}
	require.Equal(p, wantLine, line)
	blockedBy := ""
	if o.blocked {
		blockedBy = wantLine[0]
	}
	require.Equal(p, blockedBy, s.BlockedBy)
	tell := func(d workflow.Outgoing, state string) string {
		if d.Purpose != "" {
			d.Body = nil
		}
		return fmt.Sprint(d.ID, d.Type, d.ParentID, d.Conversation, d.OriginID, d.DueAt, string(d.Body), " ", state)
	}
	for _, d := range s.Outbox {
		outbox = append(outbox, tell(d.Outgoing, d.State))
	}
	for _, r := range o.outbox {
		wantOutbox = append(wantOutbox, tell(r.Outgoing, r.state))
	}
	require.Equal(p, wantOutbox, outbox)
	rejected := 0
	for _, r := range s.Rejected {
		rejected += r.Times
	}
	require.Equal(p, o.rejected, rejected)
	if o.order.Armed == "" {
		require.Zero(p, s.DeadlineAt)
	} else {
		i := slices.IndexFunc(o.outbox, func(r modelRow) bool { return r.ID == o.order.Armed })
		require.Equal(p, o.outbox[i].DueAt, s.DeadlineAt)
	}
}

// message draws something that may be said to the order as it stands.
func (o *modelled) message(t *rapid.T, id string) workflow.Message {
	order := o.order.ID
	ref := func(kind string) string { return kind + rapid.SampledFrom([]string{"1", "1", "1", "2"}).Draw(t, kind) }
	command := func(kind workflow.MessageType) string {
		return workflow.CommandID(order, kind, rapid.IntRange(1, 2).Draw(t, "ordinal"))
	}
	const because = `"reason":"no luck"`
	switch kind := rapid.SampledFrom(heardTypes()).Draw(t, "type"); kind {
	case workflow.OrderPlaced:
		return said(order, id, kind, fmt.Sprintf(
			`"customerId":"c","currency":"EUR","amount":%s,"lines":[{"sku":"s","quantity":1}]`, ref("")))
	case workflow.InventoryReserved, workflow.InventoryReleased:
		return said(order, id, kind, fmt.Sprintf(`"reservationId":%q`, ref("res-")))
	case workflow.PaymentCaptured:
		return said(order, id, kind, fmt.Sprintf(`"paymentId":%q`, ref("pay-")))
	case workflow.ShipmentConfirmed:
		return said(order, id, kind, fmt.Sprintf(`"shipmentId":%q`, ref("ship-")))
	case workflow.PaymentRefunded:
		return said(order, id, kind, fmt.Sprintf(`"paymentId":%q,"refundId":%q`, ref("pay-"), ref("ref-")))
	case workflow.PaymentRefundFailed:
		return said(order, id, kind, fmt.Sprintf(`"paymentId":%q,"commandId":%q,%s`, ref("pay-"), command(workflow.RefundPayment), because))
	case workflow.InventoryReleaseFailed:
		return said(order, id, kind, fmt.Sprintf(`"reservationId":%q,"commandId":%q,%s`, ref("res-"), command(workflow.ReleaseInventory), because))
	case workflow.DispatchFailed:
		awaited := append(o.order.Awaited(), command(workflow.CapturePayment))
		return said(order, id, kind, fmt.Sprintf(`"commandId":%q,%s`, rapid.SampledFrom(awaited).Draw(t, "command"), because))
	case workflow.Retry, workflow.ResolveCancelled, workflow.ResolveCompleted:
		return said(order, id, kind, fmt.Sprintf(`"version":%d,%s`, o.order.Version, because))
	case workflow.InventoryDeadlineExpired:
		deadline := workflow.DeadlineID(order, workflow.InventoryTimeout, 1)
		if o.order.Armed != "" && rapid.IntRange(0, 3).Draw(t, "armed") > 0 {
			deadline = o.order.Armed
		}
		return as(expired(order, strings.TrimPrefix(deadline, order+":")), id)
	default:
		return said(order, id, kind, because)
	}
}

// heardTypes are the types of message that are drawn from; a deadline's stands
// for all four.
func heardTypes() []workflow.MessageType {
	return []workflow.MessageType{
		workflow.OrderPlaced, workflow.OrderPlaced, workflow.InventoryReserved, workflow.InventoryReserved, workflow.InventoryRejected,
		workflow.PaymentCaptured, workflow.PaymentCaptured, workflow.PaymentFailed, workflow.ShipmentConfirmed, workflow.ShipmentFailed,
		workflow.PaymentRefunded, workflow.PaymentRefundFailed, workflow.InventoryReleased, workflow.InventoryReleaseFailed,
		workflow.CancellationRequested, workflow.InventoryDeadlineExpired, workflow.DispatchFailed,
		workflow.Retry, workflow.ResolveCancelled, workflow.ResolveCompleted,
	}
}
