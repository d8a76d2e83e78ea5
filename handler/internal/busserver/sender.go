package busserver

import (
	"context"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

const (
	// sendWindow is how many messages or batches of one sender may be
	// unanswered.
	sendWindow = 200
	// batchFormat marks a message whose data sections are messages.
	batchFormat = 0x80013700
)

// serveSender puts what a client sends into a topic, in the order of the link.
// What has come is handled even if the link is gone.
func (c *connection) serveSender(ctx context.Context, l *amqp.Link, a address) {
	if l.Accept(amqp.Reply{Credit: sendWindow, MaxMessageSize: maxMessageSize}) != nil {
		return
	}
	for {
		d, err := l.Next(ctx)
		if err != nil {
			return
		}
		c.take(ctx, l, a, d)
	}
}

// take puts one delivery into the topic and answers it. It does so even when
// ctx has ended.
func (c *connection) take(ctx context.Context, l *amqp.Link, a address, d *amqp.Delivery) {
	messages, err := unpack(d.Payload, d.Format)
	if err != nil {
		_ = d.Settle(amqp.Rejected{Error: linkError(err)}) // fails only when the link is gone
		return
	}
	f := c.server.config.Faults.at(ctx, Event{Moment: Arrived, Address: a.String(), Messages: messages})
	if c.answeredBadly(l, d, f) {
		return
	}
	if _, err := c.server.bus.Send(context.WithoutCancel(ctx), a.topic, messages...); err != nil {
		_ = d.Settle(amqp.Rejected{Error: linkError(err)})
		return
	}
	f = c.server.config.Faults.at(ctx, Event{Moment: Taken, Address: a.String(), Messages: messages})
	if !c.answeredBadly(l, d, f) {
		_ = d.Settle(amqp.Accepted{})
	}
}

// answeredBadly carries out a fault and says whether there was one.
func (c *connection) answeredBadly(l *amqp.Link, d *amqp.Delivery, f Fault) bool {
	switch {
	case c.struck(l, f):
	case f.Refuse != nil:
		_ = d.Settle(amqp.Rejected{Error: f.Refuse})
	case f.LoseAnswer:
		_ = d.Forget()
	default:
		return false
	}
	return true
}

// unpack reads what one delivery holds: a message, or a batch of them.
func unpack(payload []byte, format uint32) ([]localbus.Message, error) {
	outer, err := amqp.DecodeMessage(payload)
	if err != nil {
		return nil, amqp.Errorf(amqp.DecodeFailed, "%s", err)
	}
	if format != batchFormat {
		m, err := fromWire(outer)
		return []localbus.Message{m}, err
	}
	messages := make([]localbus.Message, len(outer.Data))
	for i, data := range outer.Data {
		inner, err := amqp.DecodeMessage(data)
		if err != nil {
			return nil, amqp.Errorf(amqp.DecodeFailed, "message %d of the batch: %s", i, err)
		}
		if messages[i], err = fromWire(inner); err != nil {
			return nil, err
		}
	}
	return messages, nil
}
