// Package simulation plays the rest of the world for `handler local`: a
// warehouse, a payment service, a shipping service and the customer. What they
// answer is chosen by the order itself, so that every ending can be seen, and
// is the same each time: a command that comes twice gets the same answers with
// the same message IDs.
package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"orderflow/handler/internal/localbus"
	"orderflow/workflow"
)

// Subscriptions are the queues of the other services behind the commands topic,
// and the commands that each takes.
func Subscriptions() []localbus.Subscription {
	return []localbus.Subscription{
		{Name: "inventory", Subjects: []string{"ReserveInventory", "ReleaseInventory"}},
		{Name: "payment", Subjects: []string{"CapturePayment", "RefundPayment"}},
		{Name: "shipping", Subjects: []string{"ShipOrder"}},
		{Name: "order-updates", Subjects: []string{"CancelOrder"}},
	}
}

// World is the rest of the world.
type World struct {
	Bus      *localbus.Bus
	Orders   string // the topic that orders listen to
	Commands string // the topic that the services listen to
	// Pace is how long a service takes for an answer.
	Pace time.Duration
	// Late is how long the late ones take: longer than the order's deadline.
	Late time.Duration
	Now  func() time.Time
	Log  *slog.Logger
}

// sessions is how many orders a service works on at once.
const sessions = 8

// Run answers commands until ctx ends.
func (w World) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range Subscriptions() {
		for range sessions {
			wg.Go(func() { w.serve(ctx, s.Name) })
		}
	}
	wg.Wait()
	return nil
}

// serve works on one order's commands after another's.
func (w World) serve(ctx context.Context, subscription string) {
	for ctx.Err() == nil {
		session, err := w.Bus.AcceptNextSession(ctx, w.Commands, subscription)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, localbus.ErrClosed) {
				w.Log.Error("a simulated service stopped", "service", subscription, "error", err.Error())
			}
			return
		}
		if err := w.work(ctx, session); err != nil && ctx.Err() == nil && !errors.Is(err, localbus.ErrClosed) {
			w.Log.Warn("a simulated service failed", "service", subscription, "error", err.Error())
		}
		_ = session.Close() // its lock ends in any case
	}
}

// idle is how long a service waits for an order's next command.
const idle = 100 * time.Millisecond

func (w World) work(ctx context.Context, session *localbus.Session) error {
	for {
		receive, cancel := context.WithTimeout(ctx, idle)
		m, err := session.Receive(receive)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.answer(ctx, m); err != nil {
			return errors.Join(err, session.Abandon(ctx, m))
		}
		if err := session.Complete(ctx, m); err != nil {
			return err
		}
	}
}

// answer sends what a service has to say about a command. Answers are scheduled
// at the bus, so that they come although this process may be gone by then.
func (w World) answer(ctx context.Context, m *localbus.Message) error {
	var c command
	if err := json.Unmarshal(m.Body, &c); err != nil {
		return fmt.Errorf("read command %s: %w", m.MessageID, err)
	}
	c.ID, c.Type = m.MessageID, m.Subject
	for _, a := range answers(c) {
		body, err := json.Marshal(a.body(c.OrderID))
		if err != nil {
			return err
		}
		after := w.Pace
		if a.late {
			after = w.Late
		}
		properties := map[string]any{workflow.PropertyParent: m.MessageID, workflow.PropertySchema: "1"}
		for _, name := range []string{workflow.PropertyOrigin, workflow.PropertyTrace, workflow.PropertyTraceLegacy} {
			if value, ok := m.Properties[name]; ok {
				properties[name] = value
			}
		}
		_, err = w.Bus.Send(ctx, w.Orders, localbus.Message{
			MessageID: a.id, SessionID: m.SessionID, CorrelationID: m.CorrelationID, Subject: a.subject,
			ContentType: workflow.ContentType, Properties: properties, Body: body, ScheduledAt: w.Now().Add(after),
		})
		if err != nil {
			return fmt.Errorf("answer command %s: %w", m.MessageID, err)
		}
	}
	return nil
}

// Place sends an order as a shop would. Sent twice it is one message.
func (w World) Place(ctx context.Context, s Sample) error {
	id := "shop:order-placed:" + s.OrderID
	_, err := w.Bus.Send(ctx, w.Orders, localbus.Message{
		MessageID: id, SessionID: s.OrderID, CorrelationID: id, Subject: "OrderPlaced", ContentType: workflow.ContentType,
		Properties: map[string]any{workflow.PropertyParent: "self", workflow.PropertyOrigin: "self", workflow.PropertySchema: "1"},
		Body:       s.Body(),
	})
	if err != nil {
		return fmt.Errorf("place %s: %w", s.OrderID, err)
	}
	return nil
}
