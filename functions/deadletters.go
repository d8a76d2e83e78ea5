package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"orderflow/workflow"
)

// DeadLetters are the messages that the broker gave up, of one subscription at a
// time. An error wraps workflow.ErrNoSubscription where there is no such
// subscription, else workflow.ErrTransient.
type DeadLetters interface {
	// Count counts them, up to workflow.DeadLettersCounted.
	Count(ctx context.Context, subscription string) (int, error)
	// List is those from a sequence number on, in their order and without bodies.
	List(ctx context.Context, subscription string, from int64, most int) ([]workflow.DeadLetter, error)
	// BringBack has them handled, each order's in the order in which they came,
	// and takes those out for which handle returns nil. What comes after another
	// one of its order is left with it. It ends with ctx at the latest; more says
	// that some of what was asked for may be left.
	BringBack(ctx context.Context, which workflow.BringBack, handle func(context.Context, workflow.DeadLetter) error) (more bool, err error)
}

const (
	// countTimeout bounds a count of all dead letters.
	countTimeout = 30 * time.Second
	// countedFor is how long it is good for.
	countedFor = time.Minute
)

// gaveUp is what is known of the dead letters. It is found out beside whoever
// wants to know, who takes what was known before.
type gaveUp struct {
	mu      sync.Mutex
	looking bool
	at      time.Time      // when it was last begun to look; zero for never
	counts  map[string]int // by subscription; nil before the first look
	err     error          // why some or all are not known
	said    string         // in the log
}

// deadLettered counts the dead letters as they were a minute ago at most, or
// when the broker could last be asked; nil as long as that is not known. An
// error says which are not.
func (a App) deadLettered() (counts map[string]int, err error) {
	g := &a.shared.gaveUp
	g.mu.Lock()
	defer g.mu.Unlock()
	var now time.Time
	if a.Now != nil {
		now = a.Now()
	}
	if !g.looking && (g.at.IsZero() || now.Sub(g.at) >= countedFor) {
		g.looking, g.at = true, now
		go a.lookAtDeadLetters()
	}
	return g.counts, g.err
}

func (a App) lookAtDeadLetters() {
	ctx, cancel := context.WithTimeout(a.Context, countTimeout)
	defer cancel()
	counts, err := a.countDeadLetters(ctx, subscriptionNames())
	g := &a.shared.gaveUp
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looking, g.counts, g.err = false, counts, err
}

// forget has the dead letters counted when somebody next wants to know.
func (g *gaveUp) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = time.Time{}
}

func subscriptionNames() []string {
	var names []string
	for _, s := range Subscriptions() {
		names = append(names, s.Name)
	}
	return names
}

// countDeadLetters counts those of some subscriptions, all at once. What could
// not be counted is missing.
func (a App) countDeadLetters(ctx context.Context, names []string) (map[string]int, error) {
	numbers, errs := make([]int, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			errs[i] = contained(func() (err error) {
				numbers[i], err = a.DeadLetters.Count(ctx, name)
				return err
			})
		})
	}
	all.Wait()
	counts := make(map[string]int)
	for i, name := range names {
		if errs[i] == nil {
			counts[name] = numbers[i]
		}
	}
	return counts, errors.Join(errs...)
}

// deadLetterHealth says in words what a person should see to, and what is not
// known.
func (a App) deadLetterHealth() (trouble, unknown string) {
	if a.DeadLetters == nil {
		return "", ""
	}
	counts, err := a.deadLettered()
	var with []string
	for _, name := range subscriptionNames() {
		if counts[name] > 0 {
			with = append(with, name)
		}
	}
	if with != nil {
		trouble = "the broker gave up messages for " + strings.Join(with, ", ") + ", which can be brought back"
	}
	if err != nil || counts == nil {
		unknown = "how many messages the broker gave up"
	}
	return trouble, unknown
}

// sayDeadLetters adds them to the log line. It is a warning when there are some
// and that has changed since it was last said.
func (a App) sayDeadLetters(rec *record) {
	if a.DeadLetters == nil {
		return
	}
	counts, err := a.deadLettered()
	if counts == nil {
		return // not before the first look
	}
	total, said := 0, fmt.Sprint(counts)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		total += counts[name]
	}
	rec.more = append(rec.more, slog.Int("deadLettered", total))
	if err != nil {
		rec.more = append(rec.more, slog.String("notCounted", err.Error()))
	}
	g := &a.shared.gaveUp
	g.mu.Lock()
	defer g.mu.Unlock()
	rec.warn = said != g.said && total > 0 || err != nil
	g.said = said
}

// listDeadLetters lists what the broker gave up, a subscription after the other,
// without bodies, and counts it.
func listDeadLetters(c *call) reply {
	f := filter{c: c}
	const all = "all"
	one := f.choice("subscription", append([]string{all}, subscriptionNames()...)...)
	top, after, format := f.top(), f.after(), f.format()
	names := subscriptionNames()
	if one != all {
		names = []string{one}
	}
	listed, from := f.deadLetters(names, true, after)
	if refusal, ok := f.refusal(); !ok {
		return refusal
	}
	counts, page, err := c.readDeadLetters(c.r.Context(), names, listed, from, top)
	if err != nil {
		return c.readFailed("what the broker gave up", err)
	}
	return tellNamed(c, "deadLetters", tellCounts(names, counts), columns[workflow.DeadLetter]{
		{"subscription", func(d *workflow.DeadLetter) any { return d.Subscription }},
		{"sequence", func(d *workflow.DeadLetter) any { return d.Delivery.Sequence }},
		{"messageId", func(d *workflow.DeadLetter) any { return d.ID }},
		{"orderId", func(d *workflow.DeadLetter) any { return d.OrderID }},
		{"type", func(d *workflow.DeadLetter) any { return d.Type }},
		{"enqueuedAt", func(d *workflow.DeadLetter) any { return moment(d.Delivery.EnqueuedAt) }},
		{"reason", func(d *workflow.DeadLetter) any { return d.Reason }},
		{"description", func(d *workflow.DeadLetter) any { return d.Description }},
		{"deliveries", func(d *workflow.DeadLetter) any { return d.Delivery.Count }},
		{"parentId", func(d *workflow.DeadLetter) any { return d.ParentID }},
		{"size", func(d *workflow.DeadLetter) any { return d.Size }},
	}, page, format)
}

// deadLetters is where a list of dead letters goes on that is asked for: with
// which of some subscriptions, and at which of its messages.
func (f *filter) deadLetters(names []string, asked bool, after string) (listed []string, from int64) {
	if !asked || after == "" {
		return names, 0
	}
	name, number, _ := strings.Cut(after, ":")
	sequence, err := strconv.ParseInt(number, 10, 64)
	at := slices.Index(names, name)
	if err != nil || at < 0 {
		f.wrong("continuationToken", "what an answer to the same question gave, with the same filters")
		return nil, 0
	}
	return names[at:], sequence
}

// readDeadLetters counts those of some subscriptions, and lists those from a
// place on. What could not be counted is missing; the error is about all.
func (c *call) readDeadLetters(ctx context.Context, names, listed []string, from int64, top int) (counts map[string]int, page workflow.Page[workflow.DeadLetter], err error) {
	counts, err = c.countDeadLetters(ctx, names)
	if len(counts) == 0 {
		return nil, page, err
	}
	for _, name := range listed {
		if _, known := counts[name]; known && len(page.Items) <= top {
			letters, err := c.DeadLetters.List(ctx, name, from, top+1-len(page.Items))
			if err != nil {
				return nil, page, err
			}
			page.Items = append(page.Items, letters...)
		}
		from = 0
	}
	if len(page.Items) > top {
		next := page.Items[top]
		page.Next = next.Subscription + ":" + strconv.FormatInt(next.Delivery.Sequence, 10)
		page.Items = page.Items[:top]
	}
	return counts, page, nil
}

// tellCounts is the counts as members of a JSON object: null for what could not
// be counted.
func tellCounts(names []string, counts map[string]int) string {
	told := make(map[string]*int)
	for _, name := range names {
		told[name] = nil
		if n, known := counts[name]; known {
			told[name] = &n
		}
	}
	return fmt.Sprintf(`,"counts":%s,"countedUpTo":%d`, jsonOf(told), workflow.DeadLettersCounted)
}
