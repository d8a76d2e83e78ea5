package functions

import (
	"fmt"
	"log/slog"
	"net/http"
)

// sweep does what only the passing of time asks for, each time its timer ticks:
// it sends deadlines again that should have come back and did not, gives up
// early messages whose order never started, handles what waits in the line of an
// order that is no longer blocked, and deletes what has been kept long enough. It
// says how much the broker has given up, as far as that is known.
func sweep() function {
	return function{name: "sweep", serve: posted(sweepOnce)}
}

func sweepOnce(a App, r *http.Request, rec *record) reply {
	pastDue, err := a.tick(r, rec)
	if err != nil {
		rec.fail(err)
		return settle(rec)
	}
	did, err := a.Sweeper.Sweep(r.Context())
	rec.more = []slog.Attr{
		slog.Int("resent", did.Resent), slog.Int("tooEarly", did.TooEarly), slog.Int("replayed", did.Replayed),
		slog.Int("purged", did.Purged), slog.Int("forgotten", did.Settled), slog.Bool("more", did.More), slog.Bool("pastDue", pastDue),
	}
	if err != nil {
		rec.fail(fmt.Errorf("sweep: %w", err))
		return settle(rec)
	}
	a.sayDeadLetters(rec)                                     //nolint:contextcheck // a count outlives who asks for it
	rec.warn = rec.warn || did.Resent > 0 || did.TooEarly > 0 // the broker lost one; somebody waits for an order that is not
	line := fmt.Sprintf("sweep: sent %d deadlines again, rejected %d early messages, handled %d that waited, purged %d orders",
		did.Resent, did.TooEarly, did.Replayed, did.Purged)
	if did.More {
		line += ", more is left"
	}
	return settlement(http.StatusOK, line)
}
