package busserver

import (
	"context"
	"errors"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// Error conditions of Service Bus.
const (
	condTimeout         amqp.Symbol = "com.microsoft:timeout"
	condServerBusy      amqp.Symbol = "com.microsoft:server-busy"
	condSessionLocked   amqp.Symbol = "com.microsoft:session-cannot-be-locked"
	condSessionLockLost amqp.Symbol = "com.microsoft:session-lock-lost"
	condMessageLockLost amqp.Symbol = "com.microsoft:message-lock-lost"
	condMessageNotFound amqp.Symbol = "com.microsoft:message-not-found"
	condNoContent       amqp.Symbol = "com.microsoft:no-content"
	condArgument        amqp.Symbol = "com.microsoft:argument-error"
)

// failure is how an error of the bus is told to clients: on a link by its
// condition, in the answer to a request by its status as well.
type failure struct {
	err         error
	condition   amqp.Symbol
	status      int32
	description string
}

// failures is every error that a client can do something about.
func failures() []failure {
	return []failure{
		{localbus.ErrNotFound, condMessageNotFound, 404, "The message could not be found."},
		{localbus.ErrSessionRequired, amqp.NotAllowed, 400, "The SessionId was not set on a message, and it cannot be sent to the entity. Entities that have session support enabled can only receive messages that have the SessionId set to a valid value."},
		{localbus.ErrSessionLocked, condSessionLocked, 409, "The requested session cannot be accepted. It may be locked by another receiver."},
		{localbus.ErrSessionLockLost, condSessionLockLost, 410, "The session lock has expired on the MessageSession. Accept a new MessageSession."},
		{localbus.ErrMessageLockLost, condMessageLockLost, 410, "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."},
		{localbus.ErrMessageTooLarge, amqp.MessageSizeExceeded, 400, "The message is larger than is allowed."},
		{localbus.ErrInvalidMessage, amqp.InvalidField, 400, "The message is not valid."},
		{localbus.ErrClosed, amqp.DetachForced, 503, "The bus is closing."},
		{context.DeadlineExceeded, condTimeout, 408, "The operation did not complete within the allotted time."},
	}
}

func failureOf(err error) failure {
	for _, f := range failures() {
		if errors.Is(err, f.err) {
			return f
		}
	}
	return failure{err, amqp.InternalError, 500, "The server was unable to process the request."}
}

// linkError is an error of the bus as a link tells it.
func linkError(err error) *amqp.Error {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e
	}
	f := failureOf(err)
	return amqp.Errorf(f.condition, "%s (%s)", f.description, err)
}
