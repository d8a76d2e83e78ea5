package workflow

import (
	"errors"
	"fmt"
)

// Errors that rooms tell apart. They wrap these with what was attempted.
var (
	// ErrNoOrder: nothing is known of an order with this ID.
	ErrNoOrder = errors.New("no such order")
	// ErrNoMessage: no rejected message is kept under this ID.
	ErrNoMessage = errors.New("no such message")
	// ErrNoSubscription: the orders topic at the broker has no such subscription.
	ErrNoSubscription = errors.New("no such subscription at the broker")
	// ErrSettled: a person settled the message already, in another way.
	ErrSettled = errors.New("the message is settled already")
	// ErrBadInput: what was asked makes no sense, and will not later.
	ErrBadInput = errors.New("what was asked makes no sense")
	// ErrTransient: it did not work now and may work later; nothing was
	// written. Whoever asked should ask again.
	ErrTransient = errors.New("not possible at the moment")
	// ErrMessageRefused: the broker refuses this message itself, so sending it
	// again is of little use. Any other failure to send is the entity's
	// trouble, not the message's.
	ErrMessageRefused = errors.New("the broker refuses the message")
	// ErrNeverAccepted: a refusal that no other attempt can change, such as that
	// of a message too large for the broker. It is an ErrMessageRefused too.
	ErrNeverAccepted = fmt.Errorf("%w for good", ErrMessageRefused)
)
