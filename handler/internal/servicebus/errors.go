package servicebus

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"orderflow/workflow"
)

// classify tells a refusal of the message itself from trouble with the entity
// or on the way, which may pass: a lost connection, throttling, a missing topic,
// a failed login. A refusal that no other attempt changes is told from one that
// another configuration of the entity might. What is not known to be the
// message's fault is not held against it. It is for the answer to a message
// only: that to an attach speaks of the entity, whatever it says.
func classify(err error) error {
	switch {
	case tooLarge(err):
		return fmt.Errorf("%w: %w", workflow.ErrNeverAccepted, inWords(err))
	case refusesMessage(err):
		return fmt.Errorf("%w: %w", workflow.ErrMessageRefused, inWords(err))
	default:
		return inWords(err)
	}
}

// inWords is an error as people read it who see it beside an order: what the
// broker said, where the library shows how it holds that.
func inWords(err error) error {
	var said *amqp.Error
	if !errors.As(err, &said) {
		return err
	}
	return spoken{err, fmt.Sprintf("%s (%s)", said.Description, said.Condition)}
}

type spoken struct {
	error
	words string
}

func (s spoken) Error() string { return s.words }
func (s spoken) Unwrap() error { return s.error }

// classifyAnswer is classify for the answer to a request, to schedule or to
// cancel, of which only the status is known.
func classifyAnswer(err error) error {
	switch {
	case tooLarge(err):
		return fmt.Errorf("%w: %w", workflow.ErrNeverAccepted, err)
	case badRequest(err):
		return fmt.Errorf("%w: %w", workflow.ErrMessageRefused, err)
	default:
		return err
	}
}

// fault is why a message can never be sent, found before it is: the library
// would take an error of encoding for a lost connection, make an ID up where
// there is none, and lose the link over one that is too long.
func fault(out *workflow.Outgoing) error {
	for _, id := range []struct{ name, value string }{{"MessageId", out.ID}, {"SessionId", out.OrderID}} {
		if why := workflow.IDFault(id.value); why != "" {
			return fmt.Errorf("%w: its %s %s", workflow.ErrNeverAccepted, id.name, why)
		}
	}
	texts := out.Properties()
	texts["CorrelationId"], texts["Subject"] = out.Conversation, string(out.Type)
	for name, value := range texts {
		if !utf8.ValidString(value) {
			return fmt.Errorf("%w: its %s is no text", workflow.ErrNeverAccepted, name)
		}
	}
	return nil
}

// tooLarge reports whether the library or the broker finds a message too large.
func tooLarge(err error) bool {
	return errors.Is(err, azservicebus.ErrMessageTooLarge) ||
		!detached(err) && !endsConnection(err) && condition(err) == amqp.ErrCondMessageSizeExceeded
}

func refusesMessage(err error) bool {
	if tooLarge(err) {
		return true
	}
	if detached(err) || endsConnection(err) {
		return false // all that were under way get it, whichever was meant
	}
	switch condition(err) {
	case amqp.ErrCondDecodeError, amqp.ErrCondInvalidField, amqp.ErrCondNotAllowed,
		"com.microsoft:argument-error", "com.microsoft:argument-out-of-range":
		return true
	default:
		return false
	}
}

// badRequest reports whether the broker refuses a request to schedule or to
// cancel for what it says. azservicebus takes that for a lost connection, under
// an error that cannot be unwrapped: then only its text has the status.
func badRequest(err error) bool {
	var failed *azservicebus.Error
	if !errors.As(err, &failed) {
		return false
	}
	_, text, _ := strings.Cut(failed.Error(), ": ")
	return strings.HasPrefix(text, "rpc: failed, status code 400 ")
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
