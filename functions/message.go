package functions

import (
	"context"
	"fmt"
	"net/http"

	"orderflow/workflow"
)

// deliver is the way of one message: read, found sound or kept apart, handled,
// settled. A message that can never be accepted is settled too, once it is
// kept; only what may work later is left to the broker to deliver again.
func deliver(a App, r *http.Request, rec *record) reply {
	raw, err := a.read(r, rec, a.MaxRequest)
	if err != nil { // too large, or broken off, or no memory for it: the broker has it still
		rec.fail(fmt.Errorf("read the request: %w", err))
		return settle(rec)
	}
	got := unwrap(raw, r.Header.Get("traceparent"), a.MaxBody)
	got.delivery.Function = rec.function
	a.take(r.Context(), got, rec)
	return settle(rec)
}

// take is the way of a message that has arrived, from wherever.
func (a App) take(ctx context.Context, got arrival, rec *record) {
	rec.arrived(got.envelope, got.delivery)
	got.envelope.TraceParent = a.trace(rec)

	var message workflow.Message
	var refusal string
	err := contained(func() error {
		message, refusal = got.accept(a.decode)
		return nil
	})
	message.Delivery = got.delivery
	switch {
	case err != nil:
		a.unreadable(ctx, got, err, rec)
	case refusal != "":
		a.reject(ctx, workflow.Rejection{
			Envelope: got.envelope, Delivery: got.delivery, Reason: refusal, Fingerprint: message.Fingerprint,
		}, rec)
	default:
		a.handle(ctx, message, rec)
	}
}

// accept is the message that has arrived, or why it can never be accepted.
func (a arrival) accept(decode func(workflow.Envelope) (workflow.Message, error)) (workflow.Message, string) {
	if a.refusal != "" {
		return workflow.Message{}, a.refusal
	}
	message, err := decode(a.envelope)
	if a.envelope.Type.Internal() {
		return message, onlyInside(a.envelope.Type)
	}
	if err != nil {
		return message, err.Error()
	}
	return message, ""
}

func onlyInside(t workflow.MessageType) string {
	return fmt.Sprintf("%s never comes from the broker: it comes through the operator's door only", t)
}

// reject keeps a message apart. Until it is kept, it is not settled.
func (a App) reject(ctx context.Context, rejection workflow.Rejection, rec *record) {
	err := patiently(ctx, func(ctx context.Context) error {
		return a.try(ctx, func(ctx context.Context) error { return a.Process.Reject(ctx, rejection) })
	})
	if err != nil {
		rec.fail(fmt.Errorf("keep a message that is refused (%s): %w", withoutValues(rejection.Reason), err))
		return
	}
	rec.rejected(rejection.Reason)
}
