package functions

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"orderflow/workflow"
)

// deliver is the way of one message: read, found sound or kept apart, handled,
// settled. A message that can never be accepted is settled too, once it is
// kept; only what may work later is left to the broker to deliver again.
func deliver(a App, r *http.Request, rec *record) reply {
	raw, err := io.ReadAll(r.Body)
	if err != nil { // too large, or broken off: the broker has it still
		rec.fail(fmt.Errorf("read the request: %w", err))
		return settle(rec)
	}
	got := unwrap(raw, r.Header.Get("traceparent"), a.MaxBody)
	got.delivery.Function = rec.function
	rec.arrived(got.envelope, got.delivery)

	message, refusal := got.accept()
	message.Delivery = got.delivery
	if refusal != "" {
		a.reject(r.Context(), workflow.Rejection{
			Envelope: got.envelope, Delivery: got.delivery, Reason: refusal, Fingerprint: message.Fingerprint,
		}, rec)
		return settle(rec)
	}
	var decision workflow.Decision
	err = patiently(r.Context(), func(ctx context.Context) (err error) {
		decision, err = a.Process.Handle(ctx, message)
		return err
	})
	if err != nil {
		rec.fail(fmt.Errorf("handle the message: %w", err))
		return settle(rec)
	}
	decision.Message = message // whose words to keep out of the log
	rec.decided(decision)
	return settle(rec)
}

// accept is the message that has arrived, or why it can never be accepted.
func (a arrival) accept() (workflow.Message, string) {
	if a.refusal != "" {
		return workflow.Message{}, a.refusal
	}
	message, err := a.envelope.Decode()
	if a.envelope.Type.Internal() {
		return message, fmt.Sprintf("%s never comes from the broker: it comes through the operator's door only", a.envelope.Type)
	}
	if err != nil {
		return message, err.Error()
	}
	return message, ""
}

// reject keeps a message apart. Until it is kept, it is not settled.
func (a App) reject(ctx context.Context, rejection workflow.Rejection, rec *record) {
	if err := patiently(ctx, func(ctx context.Context) error { return a.Process.Reject(ctx, rejection) }); err != nil {
		rec.fail(fmt.Errorf("keep a message that is refused (%s): %w", withoutValues(rejection.Reason), err))
		return
	}
	rec.rejected(rejection.Reason)
}
