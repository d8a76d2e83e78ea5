package functions

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
)

// outboxDispatch sends what the outbox holds, each time its timer ticks: what
// was not sent right after its commit, what is to be tried again, and deadlines
// that have come near.
func outboxDispatch() function {
	return function{name: "outbox-dispatch", serve: posted(drain)}
}

// tick is what the timer says of itself. It is noted and decides nothing: the
// outbox knows what is due, and a drain too many does no harm.
type tick struct {
	Data struct {
		Timer struct{ IsPastDue bool } `json:"timer"`
	}
}

func drain(a App, r *http.Request, rec *record) reply {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		rec.fail(fmt.Errorf("read the timer's request: %w", err))
		return settle(rec)
	}
	var t tick
	if err := json.Unmarshal(raw, &t); err != nil {
		rec.reason = "the timer's request could not be read; drained all the same"
	}
	sent, more, err := a.Outbox.Drain(r.Context())
	rec.more = []slog.Attr{slog.Int("sent", sent), slog.Bool("more", more), slog.Bool("pastDue", t.Data.Timer.IsPastDue)}
	if err != nil {
		rec.fail(fmt.Errorf("drain the outbox: %w", err))
		return settle(rec)
	}
	line := "outbox-dispatch: sent " + strconv.Itoa(sent)
	if more {
		line += ", more is due"
	}
	return settlement(http.StatusOK, line)
}
