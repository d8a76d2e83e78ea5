package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"orderflow/handler/internal/simulation"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// watch places the sample orders, tells what happens, plays the operator where
// a sample needs one, and with -exit decides when all is said.
func (l *localSystem) watch(ctx context.Context, db *store.Store, front, broker net.Addr) error {
	l.greet(front, broker)
	before, err := db.List(ctx)
	if err != nil {
		return err
	}
	if len(before) > 0 {
		fmt.Fprintf(l.out, "Orders of earlier runs: %d. Those that are not at rest go on (-fresh forgets them all):\n", len(before))
	}
	for _, o := range before {
		story, err := db.Story(ctx, o.ID)
		if err != nil {
			return err
		}
		l.story.recall(story)
		l.story.heard(o.ID)
	}
	if !l.flags.empty {
		for _, s := range simulation.Samples() {
			if err := l.world.Place(ctx, s); err != nil {
				return err
			}
		}
	}
	check := time.NewTicker(200 * time.Millisecond) // all at rest is a state, not an event
	defer check.Stop()
	resting := false
	limit := time.NewTimer(l.flags.limit)
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(l.out, "\nStopped. Started again, it goes on where it was.")
			return nil
		case <-l.story.news:
			if err := l.tell(ctx, db); err != nil && ctx.Err() == nil {
				return err
			}
		case <-check.C:
			done, err := l.finished(ctx, db)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if done {
				_ = l.tell(ctx, db) // what is left to tell is for show
			}
			if done && l.flags.exit {
				return l.verdict(ctx, db)
			}
			if done && !resting {
				fmt.Fprint(l.out, "\nEvery order is at rest. Place one, or stop with Ctrl-C.\n\n")
			}
			resting = done
		case <-limit.C:
			if l.flags.exit {
				return errors.Join(l.restless(ctx, db), ctx.Err())
			}
		}
	}
}

func (l *localSystem) greet(front, broker net.Addr) {
	fmt.Fprintf(l.out, "Orderflow runs on embedded parts. Databases and logs: %s\n", l.flags.dir)
	fmt.Fprintf(l.out, "Service Bus clients: %s\n", busConnection(broker))
	look := simulation.Samples()[0]
	if l.flags.empty {
		look = simulation.Sample{OrderID: "order-42", SKU: "A/1", Customer: "ada"}
		fmt.Fprintf(l.out, "Place an order:\n  curl -i http://%s/api/orders -H 'Content-Type: application/json' -d '%s'\n", front, look.Body())
	}
	fmt.Fprintf(l.out, "Look at one:\n  curl http://%s/api/orders/%s\n", front, look.OrderID)
	fmt.Fprintf(l.out, "Or at all of them, in a browser:\n  http://%s/api/ops\n", front)
	fmt.Fprint(l.out, "Stop with Ctrl-C; started again, it goes on where it was.\n\n")
}

// tell tells what is new about the orders that something happened to.
func (l *localSystem) tell(ctx context.Context, db *store.Store) error {
	for _, id := range l.story.next() {
		story, err := db.Story(ctx, id)
		if errors.Is(err, workflow.ErrNoOrder) {
			continue // only rejected messages speak of it
		}
		if err != nil {
			return err
		}
		l.story.tell(story)
		if err := l.operate(ctx, db, story.Order); err != nil {
			return err
		}
	}
	return nil
}

// operate plays the operator of the samples: a refund that failed is tried again.
// Of all other orders whoever placed them is the operator.
func (l *localSystem) operate(ctx context.Context, db *store.Store, o workflow.Order) error {
	if o.Status != workflow.NeedsAttention || !retried(o) {
		return nil
	}
	retry, err := workflow.Envelope{
		ID: workflow.ActionID(o.ID, workflow.Retry, o.Version), Type: workflow.Retry, OrderID: o.ID,
		Conversation: o.Conversation, OriginID: o.Origin,
		Body: workflow.ActionBody(o.ID, o.Version, "the bank is open again"),
	}.Decode()
	if err != nil {
		return err
	}
	if _, err := db.Handle(ctx, retry); err != nil {
		return err
	}
	l.story.heard(o.ID)
	return nil
}

// retried reports whether local mode will try again what failed of an order.
func retried(o workflow.Order) bool {
	return failedUndo(o) && slices.ContainsFunc(simulation.Samples(), func(s simulation.Sample) bool { return s.OrderID == o.ID })
}

func failedUndo(o workflow.Order) bool {
	for _, e := range o.Effects {
		if e.State == workflow.EffectFailed {
			return true
		}
	}
	return false
}

// finished reports whether nothing will happen any more: every order is at rest
// and nothing is on its way.
func (l *localSystem) finished(ctx context.Context, db *store.Store) (bool, error) {
	pending, err := db.Pending(ctx)
	if err != nil || pending > 0 {
		return false, err
	}
	topics, err := l.bus.Counts(ctx)
	if err != nil {
		return false, err
	}
	for _, topic := range topics {
		if topic.Scheduled > 0 {
			return false, nil
		}
		for _, s := range topic.Subscriptions {
			if s.Active > 0 {
				return false, nil
			}
		}
	}
	orders, err := db.List(ctx)
	if err != nil {
		return false, err
	}
	for _, o := range orders {
		if !o.Status.AtRest() || retried(o) {
			return false, nil
		}
	}
	return l.flags.empty || len(orders) >= len(simulation.Samples()), nil
}

// restless says which orders are not at rest after the limit.
func (l *localSystem) restless(ctx context.Context, db *store.Store) error {
	orders, err := db.List(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, o := range orders {
		if !o.Status.AtRest() || retried(o) {
			names = append(names, o.ID+" is "+string(o.Status))
		}
	}
	if len(names) == 0 {
		names = []string{"something is still on its way"}
	}
	return fmt.Errorf("-limit: not everything came to rest within %s: %s", l.flags.limit, strings.Join(names, "; "))
}

// verdict compares the endings of the sample orders with what they should be.
func (l *localSystem) verdict(ctx context.Context, db *store.Store) error {
	if l.flags.empty {
		return nil
	}
	orders, err := db.List(ctx)
	if err != nil {
		return err
	}
	status := make(map[string]workflow.Status)
	for _, o := range orders {
		status[o.ID] = o.Status
	}
	var wrong []string
	fmt.Fprintln(l.out)
	for _, s := range simulation.Samples() {
		mark := "✓"
		if status[s.OrderID] != s.Ending {
			mark = "✗"
			wrong = append(wrong, fmt.Sprintf("%s is %s, expected %s", s.OrderID, or(status[s.OrderID], "unknown"), s.Ending))
		}
		fmt.Fprintf(l.out, "%s %-22s %-17s %s\n", mark, s.OrderID, status[s.OrderID], s.Story)
	}
	dead, err := l.deadLetters(ctx)
	if err != nil {
		return err
	}
	if dead > 0 {
		wrong = append(wrong, fmt.Sprintf("the bus holds %d dead letters", dead))
	}
	if len(wrong) > 0 {
		return errors.New("wrong endings: " + strings.Join(wrong, "; "))
	}
	fmt.Fprintf(l.out, "\nAll %d orders ended as they should.\n", len(simulation.Samples()))
	return nil
}

// deadLetters counts the messages that the bus gave up.
func (l *localSystem) deadLetters(ctx context.Context) (n int, err error) {
	topics, err := l.bus.Counts(ctx)
	for _, topic := range topics {
		for _, s := range topic.Subscriptions {
			n += s.Dead
		}
	}
	return n, err
}

// or is a value, or another where it is zero.
func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
