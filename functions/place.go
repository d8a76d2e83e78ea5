package functions

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"orderflow/workflow"
)

// placed is what whoever placed an order is told.
type placed struct {
	OrderID   string           `json:"orderId"`
	Status    workflow.Status  `json:"status"`
	Version   int64            `json:"version"`
	MessageID string           `json:"messageId"` // under which it was placed: the Idempotency-Key, or one made of the order ID
	Outcome   workflow.Outcome `json:"outcome"`
	Reason    string           `json:"reason,omitempty"`
}

// place starts an order as an OrderPlaced message would, and waits for what is
// decided. The same request sent again, after whatever answer or none, is the
// same message: it never starts a second order.
func place(c *call) reply {
	a, r, rec := c.App, c.r, c.rec
	envelope, wrong, err := readOrder(a, r, rec)
	rec.arrived(envelope, workflow.Delivery{Function: rec.function})
	if err != nil {
		return retryLater(rec, fmt.Errorf("read an order: %w", err), "there is no room for the order at the moment", "send it again")
	}
	if wrong != nil {
		return rec.refuse(wrong.Status, wrong.Detail, wrong.Remedy)
	}
	envelope.TraceParent = a.trace(rec)
	message, err := envelope.Decode()
	if err != nil {
		return rec.refuse(http.StatusBadRequest, err.Error(), "mend the order and send it again")
	}
	message.Delivery.Function = rec.function

	decision, err := a.decide(r.Context(), message)
	if err != nil {
		return unknownFate(rec, fmt.Errorf("place an order: %w", err))
	}
	decision.Message = message
	rec.decided(decision)
	_, status := statusOf(decision.Outcome)
	answer := placed{message.OrderID, decision.To, decision.Version, message.ID, decision.Outcome, decision.Reason}
	switch decision.Outcome {
	case workflow.Rejected:
		return problem(status, decision.Reason, "read the order with GET "+ordersPath+"/"+message.OrderID+
			"; a different order needs an orderId and an Idempotency-Key of its own")
	case workflow.Duplicate, workflow.Stale: // decided long ago: say how it stands now
		story, err := a.story(r.Context(), message.OrderID)
		if err != nil {
			return unknownFate(rec, fmt.Errorf("look up an order that was placed before: %w", err))
		}
		answer.Status, answer.Version = story.Order.Status, story.Order.Version
	default: // Applied; or Held or Blocked, and kept until it can be
	}
	made := ok(status, answer)
	made.header.Set("Location", ordersPath+"/"+message.OrderID)
	return made
}

// unknownFate is the answer when it cannot be told whether the order is placed.
func unknownFate(rec *record, err error) reply {
	return retryLater(rec, err, "it cannot be said at the moment whether the order is placed",
		"send the same request again, with the same Idempotency-Key if it had one; it will not be placed twice")
}

// readOrder makes an envelope of a request, or says what is wrong with it. The
// error is about this program's own means.
func readOrder(a App, r *http.Request, rec *record) (workflow.Envelope, *problemBody, error) {
	e := workflow.Envelope{Type: workflow.OrderPlaced, TraceParent: traceParent(r.Header.Get("traceparent"))}
	bad := func(status int, detail, remedy string) (workflow.Envelope, *problemBody, error) {
		return e, &problemBody{Status: status, Detail: detail, Remedy: remedy}, nil
	}

	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || (mediaType != jsonType && !strings.HasSuffix(mediaType, "+json")) {
		return bad(http.StatusUnsupportedMediaType, "the Content-Type does not say JSON", "send the order as "+jsonType)
	}
	key := r.Header.Values("Idempotency-Key")
	if len(key) > 1 || (len(key) == 1 && workflow.IDFault(key[0]) != "") {
		return bad(http.StatusBadRequest, fmt.Sprintf("the header Idempotency-Key is no text of 1 to %d printable characters", workflow.MaxIDLength),
			"send one key, the same whenever the same order is sent, or none")
	}

	// What an order asks for is sent on, and has to fit beside the properties into
	// a message that is no larger.
	largest := a.MaxBody - a.MaxBody/8
	e.Body, err = a.read(r, rec, int64(largest))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return bad(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", largest), "send a smaller order, or several")
	}
	if errors.Is(err, workflow.ErrTransient) {
		return e, nil, err
	}
	if err != nil {
		return bad(http.StatusBadRequest, "the body broke off", "send the request again")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(e.Body, &object); err != nil || object == nil {
		return bad(http.StatusBadRequest, "the body is not a JSON object"+because(err), "send one order as a JSON object")
	}
	if json.Unmarshal(object["orderId"], &e.OrderID) != nil || workflow.OrderIDFault(e.OrderID) != "" {
		return bad(http.StatusBadRequest, fmt.Sprintf("the field orderId is no text of 1 to %d letters, digits and . _ ~ -, or is . or ..", workflow.MaxOrderIDLength),
			"give the order an ID of that form")
	}

	if len(key) == 0 {
		e.ID = "api:order-placed:" + e.OrderID
		return e, nil, nil
	}
	e.ID = key[0]
	if strings.HasPrefix(e.ID, e.OrderID+":") {
		return bad(http.StatusBadRequest, "the Idempotency-Key begins like the IDs that the order gives to its own messages, one of which it would shadow",
			"send a key that does not begin with the orderId and a colon")
	}
	return e, nil, nil
}

// because names a syntax error and where it is.
func because(err error) string {
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Sprintf(": %v at byte %d", syntax, syntax.Offset)
	}
	return ""
}
