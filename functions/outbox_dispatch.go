package functions

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"orderflow/workflow"
)

// outboxDispatch sends what the outbox holds, each time its timer ticks: what
// was not sent right after its commit, what is to be tried again, and deadlines
// that have come near. Then it says what is not done.
func outboxDispatch() function {
	return function{name: "outbox-dispatch", serve: posted(drain)}
}

func drain(a App, r *http.Request, rec *record) reply {
	pastDue, err := a.tick(r, rec)
	if err != nil {
		rec.fail(err)
		return settle(rec)
	}
	sent, more, err := a.Outbox.Drain(r.Context())
	rec.more = []slog.Attr{slog.Int("sent", sent), slog.Bool("more", more), slog.Bool("pastDue", pastDue)}
	if err != nil {
		rec.fail(fmt.Errorf("drain the outbox: %w", err))
		return settle(rec)
	}
	a.sayBacklog(r.Context(), rec)
	line := "outbox-dispatch: sent " + strconv.Itoa(sent)
	if more {
		line += ", more is due"
	}
	return settlement(http.StatusOK, line)
}

// sayBacklog adds what is not done yet to the log line. It is a warning when
// something that a person should see to has changed since it was last said, and
// not each time. Not to know it is no failure of the drain.
func (a App) sayBacklog(ctx context.Context, rec *record) {
	if a.Backlog == nil {
		return
	}
	var b workflow.Backlog
	err := contained(func() (err error) {
		b, err = a.Backlog.Backlog(ctx)
		return err
	})
	if err != nil {
		rec.warn = true
		rec.more = append(rec.more, slog.String("backlog", "not counted: "+err.Error()))
		return
	}
	rec.more = append(rec.more, slog.Int("waiting", b.Waiting), slog.Float64("lagMs", milliseconds(b.Lag)),
		slog.Int("dead", b.Dead), slog.Int("blocked", b.Blocked), slog.Int("early", b.Early), slog.Int("overdue", b.Overdue))
	unwell := workflow.Backlog{Dead: b.Dead, Blocked: b.Blocked, Overdue: b.Overdue}
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	rec.warn = unwell != workflow.Backlog{} && unwell != a.shared.said
	a.shared.said = unwell
}
