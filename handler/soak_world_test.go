package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"orderflow/handler/internal/localbus"
	"orderflow/handler/internal/simulation"
	"orderflow/workflow"
	"orderflow/workflow/store/storetest"
)

// rough is the rest of the world on a bad day: services that answer late, twice,
// never, too early, or one thing and then the other. What it does about an order
// follows from the seed and the order; when it gets to it does not.
//
// It speaks to the bus directly. What it is told there is remembered, and so is
// what it really did.
type rough struct {
	bus              *localbus.Bus
	commands, orders string // topics
	seed             uint64
	deadline         time.Duration // an order's, to be late by
	calm             *atomic.Bool
	friendly         bool // everything goes well, and is said once

	mu    sync.Mutex
	heard []storetest.Heard
	done  map[string]*deeds
	said  map[string]int // what was done to answers, by kind
}

// deeds is what really happened about an order: the references that were given,
// and the commands by which they were given back.
type deeds struct{ reserved, released, captured, refunded map[string]bool }

// services are how many orders a service works on at once.
const services = 8

func (w *rough) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range simulation.Subscriptions() {
		for range services {
			wg.Go(func() {
				for ctx.Err() == nil {
					w.session(ctx, s.Name)
				}
			})
		}
	}
	wg.Wait()
}

// session works on the commands of one order, until none comes or the service
// breaks down over one.
func (w *rough) session(ctx context.Context, subscription string) {
	session, err := w.bus.AcceptNextSession(ctx, w.commands, subscription)
	if err != nil {
		return
	}
	defer session.Close()
	for {
		patience, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		m, err := session.Receive(patience)
		cancel()
		if err != nil {
			return
		}
		luck := roll(w.seed, "service", m.MessageID, m.DeliveryCount)
		fails := !w.friendly && !w.calm.Load()
		w.hear(subscription, m)
		if fails && luck < 0.02 {
			_ = session.Abandon(ctx, m) // it comes again
			return
		}
		if err := w.answer(ctx, m); err != nil || fails && luck < 0.04 {
			_ = session.Abandon(context.WithoutCancel(ctx), m)
			return
		}
		if session.Complete(ctx, m) != nil {
			return
		}
	}
}

func (w *rough) hear(by string, m *localbus.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, asHeard(by, m))
}

func asHeard(by string, m *localbus.Message) storetest.Heard {
	return storetest.Heard{By: by, ID: m.MessageID, OrderID: m.SessionID, Type: workflow.MessageType(m.Subject), Body: m.Body}
}

// deeds is what was done about an order; the caller holds the lock.
func (w *rough) deeds(order string) *deeds {
	d := w.done[order]
	if d == nil {
		d = &deeds{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
		w.done[order] = d
	}
	return d
}

// saying is one thing that is said to an order.
type saying struct {
	id     string
	kind   workflow.MessageType
	fields map[string]any
	after  time.Duration
}

// answer does what a command asks for, and says so.
func (w *rough) answer(ctx context.Context, m *localbus.Message) error {
	var c struct{ PaymentID, ReservationID string }
	if err := json.Unmarshal(m.Body, &c); err != nil {
		return err
	}
	order := m.SessionID
	luck := roll(w.seed, "fate", m.MessageID)
	if w.friendly {
		luck = 1
	}
	late := w.deadline + time.Duration(roll(w.seed, "late", m.MessageID)*float64(2*time.Second))
	say := func(n string, kind workflow.MessageType, fields map[string]any) saying {
		return saying{id: m.MessageID + ":" + n, kind: kind, fields: fields}
	}
	lately := func(s saying) saying { s.after = late; return s }
	sorry := map[string]any{"reason": "no luck"}

	w.mu.Lock()
	d := w.deeds(order)
	var all []saying
	switch workflow.MessageType(m.Subject) {
	case workflow.ReserveInventory:
		ref := "reservation-" + order
		yes, no := say("answer", workflow.InventoryReserved, map[string]any{"reservationId": ref}), say("no", workflow.InventoryRejected, sorry)
		if luck >= 0.05 {
			d.reserved[ref] = true
		}
		switch {
		case luck < 0.05:
			all = []saying{no}
		case luck < 0.09:
			all = []saying{lately(yes)}
		case luck < 0.12: // nobody says anything
		case luck < 0.15: // one thing and then the other
			all = []saying{no, lately(yes)}
		case luck < 0.18:
			d.reserved[ref+"-b"] = true
			all = []saying{yes, say("other", workflow.InventoryReserved, map[string]any{"reservationId": ref + "-b"})}
		default:
			all = []saying{yes}
		}
	case workflow.CapturePayment:
		ref := "payment-" + order
		yes, no := say("answer", workflow.PaymentCaptured, map[string]any{"paymentId": ref}), say("no", workflow.PaymentFailed, sorry)
		cancels := say("cancel", workflow.CancellationRequested, sorry)
		if luck >= 0.07 {
			d.captured[ref] = true
		}
		switch {
		case luck < 0.07:
			all = []saying{no}
		case luck < 0.12:
			all = []saying{lately(yes)}
		case luck < 0.15:
		case luck < 0.18:
			all = []saying{no, yes}
		case luck < 0.21:
			d.captured[ref+"-b"] = true
			all = []saying{yes, say("other", workflow.PaymentCaptured, map[string]any{"paymentId": ref + "-b"})}
		case luck < 0.25:
			all = []saying{cancels, yes}
		default:
			all = []saying{yes}
		}
	case workflow.ShipOrder:
		yes := say("answer", workflow.ShipmentConfirmed, map[string]any{"shipmentId": "shipment-" + order})
		no := say("no", workflow.ShipmentFailed, sorry)
		switch {
		case luck < 0.08:
			all = []saying{no}
		case luck < 0.12:
			all = []saying{lately(yes)}
		case luck < 0.16:
		case luck < 0.20:
			all = []saying{no, yes}
		default:
			all = []saying{yes}
		}
	case workflow.RefundPayment:
		yes := say("answer", workflow.PaymentRefunded, map[string]any{"paymentId": c.PaymentID, "refundId": "refund-" + order})
		if w.undo(luck, d.refunded, m.MessageID, &all, yes, late) {
			all = []saying{say("no", workflow.PaymentRefundFailed, map[string]any{"paymentId": c.PaymentID, "commandId": m.MessageID, "reason": "no luck"})}
		}
	case workflow.ReleaseInventory:
		yes := say("answer", workflow.InventoryReleased, map[string]any{"reservationId": c.ReservationID})
		if w.undo(luck, d.released, m.MessageID, &all, yes, late) {
			all = []saying{say("no", workflow.InventoryReleaseFailed, map[string]any{"reservationId": c.ReservationID, "commandId": m.MessageID, "reason": "no luck"})}
		}
	default: // CancelOrder: the customer is told
	}
	w.mu.Unlock()
	for _, s := range all {
		if err := w.say(ctx, order, m, s); err != nil {
			return err
		}
	}
	return nil
}

// undo gives something back, or reports that it fails. A report of failure is
// true: what is said to have failed was not done.
func (w *rough) undo(luck float64, done map[string]bool, id string, all *[]saying, yes saying, late time.Duration) (fails bool) {
	if luck < 0.15 {
		return true
	}
	done[id] = true
	switch {
	case luck < 0.20:
		yes.after = late
		*all = []saying{yes}
	case luck < 0.24:
	default:
		*all = []saying{yes}
	}
	return false
}

// say says something to an order: perhaps later, twice, under another ID, with
// other words or in words that nobody understands.
func (w *rough) say(ctx context.Context, order string, parent *localbus.Message, s saying) error {
	body := map[string]any{"orderId": order}
	maps.Copy(body, s.fields)
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	m := localbus.Message{
		MessageID: s.id, SessionID: order, Subject: string(s.kind), ContentType: workflow.ContentType, Body: text,
		Properties: map[string]any{workflow.PropertySchema: "1"},
	}
	if parent != nil {
		m.CorrelationID = parent.CorrelationID
		m.Properties[workflow.PropertyParent] = parent.MessageID
		if origin, ok := parent.Properties[workflow.PropertyOrigin]; ok {
			m.Properties[workflow.PropertyOrigin] = origin
		}
	}
	chance := func(what string) float64 { return roll(w.seed, what, s.id) }
	after := func(what string, most time.Duration) time.Time {
		return time.Now().Add(s.after + time.Duration(chance(what)*float64(most)))
	}
	all := []localbus.Message{m}
	if s.after > 0 || !w.friendly {
		all[0].ScheduledAt = after("when", 400*time.Millisecond)
	}
	if !w.friendly && !w.calm.Load() {
		add := func(kind string, more localbus.Message) {
			more.ScheduledAt = after(kind, 800*time.Millisecond)
			all = append(all, more)
			w.mu.Lock()
			w.said[kind]++
			w.mu.Unlock()
		}
		if chance("again") < 0.12 {
			add("answers repeated", m)
		}
		if chance("copy") < 0.06 {
			other := m
			other.MessageID += ":copy"
			add("answers under a second ID", other)
		}
		if chance("reword") < 0.03 {
			body["note"] = "in other words"
			other := m
			other.Body, _ = json.Marshal(body)
			add("other contents under an ID", other)
		}
		if chance("garble") < 0.03 {
			other := m
			other.Body = []byte(`{"orderId":`)
			add("broken bodies", other)
		}
	}
	_, err = w.bus.Send(ctx, w.orders, all...)
	return err
}

// foresee says everything about an order before anybody asked, in any order.
func (w *rough) foresee(ctx context.Context, order string) error {
	w.mu.Lock()
	d := w.deeds(order)
	d.reserved["reservation-"+order], d.captured["payment-"+order] = true, true
	w.said["orders foreseen"]++
	w.mu.Unlock()
	all := []saying{
		{id: workflow.CommandID(order, workflow.ReserveInventory, 1) + ":answer", kind: workflow.InventoryReserved, fields: map[string]any{"reservationId": "reservation-" + order}},
		{id: workflow.CommandID(order, workflow.CapturePayment, 1) + ":answer", kind: workflow.PaymentCaptured, fields: map[string]any{"paymentId": "payment-" + order}},
		{id: workflow.CommandID(order, workflow.ShipOrder, 1) + ":answer", kind: workflow.ShipmentConfirmed, fields: map[string]any{"shipmentId": "shipment-" + order}},
	}
	slices.SortFunc(all, func(a, b saying) int {
		if roll(w.seed, "first", a.id) < roll(w.seed, "first", b.id) {
			return -1
		}
		return 1
	})
	for _, s := range all {
		if err := w.say(ctx, order, nil, s); err != nil {
			return err
		}
	}
	return nil
}

// wrongs says of what was given back more often than it had been given.
func (w *rough) wrongs() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for order, d := range w.done {
		if len(d.refunded) > len(d.captured) {
			all = append(all, fmt.Sprintf("%s: captured %v, refunded by %v", order, d.captured, d.refunded))
		}
		if len(d.released) > len(d.reserved) {
			all = append(all, fmt.Sprintf("%s: reserved %v, released by %v", order, d.reserved, d.released))
		}
	}
	return all
}

// orderBody is an OrderPlaced.
func orderBody(order string, amount int) []byte {
	return fmt.Appendf(nil, `{"orderId":%q,"customerId":"c-7","currency":"EUR","amount":%d,"lines":[{"sku":"A/1","quantity":2}]}`, order, amount)
}

// shop places an order, at an instance or over the bus, until it is known to be
// placed.
func (w *rough) shop(ctx context.Context, r *rig, order string) error {
	body := orderBody(order, 12990)
	if roll(w.seed, "door", order) < 0.5 {
		return w.mail(ctx, order, "shop:"+order, body)
	}
	for try := 0; ctx.Err() == nil; try++ {
		at := r.instances[int(roll(w.seed, "instance", order, try)*float64(len(r.instances)))]
		status := at.place(ctx, body)
		if status >= 200 && status < 300 {
			if roll(w.seed, "twice", order) < 0.1 {
				at.place(ctx, body)
			}
			if roll(w.seed, "otherwise", order) < 0.03 {
				at.place(ctx, orderBody(order, 500)) // refused, with the reason
			}
			return nil
		}
		if status >= 400 && status < 500 {
			return fmt.Errorf("%s was refused with %d", order, status)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return errors.New(order + " could not be placed")
}

func (w *rough) mail(ctx context.Context, order, id string, body []byte) error {
	m := localbus.Message{
		MessageID: id, SessionID: order, CorrelationID: "conversation-" + order, Subject: string(workflow.OrderPlaced),
		ContentType: workflow.ContentType, Body: body, Properties: map[string]any{workflow.PropertyOrigin: "self", workflow.PropertySchema: "1"},
	}
	all := []localbus.Message{m}
	if !w.friendly && roll(w.seed, "twice", order) < 0.1 {
		all = append(all, m)
	}
	_, err := w.bus.Send(ctx, w.orders, all...)
	return err
}
