package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"orderflow/workflow"
)

const (
	// peekedAtOnce is how many are asked for at a time.
	peekedAtOnce = 250
	// goodbyeTimeout bounds the closing of what was opened. The broker notices in
	// any case.
	goodbyeTimeout = time.Second
)

// DeadLetters are those of the subscriptions of the orders topic. To look at
// them and to take them out needs no more than the right to receive. It has a
// client of its own, so that nothing that goes wrong here disturbs a sender, and
// opens a link for each call. It is safe for concurrent use.
type DeadLetters struct {
	connection Connection
	topic      string
	patience   patience
	// room is how many bytes of messages a run holds at a time that are not
	// handled, or not yet.
	room int

	mu     sync.Mutex
	client *azservicebus.Client
}

// patience is how long the broker is waited for.
type patience struct {
	// answer bounds each look at the dead letters of a subscription, and each
	// message that is settled.
	answer time.Duration
	// empty is how long nothing has to come for there to be nothing: what was
	// seen and does not come is in somebody else's hands.
	empty time.Duration
}

// NewDeadLetters prepares to look. Nothing is dialled yet.
func NewDeadLetters(c Connection, topic string) (*DeadLetters, error) {
	client, err := NewClient(c)
	if err != nil {
		return nil, err
	}
	return &DeadLetters{
		connection: c, topic: topic, client: client,
		patience: patience{answer: 5 * time.Second, empty: 2 * time.Second},
		room:     32 << 20,
	}, nil
}

// Count counts the dead letters of a subscription, up to
// workflow.DeadLettersCounted.
func (d *DeadLetters) Count(ctx context.Context, subscription string) (n int, err error) {
	err = d.open(ctx, subscription, func(r *azservicebus.Receiver) error {
		return d.patience.browse(ctx, r, 0, workflow.DeadLettersCounted, func(*azservicebus.ReceivedMessage) { n++ })
	})
	if err != nil {
		return 0, fmt.Errorf("count the dead letters of %s: %w", subscription, err)
	}
	return n, nil
}

// List is the dead letters of a subscription from a sequence number on, most of
// them at most, without their bodies. They stay where they are.
func (d *DeadLetters) List(ctx context.Context, subscription string, from int64, most int) (all []workflow.DeadLetter, err error) {
	err = d.open(ctx, subscription, func(r *azservicebus.Receiver) error {
		return d.patience.browse(ctx, r, from, most, func(m *azservicebus.ReceivedMessage) {
			letter := deadLetter(subscription, m)
			letter.Body = nil
			all = append(all, letter)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the dead letters of %s: %w", subscription, err)
	}
	return all, nil
}

// open does something with a receiver of dead letters. An error wraps
// workflow.ErrNoSubscription if the subscription is not there, else
// workflow.ErrTransient: whatever is wrong with the broker may be mended.
func (d *DeadLetters) open(ctx context.Context, subscription string, do func(*azservicebus.Receiver) error) error {
	d.mu.Lock()
	client := d.client
	d.mu.Unlock()
	r, err := client.NewReceiverForSubscription(d.topic, subscription, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	if err == nil {
		err = do(r)
		bye, done := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTimeout)
		defer done()
		_ = r.Close(bye) // what it fails at is gone
	}
	if endsConnection(err) {
		d.replace(ctx, client)
	}
	switch {
	case err == nil:
		return nil
	case notFound(err):
		return fmt.Errorf("%w: %w", workflow.ErrNoSubscription, err)
	default:
		return fmt.Errorf("%w: %w", workflow.ErrTransient, err)
	}
}

// notFound reports whether the broker says so of what was opened; a connection it
// may close for the same reason.
func notFound(err error) bool {
	var failed *azservicebus.Error
	return !endsConnection(err) && (errors.As(err, &failed) && failed.Code == azservicebus.CodeNotFound || condition(err) == amqp.ErrCondNotFound)
}

// replace makes another client, unless that was done since this one was in use.
func (d *DeadLetters) replace(ctx context.Context, used *azservicebus.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != used {
		return
	}
	client, err := NewClient(d.connection)
	if err != nil {
		return // it was possible before; the next error tries again
	}
	d.client = client
	bye, done := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTimeout)
	defer done()
	_ = used.Close(bye)
}

// Close closes the client.
func (d *DeadLetters) Close(ctx context.Context) error {
	d.mu.Lock()
	client := d.client
	d.mu.Unlock()
	return client.Close(ctx)
}

// browse calls each with the dead letters from a sequence number on, in their
// order, most of them at most. Those that somebody has locked or set aside are
// among them.
func (p patience) browse(ctx context.Context, r *azservicebus.Receiver, from int64, most int, each func(*azservicebus.ReceivedMessage)) error {
	for n := 0; n < most; {
		got, err := p.peek(ctx, r, from, min(most-n, peekedAtOnce))
		if err != nil {
			return err
		}
		before := n
		for _, m := range got {
			if m.SequenceNumber == nil || *m.SequenceNumber < from {
				continue // no broker says so; it would go round for ever
			}
			from = *m.SequenceNumber + 1
			n++
			each(m)
		}
		if n == before {
			return nil
		}
	}
	return nil
}

func (p patience) peek(ctx context.Context, r *azservicebus.Receiver, from int64, most int) (got []*azservicebus.ReceivedMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.answer)
	defer cancel()
	defer contain(&err)
	return r.PeekMessages(ctx, most, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
}

// contain makes an error of a panic: the library takes what the broker says of a
// message to be of the right type, and a property DeadLetterReason may be
// anything.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("a dead letter cannot be read: %v", p)
	}
}

// deadLetter is a message as it lies there. Identities that are no texts are
// written as the host writes them.
func deadLetter(subscription string, m *azservicebus.ReceivedMessage) workflow.DeadLetter {
	letter := workflow.DeadLetter{Subscription: subscription, Reason: value(m.DeadLetterReason), Description: value(m.DeadLetterErrorDescription)}
	e := &letter.Envelope
	if p := m.RawAMQPMessage.Properties; p != nil {
		e.ID, e.Conversation = text(p.MessageID), text(p.CorrelationID)
	}
	e.Type, e.OrderID = workflow.MessageType(value(m.Subject)), value(m.SessionID)
	property := func(name string) string { return text(m.ApplicationProperties[name]) }
	e.ParentID, e.OriginID, e.Schema = property("ParentMessageId"), property("OriginatingMessageId"), property("SchemaVersion")
	if e.TraceParent = property("traceparent"); e.TraceParent == "" {
		e.TraceParent = property("Diagnostic-Id")
	}
	e.Body = bodyOf(m.RawAMQPMessage)
	letter.Size = len(e.Body)
	letter.Delivery = workflow.Delivery{
		Count: int(m.DeliveryCount), Sequence: value(m.SequenceNumber), EnqueuedAt: value(m.EnqueuedTime).UTC(),
	}
	return letter
}

// value is what p points at, zero for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// text is a text or number as a text; empty for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case amqp.UUID:
		return v.String()
	case int8, int16, int32, int64, int, uint8, uint16, uint32, uint64, uint, float32, float64:
		return fmt.Sprint(v)
	default:
		return ""
	}
}

// bodyOf is the bytes of a body. One that is not made of bytes is given as text,
// so that there is something to keep of it.
func bodyOf(m *azservicebus.AMQPAnnotatedMessage) (body []byte) {
	for _, data := range m.Body.Data {
		body = append(body, data...)
	}
	switch {
	case m.Body.Value != nil:
		return fmt.Append(nil, m.Body.Value)
	case m.Body.Sequence != nil:
		return fmt.Append(nil, m.Body.Sequence)
	}
	return body
}
