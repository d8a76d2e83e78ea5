package telemetry

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"orderflow/functions"
	"orderflow/workflow"
)

// traceContext reads and writes trace contexts as messages carry them.
var traceContext propagation.TraceContext //nolint:gochecknoglobals // it has no state

// within is a context in which a span would be a child of the one that a trace
// context names; of none, where it names none.
func within(ctx context.Context, traceParent string) context.Context {
	return traceContext.Extract(ctx, propagation.MapCarrier{workflow.PropertyTrace: traceParent})
}

// parentOf is the trace context by which others become children of a span.
func parentOf(ctx context.Context, span trace.Span) string {
	carrier := make(propagation.MapCarrier, 1)
	traceContext.Inject(trace.ContextWithSpan(ctx, span), carrier)
	return carrier[workflow.PropertyTrace]
}

// arrived begins the span of a message that has come, as functions.App.Trace.
func (t *Telemetry) arrived(i functions.Invocation) (traceParent string, over func(functions.Invocation)) {
	options := []trace.SpanStartOption{trace.WithAttributes(t.asItCame(&i)...), trace.WithSpanKind(trace.SpanKindConsumer)}
	name := "process " + t.types.name(i.Envelope.Type)
	if i.Forwarded {
		options = append(options, trace.WithSpanKind(trace.SpanKindServer))
		name = "POST /api/orders"
	}
	if !i.Began.IsZero() {
		options = append(options, trace.WithTimestamp(i.Began))
	}
	ctx, span := t.tracer.Start(within(context.Background(), i.Envelope.TraceParent), name, options...)
	return parentOf(ctx, span), func(i functions.Invocation) {
		span.SetAttributes(asItWent(&i)...)
		if i.Failed {
			span.SetStatus(codes.Error, text(i.Trouble))
		}
		span.End()
	}
}

// asItCame is what is known of a message before it is decided about.
func (t *Telemetry) asItCame(i *functions.Invocation) []attribute.KeyValue {
	e := &i.Envelope
	all := append(make([]attribute.KeyValue, 0, 24), attribute.String("orderflow.function", i.Function))
	all = identity(all, e.ID, e.Type, e.OrderID, e.ParentID, e.OriginID)
	if i.Forwarded {
		return append(all, semconv.HTTPRequestMethodPost, semconv.HTTPRoute("/api/orders"))
	}
	all = append(all,
		semconv.MessagingSystemServiceBus,
		semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
		semconv.MessagingDestinationName(t.topics.Orders), semconv.MessagingDestinationSubscriptionName(i.Function),
		semconv.MessagingMessageID(text(e.ID)),
	)
	if e.Conversation != "" {
		all = append(all, semconv.MessagingMessageConversationID(text(e.Conversation)))
	}
	if i.Delivery.Count > 0 {
		all = append(all, semconv.MessagingServiceBusMessageDeliveryCount(i.Delivery.Count))
	}
	if at := i.Delivery.EnqueuedAt; !at.IsZero() {
		all = append(all, semconv.MessagingServiceBusMessageEnqueuedTime(int(at.Unix())))
	}
	return all
}

// identity says which message of which order something is about, and what
// caused it.
func identity(all []attribute.KeyValue, id string, typ workflow.MessageType, order, parent, origin string) []attribute.KeyValue {
	for _, a := range []struct{ name, value string }{
		{"orderflow.message.id", id}, {"orderflow.message.type", string(typ)}, {"orderflow.order.id", order},
		{"orderflow.message.parent_id", parent}, {"orderflow.message.origin_id", origin},
	} {
		if a.value != "" && !strings.EqualFold(a.value, "self") { // which is said by the first
			all = append(all, attribute.String(a.name, text(a.value)))
		}
	}
	return all
}

// asItWent is what is known of an invocation once it is over.
func asItWent(i *functions.Invocation) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 8), attribute.String("orderflow.outcome", outcome(i)))
	if i.Forwarded {
		all = append(all, semconv.HTTPResponseStatusCode(i.Status))
	}
	if i.To != "" {
		all = append(all, attribute.String("orderflow.status.from", string(i.From)),
			attribute.String("orderflow.status.to", string(i.To)), attribute.Int64("orderflow.order.version", i.Version))
	}
	if i.Reason != "" {
		all = append(all, attribute.String("orderflow.reason", text(i.Reason)))
	}
	if i.Late != 0 {
		all = append(all, attribute.Float64("orderflow.deadline.lateness", i.Late.Seconds()))
	}
	if i.Failed {
		all = append(all, semconv.ErrorTypeKey.String(outcome(i)))
	}
	return all
}

// sender is what a dispatcher sends through: an outbox.Sender.
type sender interface {
	Send(ctx context.Context, messages []workflow.Outgoing) (sequences []int64, err error)
	Cancel(ctx context.Context, sequence int64) error
}

// Sender has what goes through another sender observed.
func (t *Telemetry) Sender(to sender) sender {
	if t == nil {
		return to
	}
	return watched{to, t}
}

// watched is a sender that is observed.
type watched struct {
	sender
	by *Telemetry
}

// errPanicked stands for a panic on its way to whoever takes it.
var errPanicked = errors.New("the sender panicked")

// Send sends each message with the context of a span of its own, a child of the
// one that its row carries. A message that was not tried has none: its span is
// never ended, and so never seen.
func (w watched) Send(ctx context.Context, messages []workflow.Outgoing) (sequences []int64, err error) {
	spans := w.by.begin(ctx, &messages)
	err = errPanicked // until it returns
	defer func() { w.by.sent(ctx, messages, spans, len(sequences), err) }()
	sequences, err = w.sender.Send(ctx, messages)
	return sequences, err
}

// begin begins a span for each message, and has the messages carry them.
func (t *Telemetry) begin(ctx context.Context, messages *[]workflow.Outgoing) []trace.Span {
	if t.tracer == nil {
		return nil
	}
	own := make([]workflow.Outgoing, len(*messages)) // the others are the caller's
	spans := make([]trace.Span, len(own))
	for i, m := range *messages {
		topic := t.topics.Commands
		if m.Purpose != "" {
			topic = t.topics.Orders
		}
		_, spans[i] = t.tracer.Start(within(ctx, m.TraceParent), "send "+string(m.Type),
			trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(identity([]attribute.KeyValue{
				semconv.MessagingSystemServiceBus,
				semconv.MessagingOperationName("send"), semconv.MessagingOperationTypeSend,
				semconv.MessagingDestinationName(topic),
				semconv.MessagingMessageID(text(m.ID)), semconv.MessagingMessageConversationID(text(m.Conversation)),
			}, m.ID, m.Type, m.OrderID, m.ParentID, m.OriginID)...))
		m.TraceParent = parentOf(ctx, spans[i])
		own[i] = m
	}
	*messages = own
	return spans
}

// sent tells what became of messages: the first ones were accepted, and the
// error is about the one after them.
func (t *Telemetry) sent(ctx context.Context, messages []workflow.Outgoing, spans []trace.Span, accepted int, err error) {
	accepted = min(accepted, len(messages))
	became := result(ctx, err)
	if t.meters != nil {
		t.meters.sent(ctx, messages, accepted, became)
	}
	for i, span := range spans {
		switch {
		case i < accepted:
		case i == accepted && became != "":
			span.SetAttributes(semconv.ErrorTypeKey.String(became))
			span.SetStatus(codes.Error, text(err.Error()))
		default:
			continue
		}
		span.End()
	}
}

// The results of a send that did not succeed.
const (
	refused = "refused" // the broker does not want the message
	outage  = "outage"  // the topic cannot be had
	stopped = "stopped" // the run ended first
)

// result is one of the results, or empty for an error that is none.
func result(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, workflow.ErrMessageRefused), errors.Is(err, errPanicked):
		return refused
	case errors.Is(ctx.Err(), context.Canceled):
		return stopped
	default:
		return outage
	}
}

// text bounds a text and makes it one that can be encoded: one that is not
// UTF-8 would cost the whole batch.
func text(s string) string {
	const most = 1000
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
