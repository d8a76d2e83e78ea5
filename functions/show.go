package functions

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"orderflow/workflow"
)

// story is workflow.Story as callers read it. Times are RFC 3339 in UTC, null
// where there is none; lists are never null.
type story struct {
	OrderID   string            `json:"orderId"`
	Status    workflow.Status   `json:"status"`
	Meaning   string            `json:"meaning"`
	WaitsFor  string            `json:"waitsFor"` // empty at an end
	Facts     []string          `json:"facts"`
	Version   int64             `json:"version"`
	Revision  int64             `json:"revision"`
	Since     *time.Time        `json:"since"`
	CreatedAt *time.Time        `json:"createdAt"`
	UpdatedAt *time.Time        `json:"updatedAt"`
	Deadline  *deadline         `json:"deadline"`
	Effects   []workflow.Effect `json:"effects"`
	Journal   []entry           `json:"journal"`
	Outbox    []dispatch        `json:"outbox"`
	BlockedBy *blocker          `json:"blockedBy"`
	Line      []string          `json:"line"` // MessageIds: what blocks the order and what waits behind it
	Held      []string          `json:"held"` // MessageIds
	Rejected  []refusal         `json:"rejected"`
	Stuck     []string          `json:"stuck"`   // why it counts as stuck
	Allowed   []possible        `json:"allowed"` // what an operator may do now
}

type deadline struct {
	ID    string     `json:"id"`
	DueAt *time.Time `json:"dueAt"`
}

// blocker is the message that blocks an order, and why it could not be handled.
type blocker struct {
	MessageID string `json:"messageId"`
	Reason    string `json:"reason"`
}

type entry struct {
	At        *time.Time           `json:"at"`
	MessageID string               `json:"messageId"`
	Type      workflow.MessageType `json:"type"`
	ParentID  string               `json:"parentId"`
	Outcome   workflow.Outcome     `json:"outcome"`
	Reason    string               `json:"reason"`
	From      workflow.Status      `json:"from"`
	To        workflow.Status      `json:"to"`
	Version   int64                `json:"version"`
	Emitted   []string             `json:"emitted"`
	Function  string               `json:"function"`
	Actor     string               `json:"actor"` // the operator who asked for it
	Said      string               `json:"said"`  // why it was asked for
}

type dispatch struct {
	ID            string               `json:"id"`
	Type          workflow.MessageType `json:"type"`
	State         string               `json:"state"`
	Attempts      int                  `json:"attempts"`
	Refusals      int                  `json:"refusals"` // of the message itself, by the broker
	NextAttemptAt *time.Time           `json:"nextAttemptAt"`
	SentAt        *time.Time           `json:"sentAt"`
	ClosedAt      *time.Time           `json:"closedAt"` // since when nobody wants it
	LastError     string               `json:"lastError"`
}

type refusal struct {
	At        *time.Time           `json:"at"`
	MessageID string               `json:"messageId"`
	Type      workflow.MessageType `json:"type"`
	Reason    string               `json:"reason"`
	Times     int                  `json:"times"`
}

// show tells the story of one order. Its entity tag begins with the version,
// which is all that If-Match compares.
func show(c *call) reply {
	told, refusal, ok := c.look()
	if !ok {
		return refusal
	}
	text := tell(told)
	text.Allowed = c.possibilities(told)
	for _, s := range c.stuck(told.Listed()) {
		text.Stuck = append(text.Stuck, s.Why)
	}
	body := jsonOf(text)
	return c.toldAs(tagOf(body, strconv.FormatInt(told.Order.Version, 10)), jsonType, body)
}

// history is the journal of an order by itself.
func history(c *call) reply {
	f := filter{c: c}
	format := f.format()
	if refusal, ok := f.refusal(); !ok {
		return refusal
	}
	told, refusal, ok := c.look()
	if !ok {
		return refusal
	}
	return tellPage(c, columns[workflow.Entry]{
		{"at", func(e *workflow.Entry) any { return moment(e.At) }},
		{"messageId", func(e *workflow.Entry) any { return e.MessageID }},
		{"type", func(e *workflow.Entry) any { return e.Type }},
		{"parentId", func(e *workflow.Entry) any { return e.ParentID }},
		{"outcome", func(e *workflow.Entry) any { return e.Outcome }},
		{"reason", func(e *workflow.Entry) any { return e.Reason }},
		{"from", func(e *workflow.Entry) any { return e.From }},
		{"to", func(e *workflow.Entry) any { return e.To }},
		{"version", func(e *workflow.Entry) any { return e.Version }},
		{"emitted", func(e *workflow.Entry) any { return list(e.Emitted) }},
		{"function", func(e *workflow.Entry) any { return e.Function }},
		{"actor", func(e *workflow.Entry) any { return e.Actor }},
		{"said", func(e *workflow.Entry) any { return e.Said }},
	}, workflow.Page[workflow.Entry]{Items: told.Journal}, format)
}

// diagram draws the process, in Mermaid's text, with the order's place marked.
func diagram(c *call) reply {
	told, refusal, ok := c.look()
	if !ok {
		return refusal
	}
	return c.told("text/plain; charset=utf-8", []byte(workflow.MermaidOf(told.Order)))
}

// look is the story of the order that a call is about, or why there is none.
func (c *call) look() (told workflow.Story, refusal reply, ok bool) {
	if refusal, ok := c.aboutOrder(); !ok {
		return told, refusal, false
	}
	told, err := c.story(c.r.Context(), c.id)
	if errors.Is(err, workflow.ErrNoOrder) {
		return told, c.rec.refuse(http.StatusNotFound, "nothing is known of order "+c.id,
			"check the ID, which is case-sensitive; an order is known once it is placed"), false
	}
	if err != nil {
		return told, c.readFailed("the order", err), false
	}
	return told, reply{}, true
}

// story reads the story of an order.
func (a App) story(ctx context.Context, id string) (told workflow.Story, err error) {
	err = a.try(ctx, func(ctx context.Context) (err error) {
		told, err = a.Orders.Story(ctx, id)
		return err
	})
	return told, err
}

func tell(s workflow.Story) story {
	explained := workflow.Explain(s.Order)
	told := story{
		OrderID: s.Order.ID, Status: s.Order.Status,
		Meaning: explained.Meaning, WaitsFor: s.WaitsFor(), Facts: list(explained.Facts),
		Version: s.Order.Version, Revision: s.Revision,
		Since: moment(s.Since), CreatedAt: moment(s.CreatedAt), UpdatedAt: moment(s.UpdatedAt),
		Effects: list(s.Order.Effects),
		Journal: make([]entry, 0, len(s.Journal)), Outbox: make([]dispatch, 0, len(s.Outbox)),
		Line: ids(s.Line), Held: ids(s.Held), Rejected: make([]refusal, 0, len(s.Rejected)),
	}
	if s.Order.Armed != "" {
		told.Deadline = &deadline{s.Order.Armed, moment(s.DeadlineAt)}
	}
	if s.BlockedBy != "" {
		told.BlockedBy = &blocker{MessageID: s.BlockedBy}
	}
	for _, e := range s.Journal {
		if e.Outcome == workflow.Blocked && e.MessageID == s.BlockedBy {
			told.BlockedBy.Reason = e.Reason
		}
		told.Journal = append(told.Journal, entry{
			moment(e.At), e.MessageID, e.Type, e.ParentID, e.Outcome, e.Reason, e.From, e.To, e.Version, list(e.Emitted),
			e.Function, e.Actor, e.Said,
		})
	}
	for _, d := range s.Outbox {
		told.Outbox = append(told.Outbox, dispatch{
			d.ID, d.Type, d.State, d.Attempts, d.Refusals, nextAttempt(d), moment(d.SentAt), moment(d.ClosedAt), d.LastError,
		})
	}
	told.Stuck = []string{}
	for _, r := range s.Rejected {
		told.Rejected = append(told.Rejected, refusal{moment(r.At), r.MessageID, r.Type, r.Reason, r.Times})
	}
	return told
}

func ids(envelopes []workflow.Envelope) []string {
	all := make([]string, 0, len(envelopes))
	for _, e := range envelopes {
		all = append(all, e.ID)
	}
	return all
}

// nextAttempt is when a message may be sent, null once nothing will send it.
func nextAttempt(d workflow.Dispatch) *time.Time {
	if d.State != workflow.DispatchWaiting {
		return nil
	}
	return moment(d.NextAttemptAt)
}

// moment is a time for JSON: in UTC, null where there is none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// list is a list for JSON, where an empty one is [] and not null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
