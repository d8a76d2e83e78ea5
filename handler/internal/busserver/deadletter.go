package busserver

import (
	"context"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// deadLetterSource is a source of dead letters. They have no sessions and one
// lock each.
type deadLetterSource struct{ *localbus.DeadLetterReceiver }

// DeadLetter is refused: there is no further place to put a dead letter.
func (deadLetterSource) DeadLetter(context.Context, *localbus.Message, string, string) error {
	return amqp.Errorf(amqp.NotAllowed, "A dead letter cannot be dead-lettered.")
}
