package busserver

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// manage carries out a request to an entity's $management node.
func (c *connection) manage(ctx context.Context, entity address, r request) response {
	body, _ := r.body.(amqp.Map)
	switch r.operation {
	case "com.microsoft:schedule-message":
		return c.schedule(ctx, entity, body)
	case "com.microsoft:cancel-scheduled-message":
		return c.cancelScheduled(ctx, entity, body)
	case "com.microsoft:peek-message":
		return c.peek(ctx, entity, body)
	case "com.microsoft:get-message-sessions":
		return c.listSessions(ctx, entity, body)
	case "com.microsoft:renew-lock":
		return c.renewLocks(ctx, entity, body)
	case "com.microsoft:renew-session-lock":
		return c.inSession(entity, body, func(s *localbus.Session) (amqp.Map, error) {
			err := s.Renew(ctx)
			return amqp.Map{{Key: "expiration", Value: s.LockedUntil()}}, err
		})
	case "com.microsoft:get-session-state":
		return c.inSession(entity, body, func(s *localbus.Session) (amqp.Map, error) {
			state, err := s.State(ctx)
			if state == nil {
				return amqp.Map{{Key: "session-state", Value: nil}}, err
			}
			return amqp.Map{{Key: "session-state", Value: state}}, err
		})
	case "com.microsoft:set-session-state":
		return c.inSession(entity, body, func(s *localbus.Session) (amqp.Map, error) {
			state, _ := body.Get("session-state").([]byte)
			if len(state) == 0 {
				state = nil
			}
			return amqp.Map{}, s.SetState(ctx, state)
		})
	case "com.microsoft:receive-by-sequence-number":
		return c.receiveDeferred(ctx, entity, r, body)
	case "com.microsoft:update-disposition":
		return c.updateDisposition(ctx, entity, body)
	}
	return refused(501, amqp.NotImplemented, fmt.Sprintf("The operation '%s' is not supported.", r.operation))
}

// items is a list or array under a name; nil when there is none.
func items(body amqp.Map, name string) []any {
	switch v := body.Get(name).(type) {
	case []any:
		return v
	case amqp.Array:
		return v.Items
	}
	return nil
}

// all is the items under a name if there are some and all have the type.
func all[T any](body amqp.Map, name string) ([]T, error) {
	list := items(body, name)
	typed := make([]T, len(list))
	for i, item := range list {
		var ok bool
		if typed[i], ok = item.(T); !ok {
			return nil, amqp.Errorf(condArgument, "%s holds a %T.", name, item)
		}
	}
	if len(typed) == 0 {
		return nil, amqp.Errorf(condArgument, "%s is missing.", name)
	}
	return typed, nil
}

// receiversOf are the connection's receivers on an entity.
func (c *connection) receiversOf(entity address) []*receiver {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*receiver
	for r := range c.receivers {
		if r.entity == entity {
			found = append(found, r)
		}
	}
	return found
}

// inSession runs f on the session that the request names, if this connection
// holds it.
func (c *connection) inSession(entity address, body amqp.Map, f func(*localbus.Session) (amqp.Map, error)) response {
	id, _ := body.Get("session-id").(string)
	for _, r := range c.receiversOf(entity) {
		if r.session != nil && r.session.ID() == id {
			answer, err := f(r.session)
			if err != nil {
				return failed(err)
			}
			return answered(answer)
		}
	}
	return failed(localbus.ErrSessionLockLost)
}

// holder is the receiver that holds the message with a lock token.
func (c *connection) holder(entity address, token amqp.UUID) (*receiver, *localbus.Message) {
	for _, r := range c.receiversOf(entity) {
		if m := r.holds(uuid.UUID(token)); m != nil {
			return r, m
		}
	}
	return nil, nil
}

// renewLocks renews the locks of messages that have one of their own, which
// are dead letters.
func (c *connection) renewLocks(ctx context.Context, entity address, body amqp.Map) response {
	tokens, err := all[amqp.UUID](body, "lock-tokens")
	if err != nil {
		return failedRequest(err)
	}
	expirations := make([]time.Time, len(tokens))
	for i, token := range tokens {
		r, m := c.holder(entity, token)
		if m == nil {
			return failed(localbus.ErrMessageLockLost)
		}
		dead, ok := r.source.(deadLetterSource)
		if !ok {
			return refused(400, amqp.NotAllowed, "The message is locked with its session.")
		}
		if expirations[i], err = dead.Renew(ctx, m); err != nil {
			return failed(err)
		}
	}
	return answered(amqp.Map{{Key: "expirations", Value: amqp.ArrayOf(expirations)}})
}

// failedRequest is an error of the request itself as an answer.
func failedRequest(err error) response {
	e := linkError(err)
	return refused(400, e.Condition, e.Description)
}
