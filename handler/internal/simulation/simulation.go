// Package simulation plays the rest of the world for `handler local`: a
// warehouse, a payment service, a shipping service and the customer. What they
// answer is chosen by the order itself, so that every ending can be seen, and
// is the same each time: a command that comes twice gets the same answers with
// the same message IDs.
//
// They are ordinary Service Bus clients and know nothing of the bus behind the
// connection.
package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"orderflow/workflow"
)

// Subscription is the queue of one of the services behind the commands topic.
type Subscription struct {
	Name     string
	Commands []workflow.MessageType // what it takes
}

// Subscriptions lists the services' queues.
func Subscriptions() []Subscription {
	return []Subscription{
		{"inventory", []workflow.MessageType{workflow.ReserveInventory, workflow.ReleaseInventory}},
		{"payment", []workflow.MessageType{workflow.CapturePayment, workflow.RefundPayment}},
		{"shipping", []workflow.MessageType{workflow.ShipOrder}},
		{"order-updates", []workflow.MessageType{workflow.CancelOrder}},
	}
}

// ServiceNames reads names of services with commas between them, such as
// "inventory,payment". A service is named as its subscription.
func ServiceNames(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	var all []string
	for _, s := range Subscriptions() {
		all = append(all, s.Name)
	}
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no service %q; there are %s", name, strings.Join(all, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// World is the rest of the world.
type World struct {
	Client   *azservicebus.Client
	Answers  *azservicebus.Sender // to the topic that orders listen to
	Commands string               // the topic that the services listen to
	// Without names the services that are left out: someone else takes their
	// commands.
	Without []string
	// Pace is how long a service takes for an answer.
	Pace time.Duration
	// Late is how long the late ones take: longer than the order's deadline.
	Late time.Duration
	Now  func() time.Time
	Log  *slog.Logger
}

// How a service works.
const (
	sessions = 4                      // orders it works on at once
	idle     = 100 * time.Millisecond // how long it waits for an order's next command
	rest     = 200 * time.Millisecond // how long it waits when the bus does not answer
	settling = 10 * time.Second       // how long one exchange with the bus may take
)

// Run answers commands until ctx ends.
func (w World) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range w.services() {
		for range sessions {
			wg.Go(func() { w.serve(ctx, s.Name) })
		}
	}
	<-ctx.Done() // also when every service is left out
	wg.Wait()
}

// services are those that are played.
func (w World) services() []Subscription {
	return slices.DeleteFunc(Subscriptions(), func(s Subscription) bool { return slices.Contains(w.Without, s.Name) })
}

// serve works on one order's commands after another's.
func (w World) serve(ctx context.Context, subscription string) {
	for ctx.Err() == nil {
		err := w.session(ctx, subscription)
		if err == nil || ctx.Err() != nil {
			continue
		}
		w.Log.Warn("a simulated service failed", "service", subscription, "error", err.Error())
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
}

// session works on the commands of one order.
func (w World) session(ctx context.Context, subscription string) error {
	session, err := w.Client.AcceptNextSessionForSubscription(ctx, w.Commands, subscription, nil)
	var failed *azservicebus.Error
	if errors.As(err, &failed) && failed.Code == azservicebus.CodeTimeout {
		return nil // nobody asks for anything
	}
	if err != nil {
		return fmt.Errorf("accept an order: %w", err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
		defer cancel()
		_ = session.Close(bye) // its lock ends in any case
	}()
	for {
		receive, cancel := context.WithTimeout(ctx, idle)
		messages, err := session.ReceiveMessages(receive, 1, nil) // one, for the order's sake
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive a command: %w", err)
		}
		for _, m := range messages {
			if err := w.answer(ctx, m); err != nil {
				return err // the bus delivers it again when the session is closed
			}
			if err := session.CompleteMessage(ctx, m, nil); err != nil {
				return fmt.Errorf("complete a command: %w", err)
			}
		}
	}
}

// answer sends what a service has to say about a command. Answers are scheduled
// at the bus, so that they come although this process may be gone by then.
func (w World) answer(ctx context.Context, m *azservicebus.ReceivedMessage) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	var c command
	if err := json.Unmarshal(m.Body, &c); err != nil {
		return fmt.Errorf("read command %s: %w", m.MessageID, err)
	}
	c.ID = m.MessageID
	if m.Subject != nil {
		c.Type = workflow.MessageType(*m.Subject)
	}
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
			if value, ok := m.ApplicationProperties[name]; ok {
				properties[name] = value
			}
		}
		reply := message(a.id, c.OrderID, a.subject, body, properties)
		reply.CorrelationID = m.CorrelationID
		if _, err := w.Answers.ScheduleMessages(ctx, []*azservicebus.Message{reply}, w.Now().Add(after), nil); err != nil {
			return fmt.Errorf("answer command %s: %w", m.MessageID, err)
		}
	}
	return nil
}

// Place sends an order as a shop would. Sent twice it is one message.
func (w World) Place(ctx context.Context, s Sample) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	id := "shop:order-placed:" + s.OrderID
	placed := message(id, s.OrderID, workflow.OrderPlaced, s.Body(), map[string]any{
		workflow.PropertyParent: "self", workflow.PropertyOrigin: "self", workflow.PropertySchema: "1",
	})
	placed.CorrelationID = &id
	if err := w.Answers.SendMessage(ctx, placed, nil); err != nil {
		return fmt.Errorf("place %s: %w", s.OrderID, err)
	}
	return nil
}

func message(id, orderID string, subject workflow.MessageType, body []byte, properties map[string]any) *azservicebus.Message {
	contentType, text := workflow.ContentType, string(subject)
	return &azservicebus.Message{
		MessageID: &id, SessionID: &orderID, Subject: &text, ContentType: &contentType,
		Body: body, ApplicationProperties: properties,
	}
}
