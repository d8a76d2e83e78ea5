package busserver

import (
	"context"

	"github.com/google/uuid"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// receiveDeferred takes deferred messages by their numbers, for the receiver
// that the request is about.
func (c *connection) receiveDeferred(ctx context.Context, entity address, r request, body amqp.Map) response {
	sequences, err := all[int64](body, "sequence-numbers")
	if err != nil {
		return failedRequest(err)
	}
	session, _ := body.Get("session-id").(string)
	receiver := c.receiverFor(entity, session, r.link)
	if receiver == nil {
		return failed(localbus.ErrSessionLockLost)
	}
	messages, err := receiver.source.ReceiveDeferred(ctx, sequences...)
	if err != nil {
		return failed(err)
	}
	mode, _ := body.Get("receiver-settle-mode").(uint32)
	andDelete := mode == 0 // first
	list := make([]any, len(messages))
	for i, m := range messages {
		token := amqp.UUID(lockToken(m))
		w := toWire(m)
		w.DeliveryAnnotations = amqp.Map{{Key: amqp.Symbol(annLockToken), Value: token}}
		list[i] = amqp.Map{{Key: "message", Value: w.Append(nil)}, {Key: "lock-token", Value: token}}
		if !andDelete {
			receiver.hold(m)
		} else if err := receiver.source.Complete(ctx, m); err != nil {
			return failed(err)
		}
	}
	return answered(amqp.Map{{Key: "messages", Value: list}})
}

// receiverFor is the receiver that a request is about: that of the session it
// names, else that of the link it names, else any on the entity.
func (c *connection) receiverFor(entity address, session, link string) *receiver {
	var found *receiver
	for _, r := range c.receiversOf(entity) {
		switch {
		case session != "":
			if r.session != nil && r.session.ID() == session {
				return r
			}
		case r.name == link:
			return r
		case r.session == nil:
			found = r
		}
	}
	return found
}

// updateDisposition settles messages by their lock tokens.
func (c *connection) updateDisposition(ctx context.Context, entity address, body amqp.Map) response {
	tokens, err := all[amqp.UUID](body, "lock-tokens")
	if err != nil {
		return failedRequest(err)
	}
	v := verdict{}
	switch status, _ := body.Get("disposition-status").(string); status {
	case "completed":
		v.how = complete
	case "abandoned":
		v.how = abandon
	case "defered": // the service's own spelling
		v.how = setAside
	case "suspended":
		v.how = deadLetter
		v.reason, _ = body.Get("deadletter-reason").(string)
		v.description, _ = body.Get("deadletter-description").(string)
	default:
		return refused(400, condArgument, "disposition-status is not known.")
	}
	for _, token := range tokens {
		r, m := c.holder(entity, token)
		if m == nil {
			return failed(localbus.ErrMessageLockLost)
		}
		r.drop(uuid.UUID(token))
		if err := r.settle(ctx, m, v); err != nil {
			return failed(err)
		}
	}
	return answered(amqp.Map{})
}
