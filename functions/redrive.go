package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"orderflow/workflow"
)

const (
	// defaultRedrive is how many dead letters are brought back at once.
	defaultRedrive = 100
	// mostFailures is after how many that could not be handled a run ends: by
	// then something is wrong that more of them will not mend.
	mostFailures = 3
)

// redriven is what is told of a run that brought dead letters back.
type redriven struct {
	Action   string                   `json:"action"`
	Handled  int                      `json:"handled"`
	Outcomes map[workflow.Outcome]int `json:"outcomes"` // of those
	Failed   []leftBehind             `json:"failed"`   // that are dead letters still
	// More: some of what was asked for may be left, what failed and what comes
	// after it included.
	More    bool     `json:"more"`
	Trouble []string `json:"trouble"` // with the broker
}

// leftBehind is a dead letter that could not be handled, and why.
type leftBehind struct {
	Subscription string               `json:"subscription"`
	Sequence     int64                `json:"sequence"`
	MessageID    string               `json:"messageId"`
	OrderID      string               `json:"orderId"`
	Type         workflow.MessageType `json:"type"`
	Why          string               `json:"why"`
}

// redrive has dead letters handled as if they were delivered now, and takes them
// out at the broker. It needs no Idempotency-Key: what was brought back is not
// there any more, or is a duplicate.
func redrive(c *call) reply {
	w, refusal, may := c.act("subscription", "orderId", "top")
	if !may {
		return refusal
	}
	if w.seen != nil {
		return c.rec.refuse(http.StatusBadRequest, "the header If-Match has no meaning here", "leave it out; a dead letter never changes")
	}
	names := subscriptionNames()
	if one := w.fields["subscription"]; one != "" {
		if !slices.Contains(names, one) {
			return c.rec.refuse(http.StatusBadRequest, "the field subscription names none that is read here", "it is one of "+strings.Join(names, ", "))
		}
		names = []string{one}
	}
	top, fault := topOf(w.fields["top"], defaultRedrive)
	if fault != "" {
		return c.rec.refuse(http.StatusBadRequest, "the field top cannot be "+quote(w.fields["top"]), "top is "+fault)
	}
	if !c.shared.bringing.TryLock() {
		return c.rec.refuse(http.StatusConflict, "dead letters are being brought back already", "wait for that to end, which takes a minute at most, and send the request again")
	}
	defer c.shared.bringing.Unlock()
	defer c.shared.gaveUp.forget()

	told, err := c.bringBack(w, names, top)
	c.rec.more = append(c.rec.more, slog.String("why", w.reason), slog.Int("handled", told.Handled), slog.Int("failed", len(told.Failed)), slog.Bool("more", told.More))
	if err != nil && !errors.Is(err, workflow.ErrNoSubscription) && told.Handled == 0 && len(told.Failed) == 0 {
		return retryLater(c.rec, fmt.Errorf("redrive: %w", err), "the broker cannot be asked at the moment for what it gave up", "send the same request again; nothing is handled twice")
	}
	if err != nil {
		c.rec.because(err)
	}
	c.rec.warn = len(told.Failed) > 0
	return ok(http.StatusOK, told)
}

// bringBack goes through the subscriptions in the order of the story, so that
// what an order heard first it hears first now. It leaves a quarter of the
// invocation to give back what was taken and to answer.
//
// The error is about the last of what went wrong with the broker.
func (c *call) bringBack(w asked, names []string, top int) (told redriven, err error) {
	told = redriven{Action: c.action(), Outcomes: map[workflow.Outcome]int{}, Failed: []leftBehind{}, Trouble: []string{}}
	ctx, stop := context.WithTimeout(c.r.Context(), c.Deadline*3/4)
	defer stop()
	handle := func(ctx context.Context, letter workflow.DeadLetter) error {
		rec := c.redeliver(ctx, letter, w.actor)
		if host, _ := statusOf(rec.outcome); host == http.StatusOK {
			told.Handled++
			told.Outcomes[rec.outcome]++
			return nil
		}
		if ctx.Err() != nil && rec.timed && rec.took < c.letterTime() { // it was cut off, and is among what is left
			told.More = true
			return rec.err
		}
		told.Failed = append(told.Failed, leftBehind{
			letter.Subscription, letter.Delivery.Sequence, letter.ID, letter.OrderID, letter.Type, withoutValues(clip(rec.err.Error())),
		})
		if len(told.Failed) == mostFailures {
			stop()
		}
		return rec.err
	}
	for _, name := range names {
		left := top - told.Handled - len(told.Failed)
		if left <= 0 || ctx.Err() != nil {
			told.More = true // nobody has looked
			break
		}
		more, failed := c.DeadLetters.BringBack(ctx, workflow.BringBack{Subscription: name, OrderID: w.fields["orderId"], Top: left}, handle)
		told.More = told.More || more
		if failed == nil {
			continue
		}
		if ctx.Err() != nil && told.Handled+len(told.Failed) > 0 {
			break // its time was over, or it was stopped: that is no trouble
		}
		err = failed
		told.Trouble = append(told.Trouble, withoutValues(clip(failed.Error())))
		if !errors.Is(failed, workflow.ErrNoSubscription) {
			break
		}
	}
	return told, err
}

// letterTime is how long one dead letter may take.
func (c *call) letterTime() time.Duration { return c.Deadline / 4 }

// redeliver is the way of a dead letter: that of a message the host delivers.
// Who has it brought back is in its log line; in its order's journal it came by
// this function.
func (c *call) redeliver(ctx context.Context, letter workflow.DeadLetter, actor string) *record {
	rec := &record{
		function: c.rec.function, invocation: c.rec.invocation, deadLetter: true,
		more: []slog.Attr{slog.String("action", c.action()), slog.String("actor", clip(actor)), slog.String("subscription", letter.Subscription)},
	}
	got := arrival{envelope: letter.Envelope, delivery: letter.Delivery}
	got.envelope.TraceParent = traceParent(got.envelope.TraceParent)
	got.delivery.Function = rec.function
	got.bound(c.MaxBody)
	ctx, cancel := context.WithTimeout(ctx, c.letterTime())
	defer cancel()
	c.watched(ctx, rec, func() reply {
		c.take(ctx, got, rec)
		return settle(rec)
	})
	return rec
}
