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
		{"whatever is said, again, drained, waited for and restarted, the database is what the rules make of it", func(w *world) {
			checks := 0
			rapid.Check(w.T, func(t *rapid.T) {
				checks++
				p := &play{T: t, w: w, orders: map[string]*modelled{}}
				for n := range 2 {
					id := fmt.Sprintf("order-%d-%d", checks, n)
					p.orders[id] = &modelled{order: workflow.Order{ID: id, Status: workflow.NotStarted}, handled: map[string]workflow.Message{}}
					p.ids = append(p.ids, id)
				}
				t.Repeat(map[string]func(*rapid.T){
					"say": p.say, "say more": p.say, "say again": p.again, "say otherwise": p.otherwise,
					"drain": p.drain, "wait": p.wait, "restart": p.restart,
				})
				for _, id := range p.ids {
					p.compare(id)
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
	journal  []string
	outbox   []modelRow
	rejected int
}

type modelRow struct {
	workflow.Emission
	state string
}

// play is one run of the model beside the database.
type play struct {
	*rapid.T
	w       *world
	orders  map[string]*modelled
	ids     []string
	letters int
}

func (p *play) any(t *rapid.T) *modelled {
	return p.orders[rapid.SampledFrom(p.ids).Draw(t, "order")]
}

func (p *play) say(t *rapid.T) {
	o := p.any(t)
	p.letters++
	p.hears(o, o.message(t, fmt.Sprint("letter-", p.letters)))
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
	p.w.Store, err = p.w.db.Open(store.Options{})
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
				r.state = "sent"
			}
		}
	}
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
	for _, r := range o.outbox {
		if r.ID == m.Facts.TimeoutID && r.Purpose != "" {
			m.DueAt, m.NotDue = r.DueAt, r.DueAt.After(now)
		}
	}
	r := workflow.Apply(o.order, m, o.held)
	first := r.Decisions[0].Outcome
	if first == workflow.Rejected {
		o.rejected++
		if o.revision > 0 {
			o.revision++
		}
		return first
	}
	o.revision++
	o.order = r.Order
	for n, d := range r.Decisions {
		if n > 0 {
			o.held = slices.DeleteFunc(o.held, func(h workflow.Message) bool { return h.ID == d.Message.ID })
			o.journal = slices.DeleteFunc(o.journal, func(line string) bool { return line == d.Message.ID+" Held" })
		}
		o.journal = append(o.journal, d.Message.ID+" "+string(d.Outcome))
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

	var journal, outbox, wantOutbox, held, wantHeld []string
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
