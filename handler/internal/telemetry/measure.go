package telemetry

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"orderflow/functions"
	"orderflow/workflow"
)

// meters are what is counted. No label is an ID or a text from outside: each has
// a few values that are known beforehand.
type meters struct {
	invocations metric.Int64Counter
	duration    metric.Float64Histogram
	deliveries  metric.Int64Histogram
	lateness    metric.Float64Histogram
	transitions metric.Int64Counter
	sends       metric.Int64Counter

	types types
	left  atomic.Pointer[workflow.Backlog] // nil: not counted since it was last reported
	dead  sync.Map                         // of subscription to int, the same of dead letters
}

func newMeters(m metric.Meter) (*meters, error) {
	all := meters{types: taken()}
	var errs [7]error
	seconds := metric.WithUnit("s")
	all.invocations, errs[0] = m.Int64Counter("orderflow.invocations",
		metric.WithUnit("{invocation}"), metric.WithDescription("invocations, by function and outcome"))
	all.duration, errs[1] = m.Float64Histogram("orderflow.invocation.duration",
		seconds, metric.WithDescription("how long invocations took, by function and outcome"),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
	all.deliveries, errs[2] = m.Int64Histogram("orderflow.deliveries",
		metric.WithUnit("{delivery}"), metric.WithDescription("deliveries of messages, and which one of its message each was"),
		metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
	all.lateness, errs[3] = m.Float64Histogram("orderflow.deadline.lateness",
		seconds, metric.WithDescription("how long after it was due a deadline was decided about"),
		metric.WithExplicitBucketBoundaries(.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600))
	all.transitions, errs[4] = m.Int64Counter("orderflow.transitions",
		metric.WithUnit("{transition}"), metric.WithDescription("messages that were applied, by the order's status before and after"))
	all.sends, errs[5] = m.Int64Counter("orderflow.sends",
		metric.WithUnit("{message}"), metric.WithDescription("messages given to the broker, by topic, and what became of them"))
	errs[6] = all.gauges(m)
	return &all, errors.Join(errs[:]...)
}

// gauges are the backlog as it was last counted. Each count is reported once:
// another instance may be the one that counts from now on.
func (m *meters) gauges(from metric.Meter) error {
	var err [7]error
	gauge := func(i int, name, unit, what string) (g metric.Int64ObservableGauge) {
		g, err[i] = from.Int64ObservableGauge("orderflow.backlog."+name, metric.WithUnit(unit), metric.WithDescription(what))
		return g
	}
	waiting := gauge(0, "waiting", "{message}", "outbox rows to be sent now")
	dead := gauge(1, "dead", "{message}", "commands that the broker refused for good")
	blocked := gauge(2, "blocked", "{order}", "orders that a message blocks")
	early := gauge(3, "early", "{message}", "messages that wait to become acceptable")
	overdue := gauge(4, "overdue", "{message}", "deadlines that the broker should have delivered more than a minute ago")
	gaveUp := gauge(6, "dead_lettered", "{message}", "messages that the broker gave up, by the function they were for; 1000 may be more")
	lag, failed := from.Float64ObservableGauge("orderflow.backlog.lag",
		metric.WithUnit("s"), metric.WithDescription("for how long the oldest outbox row could have been sent"))
	_, err[5] = from.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if b := m.left.Swap(nil); b != nil {
			o.ObserveInt64(waiting, int64(b.Waiting))
			o.ObserveInt64(dead, int64(b.Dead))
			o.ObserveInt64(blocked, int64(b.Blocked))
			o.ObserveInt64(early, int64(b.Early))
			o.ObserveInt64(overdue, int64(b.Overdue))
			o.ObserveFloat64(lag, b.Lag.Seconds())
		}
		m.dead.Range(func(subscription, _ any) bool {
			if n, counted := m.dead.LoadAndDelete(subscription); counted {
				o.ObserveInt64(gaveUp, int64(n.(int)), metric.WithAttributes(attribute.String("orderflow.function", subscription.(string))))
			}
			return true
		})
		return nil
	}, waiting, dead, blocked, early, overdue, lag, gaveUp)
	return errors.Join(failed, errors.Join(err[:]...))
}

// backlog is a counter of what is not done, of which the last count is known.
type backlog struct {
	counts functions.Backlog
	meters *meters
}

func (b backlog) Backlog(ctx context.Context) (workflow.Backlog, error) {
	left, err := b.counts.Backlog(ctx)
	if err == nil {
		b.meters.left.Store(&left)
	}
	return left, err
}

// deadLetters are those of the broker, of which the last count is known.
type deadLetters struct {
	functions.DeadLetters
	meters *meters
}

func (d deadLetters) Count(ctx context.Context, subscription string) (int, error) {
	n, err := d.DeadLetters.Count(ctx, subscription)
	if err == nil {
		d.meters.dead.Store(subscription, n)
	}
	return n, err
}

// invocation counts one that is over, as functions.App.Measure.
func (m *meters) invocation(i functions.Invocation) {
	ctx := context.Background()
	function := attribute.String("orderflow.function", i.Function)
	if i.Function == "" {
		function = attribute.String("orderflow.function", unknown)
	}
	became := metric.WithAttributes(function, attribute.String("orderflow.outcome", outcome(&i)))
	m.invocations.Add(ctx, 1, became)
	m.duration.Record(ctx, i.Took.Seconds(), became)
	if i.Delivery.Count > 0 {
		m.deliveries.Record(ctx, int64(i.Delivery.Count), metric.WithAttributes(function))
	}
	if i.Late > 0 {
		m.lateness.Record(ctx, i.Late.Seconds(), metric.WithAttributes(attribute.String("orderflow.message.type", m.types.name(i.Envelope.Type))))
	}
}

// decided counts transitions, as store.Options.Decided.
func (m *meters) decided(decisions []workflow.Decision) {
	for i := range decisions {
		if d := &decisions[i]; d.Outcome == workflow.Applied {
			m.transitions.Add(context.Background(), 1, metric.WithAttributes(
				attribute.String("orderflow.status.from", string(d.From)), attribute.String("orderflow.status.to", string(d.To))))
		}
	}
}

// sent counts messages of one topic: the first ones that were accepted, and what
// became of the one after them.
func (m *meters) sent(ctx context.Context, messages []workflow.Outgoing, accepted int, became string) {
	if len(messages) == 0 {
		return
	}
	topic := attribute.String("orderflow.topic", "commands")
	if messages[0].Purpose != "" {
		topic = attribute.String("orderflow.topic", "deadlines")
	}
	add := func(n int, result string) {
		m.sends.Add(ctx, int64(n), metric.WithAttributes(topic, attribute.String("orderflow.result", result)))
	}
	if accepted > 0 {
		add(accepted, "sent")
	}
	if became != "" {
		add(1, became)
	}
}

// outcome is what became of an invocation. One about no message is done,
// refused or failed.
func outcome(i *functions.Invocation) string {
	switch {
	case i.Outcome != "":
		return string(i.Outcome)
	case i.Status >= http.StatusInternalServerError:
		return string(workflow.Failed)
	case i.Status >= http.StatusBadRequest:
		return "Refused"
	default:
		return "Done"
	}
}

// unknown stands for a name that is not one of ours.
const unknown = "unknown"

// types are the types of the messages that the app takes.
type types map[workflow.MessageType]bool

func taken() types {
	all := make(types)
	for _, f := range functions.Subscriptions() {
		for _, t := range f.Types {
			all[t] = true
		}
	}
	return all
}

// name is that of a type that the app takes, or unknown: a Subject may be any
// text.
func (all types) name(t workflow.MessageType) string {
	if all[t] {
		return string(t)
	}
	return unknown
}
