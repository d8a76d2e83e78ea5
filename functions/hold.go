package functions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"orderflow/workflow"
)

// errUndecided: nothing was decided about a message, and nobody said why.
var errUndecided = errors.New("nothing was decided")

// handle has a message handled, for as long as the invocation lasts if need be.
//
// What could not be handled at the moment is left to the broker, which delivers
// it again, until a late delivery: the broker is about to give it up and to let
// the next of its order overtake it. From then on, and at once where no waiting
// helps, it is kept instead. A dead letter is never late: the broker has given it
// up already and keeps it.
func (a App) handle(ctx context.Context, m workflow.Message, rec *record) {
	late := m.Delivery.Count >= a.HoldFrom && !rec.deadLetter
	trying := ctx
	if deadline, ok := ctx.Deadline(); ok && late { // leave time to keep it
		var cancel context.CancelFunc
		trying, cancel = context.WithDeadline(ctx, deadline.Add(-a.Deadline/4))
		defer cancel()
	}
	var decision workflow.Decision
	err := patiently(trying, func(ctx context.Context) error {
		return contained(func() (err error) {
			decision, err = a.decide(ctx, m)
			return err
		})
	})
	passing := errors.Is(err, workflow.ErrTransient) || errors.Is(err, errUndecided) || trying.Err() != nil
	switch {
	case err == nil:
		decision.Message = m // whose words to keep out of the log
		rec.decided(decision)
	case ctx.Err() != nil, passing && !late:
		rec.fail(fmt.Errorf("handle the message: %w", err))
	default:
		a.hold(ctx, m, err, rec)
	}
}

// decide is one try to have a message handled.
func (a App) decide(ctx context.Context, m workflow.Message) (d workflow.Decision, err error) {
	err = a.try(ctx, func(ctx context.Context) (err error) {
		d, err = a.Process.Handle(ctx, m)
		return err
	})
	if host, _ := statusOf(d.Outcome); err == nil && host >= 500 {
		err = fmt.Errorf("%w: the outcome is %q", errUndecided, d.Outcome)
	}
	return d, err
}

// hold keeps a message that could not be handled. Until it is kept, it is not
// settled.
func (a App) hold(ctx context.Context, m workflow.Message, cause error, rec *record) {
	var decision workflow.Decision
	err := patiently(ctx, func(ctx context.Context) error {
		return contained(func() error {
			return a.try(ctx, func(ctx context.Context) (err error) {
				decision, err = a.Process.Hold(ctx, m, cause.Error())
				return err
			})
		})
	})
	if err != nil {
		rec.fail(fmt.Errorf("handle the message: %w; and keep it: %w", cause, err))
		return
	}
	decision.Message = m
	rec.decided(decision)
	rec.because(fmt.Errorf("handle the message: %w", cause))
}

// unreadable keeps a message that nobody could even read without a panic: it
// waits in its order's line if it can be said whose it is and that it is what it
// says, else it is kept apart.
func (a App) unreadable(ctx context.Context, got arrival, cause error, rec *record) {
	why := got.unfit()
	if why == "" {
		a.hold(ctx, workflow.Message{Envelope: got.envelope, Delivery: got.delivery}, cause, rec)
		return
	}
	a.reject(ctx, workflow.Rejection{
		Envelope: got.envelope, Delivery: got.delivery, Reason: "it could not be read (" + cause.Error() + "), and " + why,
	}, rec)
	if rec.err == nil {
		rec.because(fmt.Errorf("read the message: %w", cause))
	}
}

// unfit says why a message whose body was not read may not wait in an order's
// line, under its MessageId; empty when it may.
func (a *arrival) unfit() string {
	e := &a.envelope
	if why := workflow.IDFault(e.ID); why != "" {
		return "its MessageId " + why
	}
	if why := workflow.OrderIDFault(e.OrderID); why != "" {
		return "its SessionId " + why
	}
	switch {
	case e.Type.Internal():
		return onlyInside(e.Type)
	case strings.HasPrefix(e.ID, e.OrderID+":"):
		return "its MessageId may be one that the order gives to its own messages, which must not be taken for a duplicate of it"
	}
	return ""
}
