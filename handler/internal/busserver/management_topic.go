package busserver

import (
	"context"
	"time"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// schedule sends messages whose time is in their annotations, and answers with
// their sequence numbers.
func (c *connection) schedule(ctx context.Context, entity address, body amqp.Map) response {
	if entity.subscription != "" {
		return refused(400, amqp.NotAllowed, "Messages are scheduled on a topic.")
	}
	entries, err := all[amqp.Map](body, "messages")
	if err != nil {
		return failedRequest(err)
	}
	var messages []localbus.Message
	for _, entry := range entries {
		encoded, _ := entry.Get("message").([]byte)
		unpacked, err := unpack(encoded, 0)
		if err != nil {
			return failedRequest(err)
		}
		messages = append(messages, unpacked...)
	}
	sequences, err := c.server.bus.Send(ctx, entity.topic, messages...)
	if err != nil {
		return failed(err)
	}
	return answered(amqp.Map{{Key: "sequence-numbers", Value: amqp.ArrayOf(sequences)}})
}

// cancelScheduled removes scheduled messages, in the order of their numbers in
// the request, until one is not there.
func (c *connection) cancelScheduled(ctx context.Context, entity address, body amqp.Map) response {
	sequences, err := all[int64](body, "sequence-numbers")
	if err != nil {
		return failedRequest(err)
	}
	for _, sequence := range sequences {
		if err := c.server.bus.CancelScheduled(ctx, entity.topic, sequence); err != nil {
			return failed(err)
		}
	}
	return answered(amqp.Map{})
}

// peek reads messages without locking them.
func (c *connection) peek(ctx context.Context, entity address, body amqp.Map) response {
	if entity.subscription == "" {
		return refused(400, amqp.NotAllowed, "Messages are peeked at in a subscription.")
	}
	from, _ := body.Get("from-sequence-number").(int64)
	most, _ := body.Get("message-count").(int32)
	session, _ := body.Get("session-id").(string)
	if most <= 0 {
		return refused(400, condArgument, "message-count is missing.")
	}
	messages, err := c.server.bus.PeekFrom(ctx, entity.topic, entity.subscription, localbus.PeekOptions{
		From: from, Most: int(most), SessionID: session, DeadLetters: entity.deadLetters,
	})
	if err != nil {
		return failed(err)
	}
	list := make([]any, 0, len(messages))
	size := 0
	for i := range messages {
		encoded := toWire(&messages[i]).Append(nil)
		if size += len(encoded); size > maxMessageSize && i > 0 {
			break // the client asks again from there
		}
		list = append(list, amqp.Map{{Key: "message", Value: encoded}})
	}
	if len(list) == 0 {
		return response{status: 204, description: "No content", condition: condNoContent}
	}
	return answered(amqp.Map{{Key: "messages", Value: list}})
}

// listSessions names a subscription's sessions, a page at a time. Clients ask
// for all of them with a time beyond the last that .NET knows.
func (c *connection) listSessions(ctx context.Context, entity address, body amqp.Map) response {
	if entity.subscription == "" || entity.deadLetters {
		return refused(400, amqp.NotAllowed, "The entity has no sessions.")
	}
	if since, ok := body.Get("last-updated-time").(time.Time); ok && since.Year() < 9999 {
		return refused(501, amqp.NotImplemented, "When sessions were updated is not known here.")
	}
	skip, _ := body.Get("skip").(int32)
	top, _ := body.Get("top").(int32)
	sessions, err := c.server.bus.Sessions(ctx, entity.topic, entity.subscription)
	if err != nil {
		return failed(err)
	}
	sessions = sessions[min(max(int(skip), 0), len(sessions)):]
	sessions = sessions[:min(max(int(top), 0), len(sessions))]
	if len(sessions) == 0 {
		return response{status: 204, description: "No content", condition: condNoContent}
	}
	return answered(amqp.Map{
		{Key: "skip", Value: skip + int32(len(sessions))},
		{Key: "sessions-ids", Value: amqp.ArrayOf(sessions)},
	})
}
