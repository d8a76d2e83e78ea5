package servicebus

import (
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"orderflow/workflow"
)

// classify tells a refusal of the message itself, which another attempt does
// not change, from trouble with the entity or on the way, which may pass: a
// lost connection, throttling, a missing topic, a failed login. What is not
// known to be the message's fault is not held against it. It is for the answer
// to a message only: that to an attach speaks of the entity, whatever it says.
func classify(err error) error {
	if refusesMessage(err) {
		return fmt.Errorf("%w: %w", workflow.ErrMessageRefused, err)
	}
	return err
}

func refusesMessage(err error) bool {
	if errors.Is(err, azservicebus.ErrMessageTooLarge) {
		return true
	}
	if detached(err) || endsConnection(err) {
		return false // all that were under way get it, whichever was meant
	}
	switch condition(err) {
	case amqp.ErrCondMessageSizeExceeded, amqp.ErrCondDecodeError, amqp.ErrCondInvalidField, amqp.ErrCondNotAllowed,
		"com.microsoft:argument-error", "com.microsoft:argument-out-of-range":
		return true
	default:
		return false
	}
}

// condition is what the broker said, empty if it said nothing. A condition that
// azservicebus does not know it takes for a lost connection, under an error
// that cannot be unwrapped: then only its text has it, and does not show whether
// the link was detached.
func condition(err error) amqp.ErrCond {
	var said *amqp.Error
	if errors.As(err, &said) {
		return said.Condition
	}
	var failed *azservicebus.Error
	if !errors.As(err, &failed) {
		return ""
	}
	_, text, _ := strings.Cut(failed.Error(), "*Error{Condition: ")
	name, _, _ := strings.Cut(text, ",")
	return amqp.ErrCond(name)
}

// endsLink reports whether the link is gone for a reason after which
// azservicebus does not attach anew: one that it takes for final, such as a
// disabled topic or a token that ran out, or for a reason to wait, such as a
// busy server. It would return the same error for ever.
func endsLink(err error) bool {
	var failed *azservicebus.Error // which hides whether the link was detached
	return detached(err) || errors.As(err, &failed) &&
		(failed.Code == azservicebus.CodeUnauthorizedAccess || failed.Code == azservicebus.CodeTimeout)
}

func detached(err error) bool {
	var link *amqp.LinkError
	var session *amqp.SessionError
	return errors.As(err, &link) || errors.As(err, &session)
}

// endsConnection reports the same of the connection, which azservicebus would
// not dial again. Of one that was merely lost it does not show a ConnError.
func endsConnection(err error) bool {
	var closed *amqp.ConnError
	return errors.As(err, &closed)
}
