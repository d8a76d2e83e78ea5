package functions

import (
	"context"
	"time"

	"orderflow/workflow"
)

// ordersPath is where orders are, as callers write it.
const ordersPath = apiPath + "orders"

// listOrders lists orders, the one decided about last first; of those that are
// stuck it comes last.
func listOrders(c *call) reply {
	f := filter{c: c}
	return c.tellOrders(&f, f.search(), f.yes("stuck"))
}

// listStuck lists the orders that are stuck.
func listStuck(c *call) reply {
	f := filter{c: c}
	search := workflow.Search{Statuses: f.statuses(), Prefix: f.prefix(), Top: f.top(), After: f.after()}
	return c.tellOrders(&f, search, true)
}

func (c *call) tellOrders(f *filter, search workflow.Search, stuck bool) reply {
	format := f.format()
	if refusal, ok := f.refusal(); !ok {
		return refusal
	}
	find := c.findOrders
	if stuck {
		find = c.findStuck
	}
	page, err := find(c.r.Context(), search)
	if err != nil {
		return c.readFailed("the orders", err)
	}
	return tellPage(c, columns[workflow.Listed]{
		{"orderId", func(l *workflow.Listed) any { return l.Order.ID }},
		{"status", func(l *workflow.Listed) any { return l.Order.Status }},
		{"version", func(l *workflow.Listed) any { return l.Order.Version }},
		{"revision", func(l *workflow.Listed) any { return l.Revision }},
		{"createdAt", func(l *workflow.Listed) any { return moment(l.CreatedAt) }},
		{"since", func(l *workflow.Listed) any { return moment(l.Since) }},
		{"updatedAt", func(l *workflow.Listed) any { return moment(l.UpdatedAt) }},
		{"deadlineAt", func(l *workflow.Listed) any { return moment(l.DeadlineAt) }},
		{"blockedBy", func(l *workflow.Listed) any { return l.BlockedBy }},
		{"problem", func(l *workflow.Listed) any { return l.Order.Problem }},
		{"stuck", func(l *workflow.Listed) any {
			why := []string{}
			for _, s := range c.stuck(*l) {
				why = append(why, s.Why)
			}
			return why
		}},
	}, page, format)
}

// stuck is why an order is stuck, by the clock of the app.
func (c *call) stuck(l workflow.Listed) []workflow.Stuck {
	var now time.Time
	if c.Now != nil {
		now = c.Now()
	}
	return workflow.WhyStuck(l, now, c.Limits)
}

func (c *call) findOrders(ctx context.Context, search workflow.Search) (page workflow.Page[workflow.Listed], err error) {
	err = c.try(ctx, func(ctx context.Context) (err error) {
		page, err = c.Operators.Orders(ctx, search)
		return err
	})
	return page, err
}

// mostLooks is how many pages of orders are looked through for those that are
// stuck, at most, before an answer is given.
const mostLooks = 10

// findStuck looks for orders that are stuck, beginning with those that nothing
// was decided about for longest: they are the likeliest. A page of them may be
// short, or empty, and not be the last one: only a page without a token is.
// Without statuses it looks through those in which an order waits for something;
// what is left over from one that has ended is counted in the backlog.
func (c *call) findStuck(ctx context.Context, search workflow.Search) (found workflow.Page[workflow.Listed], err error) {
	if search.Statuses == nil && !search.Blocked {
		search.Statuses = waitingStatuses()
	}
	search.Oldest = true
	top := search.Top
	for range mostLooks {
		page, err := c.findOrders(ctx, search)
		if err != nil {
			return found, err
		}
		ill, seen := c.stuckAmong(page.Items, top-len(found.Items))
		if seen < len(page.Items) { // so that the next page goes on behind the last that there is room for
			search.Top = seen
			continue
		}
		found.Items = append(found.Items, ill...)
		found.Next, search.After = page.Next, page.Next
		if page.Next == "" || len(found.Items) == top {
			break
		}
		search.Top = mostTop
	}
	return found, nil
}

// stuckAmong picks out at most so many orders that are stuck, and says how many
// it looked at.
func (c *call) stuckAmong(orders []workflow.Listed, most int) (ill []workflow.Listed, seen int) {
	for _, l := range orders {
		if len(ill) == most {
			break
		}
		if seen++; len(c.stuck(l)) > 0 {
			ill = append(ill, l)
		}
	}
	return ill, seen
}

func waitingStatuses() []workflow.Status {
	var all []workflow.Status
	for _, row := range workflow.Table() {
		if row.WaitsFor != "" {
			all = append(all, row.Status)
		}
	}
	return all
}
