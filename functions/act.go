package functions

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"orderflow/workflow"
)

// Operators act on an order in two ways. What the process decides about is a
// message to it like any other: to cancel, to retry a failed undo, to resolve.
// The rest is done beside the process, about one message of the order. Either
// is journalled under a MessageId, by which the same asked twice is done once.

// acted is what an operator is told who was heeded.
type acted struct {
	OrderID   string           `json:"orderId"`
	Action    string           `json:"action"`
	MessageID string           `json:"messageId"` // under which it is journalled
	Outcome   workflow.Outcome `json:"outcome"`
	Reason    string           `json:"reason"`
	From      workflow.Status  `json:"from"`
	To        workflow.Status  `json:"to"`
	Version   int64            `json:"version"` // after it
	// Repeated: it was done before, when this was decided, and not again.
	Repeated bool `json:"repeated"`
}

// possible is workflow.Possible as callers read it: the action's name in the
// path, and the fields of its body besides the reason.
type possible struct {
	Action     string `json:"action"`
	MessageID  string `json:"messageId,omitempty"`
	CommandID  string `json:"commandId,omitempty"`
	DeadlineID string `json:"deadlineId,omitempty"`
	To         string `json:"to,omitempty"`
	// NotBefore is when the broker will have forgotten the command.
	NotBefore *time.Time `json:"notBefore,omitempty"`
}

func (a App) possibilities(s workflow.Story) []possible {
	all := []possible{}
	for _, p := range workflow.Allowed(s) {
		told := possible{Action: p.Action, To: p.To}
		switch p.Action {
		case "send-again", "discard":
			told.CommandID = p.Target
			told.NotBefore = a.notBefore(p)
		case "fire-deadline":
			told.DeadlineID = p.Target
		default:
			told.MessageID = p.Target
		}
		all = append(all, told)
	}
	return all
}

// notBefore is when something will be possible that is not yet, by when the
// command that it is about was sent; nil for what does not have to wait.
func (a App) notBefore(p workflow.Possible) *time.Time {
	if a.DuplicateDetection <= 0 || p.SentAt.IsZero() {
		return nil
	}
	return moment(p.SentAt.Add(a.DuplicateDetection))
}

// cancelOrder asks the process to back the order out, as its customer may.
func cancelOrder(c *call) reply {
	w, refusal, ok := c.act()
	if !ok {
		return refusal
	}
	return c.decideOn(w, workflow.CancellationRequested, workflow.Possible{Action: "cancel"})
}

// retryOrder has a failed undo tried once more, or, with a messageId, the
// message that blocks the order handled again.
func retryOrder(c *call) reply {
	w, refusal, ok := c.act("messageId")
	if !ok {
		return refusal
	}
	if target := w.fields["messageId"]; target != "" {
		return c.actOn(w, workflow.RetryMessage, target)
	}
	return c.decideOn(w, workflow.Retry, workflow.Possible{Action: "retry"})
}

// resolveOrder settles by hand what the order is stuck on.
func resolveOrder(c *call) reply {
	w, refusal, ok := c.act("to")
	if !ok {
		return refusal
	}
	kind, known := map[string]workflow.MessageType{"completed": workflow.ResolveCompleted, "cancelled": workflow.ResolveCancelled}[w.fields["to"]]
	if !known {
		return c.rec.refuse(http.StatusBadRequest, "the field to does not say how the order is resolved", `to is "completed" or "cancelled"`)
	}
	return c.decideOn(w, kind, workflow.Possible{Action: "resolve", To: w.fields["to"]})
}

// skipMessage gives up the message that blocks the order.
func skipMessage(c *call) reply { return c.actOnField(workflow.SkipMessage, "messageId") }

// sendAgain has a dead or unanswered command sent again, under its own
// MessageId.
func sendAgain(c *call) reply { return c.actOnField(workflow.SendAgain, "commandId") }

// discardCommand gives up a dead or unanswered command.
func discardCommand(c *call) reply { return c.actOnField(workflow.DiscardCommand, "commandId") }

func (c *call) actOnField(kind workflow.ActionKind, field string) reply {
	w, refusal, ok := c.act(field)
	if !ok {
		return refusal
	}
	if w.fields[field] == "" {
		return c.rec.refuse(http.StatusBadRequest, "the field "+field+" is missing", "name the message that is meant: the order's story has its ID")
	}
	return c.actOn(w, kind, w.fields[field])
}

// fireDeadline applies the armed deadline at once; with a deadlineId, only if it
// is that one.
func fireDeadline(c *call) reply {
	w, refusal, ok := c.act("deadlineId")
	if !ok {
		return refusal
	}
	return c.actOn(w, workflow.FireDeadline, w.fields["deadlineId"])
}

// decideOn has the process decide about a message of an operator.
func (c *call) decideOn(w asked, kind workflow.MessageType, wants workflow.Possible) reply {
	if kind.Action() && w.seen == nil {
		return c.rec.refuse(http.StatusPreconditionRequired, "this decision is about the order as you saw it, and If-Match does not say which version that was",
			`read the order and send If-Match: "VERSION", or its ETag`)
	}
	story, refusal, ok := c.look()
	if !ok {
		return refusal
	}
	seen := story.Order.Version
	if w.seen != nil {
		seen = *w.seen
	}
	id := w.key
	if id == "" {
		id = workflow.ActionID(c.id, kind, seen)
	}
	c.rec.envelope = workflow.Envelope{OrderID: c.id, ID: id, Type: kind}
	if journalled(story, id) == nil {
		if refusal, ok := c.asSeen(w, story); !ok {
			return refusal
		}
		if !slices.Contains(workflow.Allowed(story), wants) {
			return c.notNow(story, http.StatusConflict, fmt.Sprintf("%s is not possible while the order is %s: %s", wants, story.Order.Status, standing(story)))
		}
	}
	message, err := workflow.Envelope{
		ID: id, Type: kind, OrderID: c.id, Conversation: story.Order.Conversation, OriginID: story.Order.Origin,
		TraceParent: traceParent(c.r.Header.Get("traceparent")),
		Body:        w.body(c.id, kind),
	}.Decode()
	if err != nil {
		return c.rec.refuse(http.StatusBadRequest, err.Error(), "send another Idempotency-Key, or none")
	}
	message.Delivery.Function = c.rec.function
	decision, err := c.decide(c.r.Context(), message)
	if err != nil {
		return c.undecided(err)
	}
	decision.Message = message
	return c.tellActed(decision, w, story)
}

// actOn does something about one message of the order. No target means the
// armed deadline.
func (c *call) actOn(w asked, kind workflow.ActionKind, target string) reply {
	story, refusal, ok := c.look()
	if !ok {
		return refusal
	}
	c.rec.envelope = workflow.Envelope{OrderID: c.id, ID: w.key, Type: workflow.MessageType(kind)}
	before := journalled(story, w.key)
	switch {
	case before == nil:
		if refusal, ok := c.asSeen(w, story); !ok {
			return refusal
		}
		if target == "" {
			target = story.Order.Armed
		}
	case target == "": // what it was about then
		target = before.ParentID
	}
	if target == "" {
		return c.notNow(story, http.StatusConflict, "no deadline is armed: "+standing(story))
	}
	action := workflow.Action{ID: w.key, Kind: kind, OrderID: c.id, Target: target, Reason: w.reason, Actor: w.actor}
	does := c.Operators.Act
	if kind == workflow.FireDeadline {
		does = c.Operators.FireDeadline
	}
	var decision workflow.Decision
	err := c.try(c.r.Context(), func(ctx context.Context) (err error) {
		decision, err = does(ctx, action)
		return err
	})
	if host, _ := statusOf(decision.Outcome); err == nil && host >= 500 {
		err = fmt.Errorf("%w: the outcome is %q", errUndecided, decision.Outcome)
	}
	if err != nil {
		return c.undecided(err)
	}
	return c.tellActed(decision, w, story)
}

// body is the body of an operator's message. The version is in it only where
// the process asks for it: the same request sent again has to be the same
// message, wherever the order has got to meanwhile.
func (w *asked) body(orderID string, kind workflow.MessageType) []byte {
	said := struct {
		OrderID string `json:"orderId"`
		Version *int64 `json:"version,omitempty"`
		Reason  string `json:"reason"`
		Actor   string `json:"actor"`
	}{OrderID: orderID, Reason: w.reason, Actor: w.actor}
	if kind.Action() {
		said.Version = w.seen
	}
	return jsonOf(said)
}

// journalled is what was decided about a MessageId, nil for nothing yet. What
// was refused does not occupy it.
func journalled(s workflow.Story, id string) *workflow.Entry {
	for i := range s.Journal {
		if e := &s.Journal[i]; id != "" && e.MessageID == id && e.Outcome != workflow.Rejected {
			return e
		}
	}
	return nil
}

// asSeen refuses what was decided about an order that has moved on.
func (c *call) asSeen(w asked, s workflow.Story) (refusal reply, ok bool) {
	if w.seen == nil || *w.seen == s.Order.Version {
		return reply{}, true
	}
	return c.notNow(s, http.StatusPreconditionFailed, fmt.Sprintf("the order was seen at version %d and is at version %d now: %s", *w.seen, s.Order.Version, standing(s))), false
}

// notNow refuses an action, and says what is possible instead.
func (c *call) notNow(s workflow.Story, status int, detail string) reply {
	remedy := "nothing is to be done about it now"
	if all := workflow.Allowed(s); len(all) > 0 {
		var words []string
		for _, p := range all {
			word := p.String()
			if from := c.notBefore(p); from != nil {
				word += " (not before " + from.Format(time.RFC3339) + ")"
			}
			words = append(words, word)
		}
		remedy = "possible now: " + strings.Join(words, ", ")
	}
	answer := c.rec.refuse(status, detail, remedy)
	body := answer.body.(problemBody)
	body.Version, body.Allowed = &s.Order.Version, c.possibilities(s)
	answer.body = body
	return answer
}

// standing says in words where an order stands.
func standing(s workflow.Story) string {
	if s.BlockedBy != "" {
		return "message " + s.BlockedBy + " blocks it"
	}
	return workflow.Explain(s.Order).String()
}

// tellActed answers with what was decided. The log is told what was done and by
// whom, and not why: that is in the journal, and may be about people.
func (c *call) tellActed(d workflow.Decision, w asked, s workflow.Story) reply {
	c.rec.decided(d)
	if d.Message.ID != "" {
		c.rec.envelope.ID = d.Message.ID
	}
	if d.Outcome == workflow.Rejected {
		return c.refused(d, w)
	}
	c.rec.reason = ""
	told := acted{c.id, c.action(), c.rec.envelope.ID, d.Outcome, d.Reason, d.From, d.To, d.Version, false}
	if d.Outcome == workflow.Duplicate { // the same answer as then
		before := journalled(s, told.MessageID)
		if before == nil { // it was done since the story was read
			read, refusal, ok := c.look()
			if !ok {
				return refusal
			}
			before = journalled(read, told.MessageID)
		}
		if told.Repeated = true; before != nil {
			told.Outcome, told.Reason, told.From, told.To, told.Version = before.Outcome, before.Reason, before.From, before.To, before.Version
		}
	}
	_, status := statusOf(told.Outcome)
	return ok(status, told)
}

// refused says why an action was refused that was possible a moment ago, or
// that only the database could judge.
func (c *call) refused(d workflow.Decision, w asked) reply {
	defer func(reason string) { c.rec.reason = reason }(c.rec.reason) // without the operator's words
	s, refusal, ok := c.look()
	if !ok {
		return refusal
	}
	if refusal, ok := c.asSeen(w, s); !ok {
		return refusal
	}
	return c.notNow(s, http.StatusConflict, d.Reason)
}

// undecided is the answer when it cannot be told whether it was done.
func (c *call) undecided(err error) reply {
	return retryLater(c.rec, fmt.Errorf("%s: %w", c.action(), err), "it cannot be said at the moment whether it was done",
		"send the same request again, with the same Idempotency-Key if it had one; it will not be done twice")
}

// action is the name of what an operator does, the last part of its path.
func (c *call) action() string {
	return c.at.path[strings.LastIndexByte(c.at.path, '/')+1:]
}
