package functions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"orderflow/workflow"
)

// Health is open to everybody. So it says in words, not in numbers, how the app
// is, nothing of why the database cannot be reached, and it asks the database no
// more than once a second, however often it is asked.

// health is what is told of it.
type health struct {
	Status   string   `json:"status"`   // alive; ready, degraded or unavailable
	Degraded []string `json:"degraded"` // what a person should see to
	Unknown  []string `json:"unknown,omitempty"`
}

const (
	// healthTimeout bounds how long readiness may take to be found out: whoever
	// probes it does not wait long.
	healthTimeout = 5 * time.Second
	// healthFor is how long it is good for.
	healthFor = time.Second
	// lagLimit is how long a message may wait to be sent before that is told.
	lagLimit = 5 * time.Minute
)

// live says that the process answers, and depends on nothing.
func live(*call) reply { return ok(http.StatusOK, health{Status: "alive", Degraded: []string{}}) }

// ready says whether orders can be worked on: the database can be reached and
// has the schema that this program knows. What is stuck makes it degraded and
// not unready: another instance would find it no better, and this one can still
// handle messages.
func ready(c *call) reply {
	ctx, cancel := context.WithTimeout(c.r.Context(), healthTimeout)
	defer cancel()
	found, err := c.shared.health.find(ctx, c.Now, func() (health, error) { return c.checkHealth(ctx) })
	if err != nil {
		c.rec.fail(fmt.Errorf("be ready: %w", err))
		answer := ok(http.StatusServiceUnavailable, health{Status: "unavailable", Degraded: []string{"the database cannot be worked with"}})
		answer.header.Set("Retry-After", "5")
		return answer
	}
	c.rec.warn = found.Status == "degraded"
	return ok(http.StatusOK, found)
}

func (c *call) checkHealth(ctx context.Context) (health, error) {
	found := health{Status: "ready"}
	if err := c.Database.Ready(ctx); err != nil {
		return found, err
	}
	b, err := c.Backlog.Backlog(ctx) // reads, which Ready of SQLite does not
	if err != nil {
		return found, err
	}
	if _, unknown := c.deadLetterHealth(); unknown != "" { //nolint:contextcheck // a count outlives who asks for it
		found.Unknown = append(found.Unknown, unknown)
	}
	if found.Degraded = c.degradedBy(b); len(found.Degraded) > 0 { //nolint:contextcheck // as above
		found.Status = "degraded"
	}
	return found, nil
}

// degradedBy is what a person should see to, in words; never nil.
func (a App) degradedBy(b workflow.Backlog) []string {
	gaveUp, _ := a.deadLetterHealth()
	all := []string{}
	for _, trouble := range []struct {
		is   bool
		what string
	}{
		{b.Blocked > 0, "orders are blocked by messages that could not be handled"},
		{b.Dead > 0, "the broker refused commands for good"},
		{b.Overdue > 0, "deadlines have passed and have not come back from the broker"},
		{b.Lag > lagLimit, "messages have waited more than 5 minutes to be sent"},
		{gaveUp != "", gaveUp},
	} {
		if trouble.is {
			all = append(all, trouble.what)
		}
	}
	return all
}

// checked is the last health that was found, which those who ask at once share.
type checked struct {
	turn chan struct{} // taken while one looks
	at   time.Time
	last health
	err  error
}

func newChecked() *checked { return &checked{turn: make(chan struct{}, 1)} }

// find is the health as it was found a moment ago, or is now. Without a clock it
// is looked for each time.
func (h *checked) find(ctx context.Context, now func() time.Time, look func() (health, error)) (health, error) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return health{}, fmt.Errorf("%w: another look at the database takes too long", workflow.ErrTransient)
	}
	defer func() { <-h.turn }()
	if now != nil && !h.at.IsZero() && now().Sub(h.at) < healthFor {
		return h.last, h.err
	}
	h.last, h.err = look()
	if ctx.Err() != nil && h.err == nil {
		h.err = errors.New("it took too long")
	}
	if now != nil {
		h.at = now()
	}
	return h.last, h.err
}
