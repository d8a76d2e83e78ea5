package servicebus

import (
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"orderflow/workflow"
)

// classify tells a refusal of the message itself, which another attempt does
// not change, from trouble with the entity or on the way, which may pass: a
// lost connection, throttling, a missing topic, a failed login. What is not
// known to be the message's fault is not held against it.
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
	var refusal *amqp.Error
	if !errors.As(err, &refusal) {
		return false
	}
	switch refusal.Condition {
	case amqp.ErrCondMessageSizeExceeded, amqp.ErrCondDecodeError, amqp.ErrCondInvalidField, amqp.ErrCondNotAllowed,
		"com.microsoft:argument-error", "com.microsoft:argument-out-of-range":
		return true
	default:
		return false
	}
}
