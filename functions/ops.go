package functions

import (
	"context"

	"orderflow/workflow"
)

// Page draws what operators look at in a browser: a shell that holds no data,
// open to everybody, and what is shown in it. What is drawn of the same data is
// the same. Next of a list is the token of the page after it.
type Page interface {
	// Shell also returns the Content-Security-Policy that it is served with.
	Shell() (html []byte, policy string)
	// Overview shows how all orders stand; of those that are stuck, and of the
	// rejected messages, some, with a Next if there are more. degraded is what
	// health says, deadLetters how many there are, negative as long as that is not
	// known.
	Overview(s workflow.Summary, stuck workflow.Page[workflow.Flagged], rejected workflow.Page[workflow.Refused], degraded []string, deadLetters int) []byte
	Orders(asked workflow.Search, stuck bool, found workflow.Page[workflow.Flagged]) []byte
	Order(s workflow.Story, why []workflow.Stuck) []byte
	// Tabs stands above each list of messages. It takes of the rejected messages
	// and the dead letters what Overview does.
	Tabs(kind string, b workflow.Backlog, rejected workflow.Page[workflow.Refused], deadLetters int) []byte
	// The lists of messages say in kind which one it is, and in first whether it
	// is its first page.
	Dispatches(kind string, deadlines, first bool, page workflow.Page[workflow.DispatchAt]) []byte
	Kept(kind string, first bool, page workflow.Page[workflow.Kept]) []byte
	Rejections(kind string, first bool, page workflow.Page[workflow.Refused]) []byte
	// DeadLetters also takes how many there are, by subscription; one that could
	// not be counted is missing.
	DeadLetters(kind string, first bool, counts map[string]int, page workflow.Page[workflow.DeadLetter]) []byte
	Rejected(workflow.Refused) []byte
}

const htmlType = "text/html; charset=utf-8"

// opsShell is the page itself. It holds no data and needs no key: its script
// asks for what it shows with one.
func opsShell(c *call) reply {
	html, policy := c.Page.Shell()
	answer := c.told(htmlType, html)
	answer.header.Set("Content-Security-Policy", policy)
	answer.header.Set("Referrer-Policy", "no-referrer")
	return answer
}

// drawn is the answer with a part of the page. Opened by itself it may do
// nothing.
func (c *call) drawn(html []byte) reply {
	answer := c.told(htmlType, html)
	answer.header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	answer.header.Set("Referrer-Policy", "no-referrer")
	if name := c.r.Header.Get(signedIn); name != "" {
		answer.header.Set("X-Signed-In", name) // so that the page need not ask who acts
	}
	return answer
}

// Where the numbers of the overview end: what is more is told as "more".
const (
	mostFlagged = 100
	more        = "more" // the Next of a list that does not go on
)

func opsOverview(c *call) reply {
	ctx := c.r.Context()
	s, rejected, err := c.sum(ctx)
	if err != nil {
		return c.readFailed("the summary", err)
	}
	var stuck workflow.Page[workflow.Flagged]
	partial, err := c.eachStuck(ctx, func(l workflow.Listed, why []workflow.Stuck) {
		if len(stuck.Items) == mostFlagged {
			stuck.Next = more
			return
		}
		stuck.Items = append(stuck.Items, workflow.Flagged{Listed: l, Stuck: why})
	})
	if err != nil {
		return c.readFailed("the orders", err)
	}
	if partial {
		stuck.Next = more
	}
	return c.drawn(c.Page.Overview(s, stuck, rejected, c.degradedBy(s.Backlog), c.deadLetterCount()))
}

// flagged is a list of orders with why each is stuck. Its Next is a token.
func (c *call) flagged(found workflow.Page[workflow.Listed]) workflow.Page[workflow.Flagged] {
	page := workflow.Page[workflow.Flagged]{Next: c.token(found.Next)}
	for _, l := range found.Items {
		page.Items = append(page.Items, workflow.Flagged{Listed: l, Stuck: c.stuck(l)})
	}
	return page
}

func opsOrders(c *call) reply {
	f := filter{c: c}
	search, stuck := f.search(), f.yes("stuck")
	if refusal, ok := f.refusal(); !ok {
		return refusal
	}
	find := c.findOrders
	if stuck {
		find = c.findStuck
	}
	found, err := find(c.r.Context(), search)
	if err != nil {
		return c.readFailed("the orders", err)
	}
	return c.drawn(c.Page.Orders(search, stuck, c.flagged(found)))
}

func opsOrder(c *call) reply {
	told, refusal, ok := c.look()
	if !ok {
		return refusal
	}
	return c.drawn(c.Page.Order(told, c.stuck(told.Listed())))
}

// deadLetterCount is how many dead letters were last counted, negative as long
// as that is not known.
func (a App) deadLetterCount() int {
	if a.DeadLetters == nil {
		return -1
	}
	counts, _ := a.deadLettered()
	if counts == nil {
		return -1
	}
	return inAll(counts)
}

// inAll is how many dead letters there are, of all subscriptions.
func inAll(counts map[string]int) (n int) {
	for _, number := range counts {
		n += number
	}
	return n
}

// tabs says how many messages there are of each kind, as far as that is known
// cheaply.
func (c *call) tabs(ctx context.Context, kind string, deadLetters int) ([]byte, error) {
	b, err := c.Backlog.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	rejected, err := c.Operators.Rejections(ctx, mostRejected, "")
	if err != nil {
		return nil, err
	}
	return c.Page.Tabs(kind, b, rejected, deadLetters), nil
}

// opsMessages lists messages of one kind, and how many there are of each.
func opsMessages(c *call) reply {
	f := filter{c: c}
	kind := f.choice("kind", "dead", "blocked", "early", "rejected", "dead-letters", "waiting", "deadlines", "scheduled", "recalled")
	top, after := f.top(), f.after()
	listed, from := f.deadLetters(subscriptionNames(), kind == "dead-letters", after)
	if refusal, ok := f.refusal(); !ok {
		return refusal
	}
	if kind == "dead-letters" {
		return c.opsDeadLetters(kind, listed, from, top, after == "")
	}
	var tabs, html []byte
	gaveUp := c.deadLetterCount()
	err := c.try(c.r.Context(), func(ctx context.Context) (err error) {
		if tabs, err = c.tabs(ctx, kind, gaveUp); err != nil {
			return err
		}
		dispatches := func(state string, deadlines bool) error {
			page, err := c.Operators.Dispatches(ctx, state, deadlines, top, after)
			page.Next = c.token(page.Next)
			html = c.Page.Dispatches(kind, deadlines, after == "", page)
			return err
		}
		kept := func(outcome workflow.Outcome) error {
			page, err := c.Operators.Kept(ctx, outcome, top, after)
			page.Next = c.token(page.Next)
			html = c.Page.Kept(kind, after == "", page)
			return err
		}
		switch kind {
		case "dead":
			return dispatches(workflow.DispatchDead, false)
		case "waiting":
			return dispatches(workflow.DispatchWaiting, false)
		case "deadlines":
			return dispatches(workflow.DispatchWaiting, true)
		case "scheduled":
			return dispatches(workflow.DispatchSent, true)
		case "recalled":
			return dispatches(workflow.DispatchRecall, true)
		case "early":
			return kept(workflow.Held)
		case "blocked":
			return kept(workflow.Blocked)
		}
		page, err := c.Operators.Rejections(ctx, top, after)
		page.Next = c.token(page.Next)
		html = c.Page.Rejections(kind, after == "", page)
		return err
	})
	if err != nil {
		return c.readFailed("the messages", err)
	}
	return c.drawn(append(tabs, html...))
}

// opsDeadLetters lists what the broker gave up.
func (c *call) opsDeadLetters(kind string, listed []string, from int64, top int, first bool) reply {
	ctx := c.r.Context()
	counts, page, err := c.readDeadLetters(ctx, subscriptionNames(), listed, from, top)
	if err != nil {
		return c.readFailed("what the broker gave up", err)
	}
	var tabs []byte
	if err := c.try(ctx, func(ctx context.Context) (err error) {
		tabs, err = c.tabs(ctx, kind, inAll(counts))
		return err
	}); err != nil {
		return c.readFailed("the messages", err)
	}
	page.Next = c.token(page.Next)
	return c.drawn(append(tabs, c.Page.DeadLetters(kind, first, counts, page)...))
}

func opsRejected(c *call) reply {
	m, refusal, ok := c.lookRejected()
	if !ok {
		return refusal
	}
	return c.drawn(c.Page.Rejected(m))
}
