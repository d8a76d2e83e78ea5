package functions

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"orderflow/workflow"
)

// listRejected lists the messages that were refused for good and that nobody
// has dealt with, without their bodies.
func listRejected(c *call) reply {
	f := filter{c: c}
	top, after, format := f.top(), f.after(), f.format()
	if refusal, ok := f.refusal(); !ok {
		return refusal
	}
	var page workflow.Page[workflow.Refused]
	err := c.try(c.r.Context(), func(ctx context.Context) (err error) {
		page, err = c.Operators.Rejections(ctx, top, after)
		return err
	})
	if err != nil {
		return c.readFailed("the rejected messages", err)
	}
	return tellPage(c, columns[workflow.Refused]{
		{"id", func(m *workflow.Refused) any { return m.ID }},
		{"firstAt", func(m *workflow.Refused) any { return moment(m.FirstAt) }},
		{"lastAt", func(m *workflow.Refused) any { return moment(m.LastAt) }},
		{"times", func(m *workflow.Refused) any { return m.Times }},
		{"orderId", func(m *workflow.Refused) any { return m.OrderID }},
		{"messageId", func(m *workflow.Refused) any { return m.Rejection.ID }},
		{"type", func(m *workflow.Refused) any { return m.Type }},
		{"reason", func(m *workflow.Refused) any { return m.Reason }},
		{"function", func(m *workflow.Refused) any { return m.Delivery.Function }},
		{"size", func(m *workflow.Refused) any { return m.Size }},
	}, page, format)
}

// rejected is a rejected message with all that is kept of it.
type rejected struct {
	ID           string               `json:"id"`
	FirstAt      *time.Time           `json:"firstAt"`
	LastAt       *time.Time           `json:"lastAt"`
	Times        int                  `json:"times"`
	Reason       string               `json:"reason"`
	OrderID      string               `json:"orderId"` // as it says; it may be anything
	MessageID    string               `json:"messageId"`
	Type         workflow.MessageType `json:"type"`
	Conversation string               `json:"conversation"`
	ParentID     string               `json:"parentId"`
	OriginID     string               `json:"originId"`
	Schema       string               `json:"schemaVersion"`
	Fingerprint  string               `json:"fingerprint"`
	Function     string               `json:"function"`
	Deliveries   int                  `json:"deliveries"`
	Size         int64                `json:"size"` // of the whole body, in bytes
	Body         string               `json:"bodyBase64"`
	Text         *string              `json:"bodyText"` // null unless it is text
	Whole        bool                 `json:"bodyIsWhole"`
}

func showRejected(c *call) reply {
	m, refusal, ok := c.lookRejected()
	if !ok {
		return refusal
	}
	told := rejected{
		ID: m.ID, FirstAt: moment(m.FirstAt), LastAt: moment(m.LastAt), Times: m.Times, Reason: m.Reason,
		OrderID: m.OrderID, MessageID: m.Rejection.ID, Type: m.Type, Conversation: m.Conversation,
		ParentID: m.ParentID, OriginID: m.OriginID, Schema: m.Schema, Fingerprint: m.Fingerprint,
		Function: m.Delivery.Function, Deliveries: m.Delivery.Count,
		Size: m.Size, Body: base64.StdEncoding.EncodeToString(m.Body), Whole: whole(m),
	}
	if isText(m.Body) {
		text := string(m.Body)
		told.Text = &text
	}
	return c.tellJSON(told)
}

func whole(m workflow.Refused) bool { return m.Size == int64(len(m.Body)) }

// isText says whether a person can read these bytes.
func isText(b []byte) bool {
	return utf8.Valid(b) && strings.IndexFunc(string(b), func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	}) < 0
}

// lookRejected is the rejected message that a call is about, or why there is
// none.
func (c *call) lookRejected() (m workflow.Refused, refusal reply, ok bool) {
	if workflow.IDFault(c.id) != "" {
		return m, c.rec.refuse(http.StatusBadRequest, "what stands for a rejected message in the path cannot be the ID of one",
			"take the id from GET "+apiPath+"operations/rejected"), false
	}
	err := c.try(c.r.Context(), func(ctx context.Context) (err error) {
		m, err = c.Operators.Rejection(ctx, c.id)
		return err
	})
	if errors.Is(err, workflow.ErrNoMessage) {
		return m, c.noRejected(), false
	}
	if err != nil {
		return m, c.readFailed("the rejected message", err), false
	}
	c.rec.envelope = m.Envelope
	c.rec.envelope.Body = nil
	return m, reply{}, true
}

func (c *call) noRejected() reply {
	return c.rec.refuse(http.StatusNotFound, "there is no rejected message of this ID",
		"take the id from GET "+apiPath+"operations/rejected; one that was dealt with is not there any more")
}

// actRejected reads a request to settle a rejected message in some way. It is
// refused once the message is settled in the other. There is no version of one
// that could have been seen.
func (c *call) actRejected(how string) (w asked, m workflow.Refused, refusal reply, ok bool) {
	if w, refusal, ok = c.act(); !ok {
		return w, m, refusal, false
	}
	if w.seen != nil {
		return w, m, c.rec.refuse(http.StatusBadRequest, "the header If-Match has no meaning here", "leave it out; a rejected message never changes"), false
	}
	if m, refusal, ok = c.lookRejected(); ok && !m.Open && m.Settled.How != how {
		return w, m, c.settled("it was " + m.Settled.Words()), false
	}
	return w, m, refusal, ok
}

func (c *call) settled(detail string) reply {
	answer := c.rec.refuse(http.StatusConflict, detail, "nothing is to be done about it unless it comes again")
	c.rec.reason = "it is settled already, in another way" // without the operator's words
	return answer
}

// resubmitted is what is told of a rejected message that was handled after all.
type resubmitted struct {
	ID string `json:"id"`
	acted
}

// resubmit handles a rejected message as if it came now: after the program, or
// the order it conflicted with, has been mended. It is marked once it is
// handled; should the process die between the two, it is a duplicate next time.
func resubmit(c *call) reply {
	w, m, refusal, ok := c.actRejected(workflow.SettledByResubmit)
	if !ok {
		return refusal
	}
	conflict := func(detail string) reply {
		return c.rec.refuse(http.StatusConflict, detail, "discard it, and have whoever sent it send it again as it should be")
	}
	if !whole(m) {
		return conflict(fmt.Sprintf("only %d of its %d bytes were kept", len(m.Body), m.Size))
	}
	if m.Type.Internal() {
		return conflict(onlyInside(m.Type))
	}
	message, err := m.Decode()
	if err != nil {
		return conflict(err.Error())
	}
	message.Delivery.Function = c.rec.function
	decision, err := c.decide(c.r.Context(), message)
	if err != nil {
		return c.undecided(err)
	}
	decision.Message = message
	c.rec.decided(decision)
	if decision.Outcome == workflow.Rejected {
		return conflict("it is refused again: " + decision.Reason)
	}
	mark := func(ctx context.Context, id, actor, reason string) error {
		err := c.Operators.Resubmitted(ctx, id, actor, reason)
		if errors.Is(err, workflow.ErrSettled) { // somebody discarded it just now, and it is handled all the same
			return nil
		}
		return err
	}
	return c.dealtWith(mark, w, resubmitted{m.ID, acted{
		message.OrderID, c.action(), message.ID, decision.Outcome, decision.Reason, decision.From, decision.To, decision.Version,
		decision.Outcome == workflow.Duplicate,
	}})
}

// discarded is what is told of a rejected message that was given up.
type discarded struct {
	ID     string `json:"id"`
	Action string `json:"action"`
}

func discardRejected(c *call) reply {
	w, m, refusal, ok := c.actRejected(workflow.SettledByDiscard)
	if !ok {
		return refusal
	}
	return c.dealtWith(c.Operators.Discard, w, discarded{m.ID, c.action()})
}

// dealtWith records what was done with a rejected message.
func (c *call) dealtWith(record func(ctx context.Context, id, actor, reason string) error, w asked, told any) reply {
	err := c.try(c.r.Context(), func(ctx context.Context) error { return record(ctx, c.id, w.actor, w.reason) })
	switch {
	case errors.Is(err, workflow.ErrNoMessage):
		return c.noRejected()
	case errors.Is(err, workflow.ErrSettled): // by somebody else, just now
		return c.settled(err.Error())
	case err != nil:
		return c.undecided(err)
	}
	return ok(http.StatusOK, told)
}
