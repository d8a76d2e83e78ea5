package functions

import (
	"context"
	"slices"
	"strings"
	"time"

	"orderflow/workflow"
)

// backlog is workflow.Backlog as callers read it.
type backlog struct {
	Waiting int     `json:"waiting"`
	LagMs   float64 `json:"lagMs"`
	Dead    int     `json:"dead"`
	Blocked int     `json:"blocked"`
	Early   int     `json:"early"`
	Overdue int     `json:"overdue"`
}

func tellBacklog(b workflow.Backlog) backlog {
	return backlog{b.Waiting, milliseconds(b.Lag), b.Dead, b.Blocked, b.Early, b.Overdue}
}

// overview is how all orders stand.
type overview struct {
	ByStatus map[workflow.Status]int `json:"byStatus"`
	Backlog  backlog                 `json:"backlog"`
	// Stuck is how many orders are stuck for each reason. Partial says that not
	// all orders that wait were looked at: there were too many.
	Stuck   map[workflow.StuckKind]int `json:"stuck"`
	Partial bool                       `json:"stuckIsPartial"`
	// Rejected is how many messages were refused that nobody has dealt with, and
	// whether there are more than that.
	Rejected     int  `json:"rejected"`
	MoreRejected bool `json:"rejectedIsPartial"`
	// DeadLetters is how many messages the broker has given up, as it was counted
	// a moment ago; null as long as that is not known.
	DeadLetters *int       `json:"deadLetters"`
	ReadAt      *time.Time `json:"readAt"`
}

// summary counts orders by status, what is not done, and what is stuck.
func summary(c *call) reply {
	ctx := c.r.Context()
	s, rejected, err := c.sum(ctx)
	if err != nil {
		return c.readFailed("the summary", err)
	}
	told := overview{
		ByStatus: make(map[workflow.Status]int), Backlog: tellBacklog(s.Backlog), ReadAt: moment(s.ReadAt),
		Rejected: len(rejected.Items), MoreRejected: rejected.Next != "",
	}
	if n := c.deadLetterCount(); n >= 0 {
		told.DeadLetters = &n
	}
	for _, row := range workflow.Table() {
		told.ByStatus[row.Status] = s.ByStatus[row.Status]
	}
	for status, n := range s.ByStatus { // one of a newer program, too
		told.ByStatus[status] = n
	}
	if told.Stuck, told.Partial, err = c.countStuck(ctx); err != nil {
		return c.readFailed("the orders", err)
	}
	body := jsonOf(told)
	told.ReadAt = nil // the same at another time is the same
	return c.toldAs("W/"+tagOf(jsonOf(told)), jsonType, body)
}

// mostRejected is how many rejected messages are counted.
const mostRejected = 100

// sum is the summary, and some of the messages that were rejected.
func (c *call) sum(ctx context.Context) (s workflow.Summary, rejected workflow.Page[workflow.Refused], err error) {
	err = c.try(ctx, func(ctx context.Context) (err error) {
		if s, err = c.Operators.Summary(ctx); err != nil {
			return err
		}
		rejected, err = c.Operators.Rejections(ctx, mostRejected, "")
		return err
	})
	return s, rejected, err
}

func (c *call) countStuck(ctx context.Context) (count map[workflow.StuckKind]int, partial bool, err error) {
	count = make(map[workflow.StuckKind]int)
	partial, err = c.eachStuck(ctx, func(_ workflow.Listed, why []workflow.Stuck) {
		for _, s := range why {
			count[s.Kind]++
		}
	})
	return count, partial, err
}

// mostCounted is how many pages of orders that wait are counted through: of too
// many those that nothing was decided about for longest.
const mostCounted = 5

// eachStuck finds the orders that are stuck. partial says that not all orders
// that wait were looked at.
func (c *call) eachStuck(ctx context.Context, found func(workflow.Listed, []workflow.Stuck)) (partial bool, err error) {
	search := workflow.Search{Statuses: waitingStatuses(), Oldest: true, Top: mostTop}
	for range mostCounted {
		page, err := c.findOrders(ctx, search)
		if err != nil {
			return false, err
		}
		for _, l := range page.Items {
			if why := c.stuck(l); len(why) > 0 {
				found(l, why)
			}
		}
		if search.After = page.Next; page.Next == "" {
			return false, nil
		}
	}
	return true, nil
}

// listOutbox lists commands that are not sent, or are dead, or were sent.
func listOutbox(c *call) reply {
	f := filter{c: c}
	state := f.choice("state", workflow.DispatchWaiting, workflow.DispatchDead, workflow.DispatchSent, workflow.DispatchRecall)
	return c.tellDispatches(&f, state, state == workflow.DispatchRecall) // only a deadline is ever recalled
}

// listDeadlines lists deadlines: those that wait to be handed to the broker, or
// that the broker holds, or that it is to give back.
func listDeadlines(c *call) reply {
	f := filter{c: c}
	return c.tellDispatches(&f, f.choice("state", workflow.DispatchWaiting, workflow.DispatchSent, workflow.DispatchRecall), true)
}

func (c *call) tellDispatches(f *filter, state string, deadlines bool) reply {
	top, after, format := f.top(), f.after(), f.format()
	if refusal, ok := f.refusal(); !ok {
		return refusal
	}
	var page workflow.Page[workflow.DispatchAt]
	err := c.try(c.r.Context(), func(ctx context.Context) (err error) {
		page, err = c.Operators.Dispatches(ctx, state, deadlines, top, after)
		return err
	})
	if err != nil {
		return c.readFailed("the outbox", err)
	}
	says := columns[workflow.DispatchAt]{
		{"orderId", func(d *workflow.DispatchAt) any { return d.OrderID }},
		{"id", func(d *workflow.DispatchAt) any { return d.ID }},
		{"type", func(d *workflow.DispatchAt) any { return d.Type }},
		{"state", func(d *workflow.DispatchAt) any { return d.State }},
		{"attempts", func(d *workflow.DispatchAt) any { return d.Attempts }},
		{"refusals", func(d *workflow.DispatchAt) any { return d.Refusals }},
		{"deaths", func(d *workflow.DispatchAt) any { return d.Deaths }},
		{"nextAttemptAt", func(d *workflow.DispatchAt) any { return nextAttempt(d.Dispatch) }},
		{"sentAt", func(d *workflow.DispatchAt) any { return moment(d.SentAt) }},
		{"closedAt", func(d *workflow.DispatchAt) any { return moment(d.ClosedAt) }},
		{"lastError", func(d *workflow.DispatchAt) any { return d.LastError }},
	}
	if deadlines {
		says = slices.Insert(says, 3,
			column[workflow.DispatchAt]{"purpose", func(d *workflow.DispatchAt) any { return d.Purpose }},
			column[workflow.DispatchAt]{"dueAt", func(d *workflow.DispatchAt) any { return moment(d.DueAt) }})
	}
	return tellPage(c, says, page, format)
}

// listHeld lists messages that wait: those that came too early, and those in the
// line of a blocked order.
func listHeld(c *call) reply {
	f := filter{c: c}
	kind := f.choice("kind", "all", "early", "blocked")
	top, after, format := f.top(), f.after(), f.format()
	if refusal, ok := f.refusal(); !ok {
		return refusal
	}
	page, err := c.findKept(kind, top, after)
	if err != nil {
		return c.readFailed("what is held", err)
	}
	return tellPage(c, columns[workflow.Kept]{
		{"orderId", func(k *workflow.Kept) any { return k.OrderID }},
		{"messageId", func(k *workflow.Kept) any { return k.ID }},
		{"type", func(k *workflow.Kept) any { return k.Type }},
		{"outcome", func(k *workflow.Kept) any { return k.Outcome }},
		{"reason", func(k *workflow.Kept) any { return k.Reason }},
		{"receivedAt", func(k *workflow.Kept) any { return moment(k.ReceivedAt) }},
		{"function", func(k *workflow.Kept) any { return k.Delivery.Function }},
		{"deliveries", func(k *workflow.Kept) any { return k.Delivery.Count }},
		{"parentId", func(k *workflow.Kept) any { return k.ParentID }},
		{"size", func(k *workflow.Kept) any { return k.Size }},
	}, page, format)
}

// How the place begins where a list of both kinds goes on.
const earlyFrom, lineFrom = "early:", "line:"

// findKept finds messages that wait. Of both kinds the early ones come first; a
// page that they do not fill goes on with the others.
func (c *call) findKept(kind string, top int, after string) (page workflow.Page[workflow.Kept], err error) {
	kept := func(outcome workflow.Outcome, top int, after string) (page workflow.Page[workflow.Kept], err error) {
		err = c.try(c.r.Context(), func(ctx context.Context) (err error) {
			page, err = c.Operators.Kept(ctx, outcome, top, after)
			return err
		})
		return page, err
	}
	switch kind {
	case "early":
		return kept(workflow.Held, top, after)
	case "blocked":
		return kept(workflow.Blocked, top, after)
	}
	after, inLine := strings.CutPrefix(after, lineFrom)
	if !inLine {
		page, err = kept(workflow.Held, top, strings.TrimPrefix(after, earlyFrom))
		switch {
		case err != nil:
			return page, err
		case page.Next != "":
			page.Next = earlyFrom + page.Next
			return page, nil
		case len(page.Items) == top:
			page.Next = lineFrom
			return page, nil
		}
		after = ""
	}
	line, err := kept(workflow.Blocked, top-len(page.Items), after)
	page.Items = append(page.Items, line.Items...)
	if line.Next != "" {
		page.Next = lineFrom + line.Next
	}
	return page, err
}

// status and transition are the process as callers read it.
type (
	status struct {
		Status   workflow.Status        `json:"status"`
		Means    string                 `json:"means"`
		WaitsFor string                 `json:"waitsFor"`
		Deadline workflow.Purpose       `json:"deadline"`
		On       []transition           `json:"on"`
		Stale    []workflow.MessageType `json:"stale"`
		Early    []workflow.MessageType `json:"early"`
	}
	transition struct {
		On   workflow.MessageType `json:"on"`
		To   workflow.Status      `json:"to"` // BackOut and Stay are no statuses: see docs/process.md
		Send workflow.MessageType `json:"send"`
		Why  string               `json:"why"`
	}
)

// showProcess is the process that this program follows.
func showProcess(c *call) reply {
	var all struct {
		Statuses []status `json:"statuses"`
	}
	for _, row := range workflow.Table() {
		s := status{
			Status: row.Status, Means: row.Means, WaitsFor: row.WaitsFor, Deadline: row.Deadline,
			On: []transition{}, Stale: list(row.Stale), Early: list(row.Early),
		}
		for _, t := range row.On {
			s.On = append(s.On, transition(t))
		}
		all.Statuses = append(all.Statuses, s)
	}
	return c.tellJSON(all)
}
