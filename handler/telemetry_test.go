package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/handler/internal/servicebus"
	"orderflow/handler/internal/simulation"
	"orderflow/handler/internal/telemetry"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// collectTo is the environment of a handler that sends all it has to a
// collector, and soon.
func collectTo(url string) map[string]string {
	return map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_METRIC_EXPORT_INTERVAL": "100",
	}
}

func TestAnOrdersMessagesThroughTheFunctionsTheOutboxAndTheServicesAreOneTrace(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	executable, err := binary()
	require.NoError(t, err)
	environ := collectTo(c.URL)
	environ["OutboxSchedule"] = "* * * * * *"
	r := raise(t, rigging{instances: 1, executable: executable, window: 10 * time.Minute, idle: 200 * time.Millisecond, environ: environ})
	client, err := servicebus.NewClient(servicebus.Connection{String: r.instances[0].worker.settings["ServiceBusConnection"]})
	require.NoError(t, err)
	answers, err := client.NewSender(r.settings.OrdersTopic, nil)
	require.NoError(t, err)
	working, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		simulation.World{Client: client, Answers: answers, Commands: r.settings.CommandsTopic, Now: time.Now, Log: slog.New(slog.DiscardHandler)}.Run(working)
		close(ended)
	}()
	defer func() {
		end()
		<-ended
		require.NoError(t, client.Close(context.WithoutCancel(t.Context())))
	}()

	const customer = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/orders", bytes.NewReader(orderBody("order-42", 12990)))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("traceparent", customer)
	answer := httptest.NewRecorder()
	require.Eventually(t, func() bool {
		answer = httptest.NewRecorder()
		r.instances[0].host.ServeHTTP(answer, request.Clone(t.Context()))
		return answer.Code != http.StatusServiceUnavailable // the handler starts
	}, 10*time.Second, 20*time.Millisecond)
	require.Equal(t, http.StatusAccepted, answer.Code, answer.Body)

	steps := []struct{ name, kind string }{
		{"POST /api/orders", "SERVER"},
		{"send ReserveInventory", "PRODUCER"}, {"process InventoryReserved", "CONSUMER"},
		{"send CapturePayment", "PRODUCER"}, {"process PaymentCaptured", "CONSUMER"},
		{"send ShipOrder", "PRODUCER"}, {"process ShipmentConfirmed", "CONSUMER"},
	}
	parent := customer
	onTheWire := make(map[string]string) // by MessageId
	for _, step := range steps {
		s := c.one(t, step.name)
		require.Equal(t, step.kind, s.kind, step.name)
		require.Equal(t, customer[3:35], s.trace, step.name)
		require.Equal(t, parent[36:52], s.parent, step.name)
		require.Empty(t, s.failure)
		require.Equal(t, "order-42", s.attributes["orderflow.order.id"])
		require.False(t, s.ended.Before(s.began))
		if step.kind == "PRODUCER" {
			onTheWire[s.attributes["messaging.message.id"].(string)] = s.traceParent()
		}
		parent = s.traceParent()
	}
	sent, err := r.bus.Sent(t.Context(), r.settings.CommandsTopic)
	require.NoError(t, err)
	require.Len(t, sent, 3)
	for _, m := range sent {
		require.Equal(t, onTheWire[m.MessageID], m.Properties["traceparent"], "who takes the message is a child of its send")
		require.Equal(t, onTheWire[m.MessageID], m.Properties["Diagnostic-Id"])
	}

	s := c.one(t, "process PaymentCaptured")
	delete(s.attributes, "messaging.servicebus.message.enqueued_time")
	require.Equal(t, map[string]any{
		"messaging.system": "servicebus", "messaging.operation.name": "process", "messaging.operation.type": "process",
		"messaging.destination.name": "orders", "messaging.destination.subscription.name": "payment-result",
		"messaging.message.id": "order-42:capture-payment:1:answer", "messaging.message.conversation_id": "api:order-placed:order-42",
		"messaging.servicebus.message.delivery_count": int64(1),
		"orderflow.function":                          "payment-result", "orderflow.order.id": "order-42", "orderflow.message.id": "order-42:capture-payment:1:answer",
		"orderflow.message.type": "PaymentCaptured", "orderflow.message.parent_id": "order-42:capture-payment:1", "orderflow.message.origin_id": "api:order-placed:order-42",
		"orderflow.outcome": "Applied", "orderflow.reason": "the order is paid", "orderflow.order.version": int64(3),
		"orderflow.status.from": "AwaitingPayment", "orderflow.status.to": "AwaitingShipment",
	}, s.attributes)
	require.Equal(t, map[string]any{
		"messaging.system": "servicebus", "messaging.operation.name": "send", "messaging.operation.type": "send",
		"messaging.destination.name": "commands", "messaging.message.id": "order-42:ship-order:1", "messaging.message.conversation_id": "api:order-placed:order-42",
		"orderflow.order.id": "order-42", "orderflow.message.id": "order-42:ship-order:1", "orderflow.message.type": "ShipOrder",
		"orderflow.message.parent_id": "order-42:capture-payment:1:answer", "orderflow.message.origin_id": "api:order-placed:order-42",
	}, c.one(t, "send ShipOrder").attributes)
	require.Equal(t, map[string]any{"service.name": "orderflow", "telemetry.sdk.language": "go", "telemetry.sdk.name": "opentelemetry"},
		without(c.resource, "service.version", "service.instance.id", "telemetry.sdk.version"))

	for _, series := range []string{
		"orderflow.invocations place-order Applied", "orderflow.invocations payment-result Applied", "orderflow.invocations outbox-dispatch Done",
		"orderflow.invocation.duration place-order Applied", "orderflow.invocation.duration outbox-dispatch Done",
		"orderflow.deliveries payment-result", "orderflow.deliveries shipment-result",
		"orderflow.transitions NotStarted AwaitingInventory", "orderflow.transitions AwaitingInventory AwaitingPayment",
		"orderflow.transitions AwaitingPayment AwaitingShipment", "orderflow.transitions AwaitingShipment Completed",
		"orderflow.sends sent commands",
		"orderflow.backlog.waiting", "orderflow.backlog.lag", "orderflow.backlog.dead", "orderflow.backlog.blocked",
		"orderflow.backlog.early", "orderflow.backlog.overdue",
	} {
		require.Eventually(t, func() bool { return c.count(series) >= 0 }, 10*time.Second, 20*time.Millisecond, "%s is not among %q", series, c.series())
	}
	require.Equal(t, 3, c.count("orderflow.sends sent commands"))
	require.Equal(t, 1, c.count("orderflow.invocations payment-result Applied"))
	require.Equal(t, 1, c.count("orderflow.transitions AwaitingShipment Completed"))
	requireNoIDs(t, c)
}

// without is a map without some keys, each of which it has.
func without(m map[string]any, keys ...string) map[string]any {
	all := make(map[string]any)
	for key, value := range m {
		if i := slices.Index(keys, key); i < 0 {
			all[key] = value
		} else {
			keys = slices.Delete(keys, i, i+1)
		}
	}
	if len(keys) > 0 {
		all["missing"] = keys
	}
	return all
}

// requireNoIDs asserts that every label is one that is known beforehand.
func requireNoIDs(t *testing.T, c *collector) {
	t.Helper()
	known := []string{"unknown", "Done", "Refused", "commands", "deadlines", "sent", "refused", "outage", "stopped"}
	known = append(known, functions.Names()...)
	for _, f := range functions.Subscriptions() {
		for _, typ := range f.Types {
			known = append(known, string(typ))
		}
	}
	for _, s := range []workflow.Status{
		workflow.NotStarted, workflow.AwaitingInventory, workflow.AwaitingPayment, workflow.AwaitingShipment,
		workflow.Compensating, workflow.NeedsAttention, workflow.Completed, workflow.Cancelled,
	} {
		known = append(known, string(s))
	}
	for _, o := range []workflow.Outcome{
		workflow.Applied, workflow.Duplicate, workflow.Stale, workflow.Held, workflow.Blocked, workflow.Skipped, workflow.Rejected, workflow.Failed,
	} {
		known = append(known, string(o))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NotEmpty(t, c.points)
	for _, p := range c.points {
		for name, value := range p.labels {
			require.Contains(t, known, value, "%s %s", p.metric, name)
		}
	}
}

// observedApp is an app in this process, on a database of its own, whose
// telemetry goes to a collector.
type observedApp struct {
	*collector
	watch   *telemetry.Telemetry
	handler http.Handler
	db      *store.Store
	log     lockedBuffer
}

func newObservedApp(t *testing.T, with func(*functions.App)) *observedApp {
	t.Helper()
	a := &observedApp{collector: newCollector(t)}
	to, err := telemetry.Read(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": a.URL})
	require.NoError(t, err)
	a.watch, err = telemetry.Start(t.Context(), to, telemetry.Topics{Orders: "orders", Commands: "commands"}, slog.New(slog.NewJSONHandler(&a.log, nil)))
	require.NoError(t, err)
	a.db, err = store.Open(t.Context(), filepath.Join(t.TempDir(), "orders.db"), store.Options{Now: time.Now, Decided: a.watch.Decided()})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = a.watch.Stop(context.WithoutCancel(t.Context())) // it may have been already
		require.NoError(t, a.db.Close())
	})
	app := functions.App{Process: a.db, Orders: a.db, Outbox: nothing{}, Backlog: a.db, Sweeper: a.db, Now: time.Now}
	if with != nil {
		with(&app)
	}
	a.handler = a.watch.Watch(app).Handler()
	return a
}

// nothing is an outbox that never has anything to send.
type nothing struct{}

func (nothing) Drain(context.Context) (int, bool, error) { return 0, false, nil }

func (a *observedApp) post(t *testing.T, path string, body []byte, headers ...string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	a.handler.ServeHTTP(answer, r)
	return answer.Code
}

// flush ends the telemetry; all that was told is with the collector then.
func (a *observedApp) flush(t *testing.T) {
	t.Helper()
	bye, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	require.NoError(t, a.watch.Stop(bye))
}

// carrying is a message with a trace context as the property of a name.
func carrying(t *testing.T, property, value string) []byte {
	t.Helper()
	body := message("m1", workflow.OrderPlaced, "order-42", map[string]any{
		"customerId": "c-7", "currency": "EUR", "amount": 12990, "lines": []map[string]any{{"sku": "A/1", "quantity": 2}},
	})
	with := bytes.Replace(body, []byte(`"ApplicationProperties":{`), fmt.Appendf(nil, `"ApplicationProperties":{%q:%q,`, property, value), 1)
	require.NotEqual(t, body, with)
	return with
}

func TestAHostileTraceContextBeginsATraceOfItsOwn(t *testing.T) {
	t.Parallel()
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for name, value := range map[string]string{
		"none":                        "",
		"words":                       "none of your business",
		"a trace of zeros":            "00-00000000000000000000000000000000-" + parent + "-01",
		"a span of zeros":             "00-" + trace + "-0000000000000000-01",
		"capitals":                    "00-" + strings.ToUpper(trace) + "-" + parent + "-01",
		"a version that is none":      "ff-" + trace + "-" + parent + "-01",
		"something behind it":         "00-" + trace + "-" + parent + "-01-more",
		"too short":                   "00-" + trace + "-" + parent + "-0",
		"a megabyte":                  strings.Repeat("00-"+trace+"-", 1<<15),
		"a line break":                "00-" + trace + "-" + parent + "-0\n",
		"what is not ASCII":           "00-" + trace[:30] + "ä-" + parent + "-01",
		"a number with signs":         "00-" + trace[:31] + "+-" + parent + "-01",
		"flags that are no number":    "00-" + trace + "-" + parent + "-zz",
		"spaces, which look like one": " 00-" + trace + "-" + parent + "-01",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newObservedApp(t, nil)
			require.Equal(t, http.StatusOK, a.post(t, "/order-placed", carrying(t, "traceparent", value)))
			a.flush(t)
			s := a.one(t, "process OrderPlaced")
			require.Empty(t, s.parent)
			require.NotEqual(t, trace, s.trace)
			story, err := a.db.Story(t.Context(), "order-42")
			require.NoError(t, err)
			for _, o := range story.Outbox {
				require.Equal(t, s.traceParent(), o.TraceParent)
			}
		})
	}
}

func TestATraceContextOfALaterVersionIsTakenAndOneThatIsNotSampledCostsNoSpan(t *testing.T) {
	t.Parallel()
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for value, spans := range map[string]int{
		"cc-" + trace + "-" + parent + "-01-what-will-be": 1,
		"00-" + trace + "-" + parent + "-00":              0,
	} {
		for _, property := range []string{"traceparent", "Diagnostic-Id"} {
			a := newObservedApp(t, nil)
			require.Equal(t, http.StatusOK, a.post(t, "/order-placed", carrying(t, property, value)))
			a.flush(t)
			require.Len(t, a.named("process OrderPlaced"), spans)
			story, err := a.db.Story(t.Context(), "order-42")
			require.NoError(t, err)
			for _, o := range story.Outbox {
				require.Equal(t, trace, o.TraceParent[3:35], "the trace goes on")
				require.NotContains(t, o.TraceParent, parent)
				require.True(t, strings.HasSuffix(o.TraceParent, "-0"+fmt.Sprint(spans)), "sampled or not as before: %s", o.TraceParent)
			}
		}
	}
}

// sends is a sender that answers as it is told.
type sends struct {
	answer func(context.Context, []workflow.Outgoing) ([]int64, error)
	got    []workflow.Outgoing
}

func (s *sends) Send(ctx context.Context, messages []workflow.Outgoing) ([]int64, error) {
	s.got = append(s.got, messages...)
	return s.answer(ctx, messages)
}

func (s *sends) Cancel(context.Context, int64) error { return errors.New("cancelled") }

func TestEachMessageSentHasASpanAndIsCountedByWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	row := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	command := func(n int) workflow.Outgoing {
		return workflow.Outgoing{ID: fmt.Sprint("order-42:capture-payment:", n), Type: workflow.CapturePayment, OrderID: "order-42", TraceParent: row, Body: []byte("{}")}
	}
	deadline := workflow.Outgoing{ID: "order-42:payment-timeout:1", Type: workflow.PaymentDeadlineExpired, OrderID: "order-42", Purpose: workflow.PaymentTimeout}
	refusal := fmt.Errorf("too large: %w", workflow.ErrNeverAccepted)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithTimeout(t.Context(), 0)
	defer cancelLate()
	answer := func(sequences []int64, err error) func(context.Context, []workflow.Outgoing) ([]int64, error) {
		return func(context.Context, []workflow.Outgoing) ([]int64, error) { return sequences, err }
	}
	for name, tt := range map[string]struct {
		ctx      context.Context
		messages []workflow.Outgoing
		answer   func(context.Context, []workflow.Outgoing) ([]int64, error)
		spans    []string // the failure of each
		series   map[string]float64
	}{
		"all":         {t.Context(), []workflow.Outgoing{command(1), command(2)}, answer([]int64{0, 0}, nil), []string{"", ""}, map[string]float64{"orderflow.sends sent commands": 2}},
		"a deadline":  {t.Context(), []workflow.Outgoing{deadline}, answer([]int64{7}, nil), []string{""}, map[string]float64{"orderflow.sends sent deadlines": 1}},
		"refused":     {t.Context(), []workflow.Outgoing{command(1), command(2), command(3)}, answer([]int64{0}, refusal), []string{"", refusal.Error()}, map[string]float64{"orderflow.sends sent commands": 1, "orderflow.sends refused commands": 1}},
		"an outage":   {t.Context(), []workflow.Outgoing{deadline}, answer(nil, errors.New("no link")), []string{"no link"}, map[string]float64{"orderflow.sends outage deadlines": 1}},
		"too slow":    {late, []workflow.Outgoing{command(1)}, answer(nil, context.DeadlineExceeded), []string{"context deadline exceeded"}, map[string]float64{"orderflow.sends outage commands": 1}},
		"at the end":  {gone, []workflow.Outgoing{command(1)}, answer(nil, context.Canceled), []string{"context canceled"}, map[string]float64{"orderflow.sends stopped commands": 1}},
		"not UTF-8":   {t.Context(), []workflow.Outgoing{command(1)}, answer(nil, errors.New("\xff is odd")), []string{"\uFFFD is odd"}, map[string]float64{"orderflow.sends outage commands": 1}},
		"with words":  {t.Context(), []workflow.Outgoing{command(1)}, answer(nil, errors.New(strings.Repeat("ä", 1<<16))), []string{strings.Repeat("ä", 500) + "…"}, map[string]float64{"orderflow.sends outage commands": 1}},
		"too many":    {t.Context(), []workflow.Outgoing{command(1)}, answer([]int64{0, 0}, nil), []string{""}, map[string]float64{"orderflow.sends sent commands": 1}},
		"nothing":     {t.Context(), nil, answer(nil, nil), nil, map[string]float64{}},
		"with a bang": {t.Context(), []workflow.Outgoing{command(1)}, func(context.Context, []workflow.Outgoing) ([]int64, error) { panic("no luck") }, []string{"the sender panicked"}, map[string]float64{"orderflow.sends refused commands": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newObservedApp(t, nil)
			inner := &sends{answer: tt.answer}
			before := slices.Clone(tt.messages)
			through := a.watch.Sender(inner)
			func() {
				defer func() { require.Equal(t, name == "with a bang", recover() != nil, "a panic goes on to the dispatcher") }()
				sequences, err := through.Send(tt.ctx, tt.messages)
				wantSequences, wantErr := tt.answer(tt.ctx, tt.messages)
				require.Equal(t, wantSequences, sequences)
				require.Equal(t, wantErr, err)
			}()
			require.EqualError(t, through.Cancel(t.Context(), 7), "cancelled")
			require.Equal(t, before, tt.messages, "the rows are the dispatcher's")
			a.flush(t)
			require.Len(t, inner.got, len(tt.messages))
			for i, m := range inner.got {
				require.NotEqual(t, tt.messages[i].TraceParent, m.TraceParent)
				m.TraceParent = tt.messages[i].TraceParent
				require.Equal(t, tt.messages[i], m, "all else is the row's")
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			require.Len(t, a.spans, len(tt.spans))
			for i, s := range a.spans {
				require.Equal(t, tt.spans[i], s.failure)
				require.Equal(t, "send "+string(tt.messages[i].Type), s.name)
				require.Equal(t, s.traceParent(), inner.got[i].TraceParent)
				if tt.messages[i].TraceParent != "" {
					require.Equal(t, row[36:52], s.parent)
				}
			}
			got := make(map[string]float64)
			for series, p := range a.points {
				got[series] = p.value
			}
			require.Equal(t, tt.series, got)
		})
	}
}

func TestSentAgainAMessageDiffersInItsTraceContextAlone(t *testing.T) {
	t.Parallel()
	a := newObservedApp(t, nil)
	inner := &sends{answer: func(context.Context, []workflow.Outgoing) ([]int64, error) { return []int64{0}, nil }}
	row := workflow.Outgoing{
		ID: "order-42:capture-payment:1", Type: workflow.CapturePayment, OrderID: "order-42", ParentID: "m1", OriginID: "m1", Conversation: "c",
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Body: []byte(`{"orderId":"order-42"}`),
	}
	for range 2 {
		_, err := a.watch.Sender(inner).Send(t.Context(), []workflow.Outgoing{row})
		require.NoError(t, err)
	}
	first, second := inner.got[0], inner.got[1]
	require.NotEqual(t, first.TraceParent, second.TraceParent, "each copy says which send it is of")
	require.Equal(t, first.TraceParent[:36], second.TraceParent[:36], "of one trace")
	second.TraceParent = first.TraceParent
	require.Equal(t, first, second)
}

func TestWhatGoesWrongIsAnErrorOfTheSpanAndNothingOfABodyIsTold(t *testing.T) {
	t.Parallel()
	const secret = "Zoe Secret"
	a := newObservedApp(t, nil)
	placed := message("m1", workflow.OrderPlaced, "order-42", map[string]any{
		"customerId": secret, "currency": "EUR", "amount": 471147114711, "lines": []map[string]any{{"sku": secret, "quantity": 2}},
	})
	require.Equal(t, http.StatusOK, a.post(t, "/order-placed", placed))
	require.Equal(t, http.StatusOK, a.post(t, "/order-placed", placed), "a duplicate")
	require.Equal(t, http.StatusOK, a.post(t, "/order-placed", message("m2", workflow.OrderPlaced, "order-43", map[string]any{"currency": secret})), "refused")
	require.Equal(t, http.StatusOK, a.post(t, "/inventory-reserved", message("m3", workflow.InventoryRejected, "order-42", map[string]any{"reason": secret})))
	require.Equal(t, http.StatusOK, a.post(t, "/order-placed", message("m4", "Order\xffSecret", "order-44", map[string]any{})))
	require.Equal(t, http.StatusAccepted, a.post(t, "/api/orders", orderBody("order-45", 471147114711), "Content-Type", "application/json"))
	require.Equal(t, http.StatusBadRequest, a.post(t, "/api/orders", []byte(`{"orderId":"order-46","customerId":"`+secret+`"}`), "Content-Type", "application/json"))
	require.Equal(t, http.StatusNotFound, a.post(t, "/ZoesPath", nil))
	a.flush(t)

	for _, said := range []string{secret, "471147114711", "ZoesPath"} {
		require.Zero(t, strings.Count(a.received(), said), said)
	}
	outcomes := make(map[any]int)
	for _, s := range a.named("process OrderPlaced") {
		require.Empty(t, s.failure)
		outcomes[s.attributes["orderflow.outcome"]]++
	}
	require.Equal(t, map[any]int{"Applied": 1, "Duplicate": 1, "Rejected": 1}, outcomes)
	require.Equal(t, "Rejected", a.one(t, "process unknown").attributes["orderflow.outcome"], "a name has few values too")
	require.Equal(t, []any{int64(202), int64(400)}, []any{
		a.named("POST /api/orders")[0].attributes["http.response.status_code"], a.named("POST /api/orders")[1].attributes["http.response.status_code"],
	})
	require.Equal(t, 1, a.count("orderflow.invocations unknown Refused"))
	require.Equal(t, 1, a.count("orderflow.invocations place-order Refused"))
	require.Equal(t, -1, a.count("orderflow.deliveries place-order"), "what the broker did not deliver is no delivery")
	require.NotContains(t, strings.Join(a.series(), "\n"), "lateness", "nothing of this was a deadline")
	requireNoIDs(t, a.collector)
}

func TestAMessageThatBlocksItsOrderIsAFailedSpan(t *testing.T) {
	t.Parallel()
	a := newObservedApp(t, func(app *functions.App) { app.Process = unlucky{app.Process} })
	require.Equal(t, http.StatusOK, a.post(t, "/order-placed", carrying(t, "x", "")))
	a.flush(t)
	s := a.one(t, "process OrderPlaced")
	require.Equal(t, "handle the message: panic: no luck", s.failure)
	require.Equal(t, "Blocked", s.attributes["orderflow.outcome"])
	require.Equal(t, "Blocked", s.attributes["error.type"])
}

// unlucky panics whatever it is to handle.
type unlucky struct{ functions.Process }

func (unlucky) Handle(context.Context, workflow.Message) (workflow.Decision, error) { panic("no luck") }

func TestATransitionIsCountedWhoeverBringsItAbout(t *testing.T) {
	t.Parallel()
	a := newObservedApp(t, nil)
	steps := flow("order-42")
	// The payment is early; what places the goods takes it up in the same commit.
	for _, i := range []int{0, 2, 1} {
		require.Equal(t, http.StatusOK, a.post(t, "/"+steps[i].function, steps[i].body))
	}
	a.flush(t)
	require.Equal(t, 1, a.count("orderflow.transitions NotStarted AwaitingInventory"))
	require.Equal(t, 1, a.count("orderflow.transitions AwaitingInventory AwaitingPayment"))
	require.Equal(t, 1, a.count("orderflow.transitions AwaitingPayment AwaitingShipment"), "by the early one: %q", a.series())
	require.NotContains(t, strings.Join(a.series(), "\n"), "orderflow.transitions AwaitingInventory AwaitingInventory", "to be held is no transition")
	require.Equal(t, 1, a.count("orderflow.invocations payment-result Held"))
	require.Equal(t, 1, a.count("orderflow.deliveries payment-result"))
}

func TestALateDeadlineIsMeasuredByItsTypeAndTimedByTheAppsClock(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)
	a := newObservedApp(t, func(app *functions.App) {
		app.Process = tardy{app.Process}
		app.Now = func() time.Time { return began }
	})
	require.Equal(t, http.StatusOK, a.post(t, "/payment-timeout", message("order-42:payment-timeout:1", workflow.PaymentDeadlineExpired, "order-42",
		map[string]any{"timeoutId": "order-42:payment-timeout:1", "dueAt": "2026-07-19T10:00:00Z"})))
	a.flush(t)
	s := a.one(t, "process PaymentDeadlineExpired")
	require.True(t, began.Equal(s.began), s.began)
	require.InDelta(t, 1.5, s.attributes["orderflow.deadline.lateness"], 1e-9)
	a.mu.Lock()
	defer a.mu.Unlock()
	require.InDelta(t, 1.5, a.points["orderflow.deadline.lateness PaymentDeadlineExpired"].sum, 1e-9)
}

// tardy decides about everything a second and a half late.
type tardy struct{ functions.Process }

func (tardy) Handle(context.Context, workflow.Message) (workflow.Decision, error) {
	return workflow.Decision{Outcome: workflow.Stale, Late: 1500 * time.Millisecond}, nil
}

// backlogOf is a backlog that is as it is told.
type backlogOf struct{ left workflow.Backlog }

func (b backlogOf) Backlog(context.Context) (workflow.Backlog, error) { return b.left, nil }

func TestTheBacklogIsReportedAsTheDispatchersRunCountedIt(t *testing.T) {
	t.Parallel()
	left := workflow.Backlog{Waiting: 1, Lag: 2500 * time.Millisecond, Dead: 3, Blocked: 4, Early: 5, Overdue: 6}
	a := newObservedApp(t, func(app *functions.App) { app.Backlog = backlogOf{left} })
	require.Equal(t, http.StatusOK, a.post(t, "/outbox-dispatch", payload(t, "timer.json")))
	a.flush(t)
	got := make(map[string]float64)
	for series, p := range a.points {
		if name, ok := strings.CutPrefix(series, "orderflow.backlog."); ok {
			got[name] = p.value
		}
	}
	require.Equal(t, map[string]float64{"waiting": 1, "lag": 2.5, "dead": 3, "blocked": 4, "early": 5, "overdue": 6}, got)
	require.Empty(t, a.spans, "a timer is no message")
}

// given are dead letters that can be counted, of one subscription.
type given struct {
	functions.DeadLetters
	subscription string
	n            int
}

func (g given) List(context.Context, string, int64, int) ([]workflow.DeadLetter, error) {
	return nil, nil
}

func (g given) Count(_ context.Context, subscription string) (int, error) {
	switch subscription {
	case g.subscription:
		return g.n, nil
	case "shipment-timeout":
		return 0, workflow.ErrNoSubscription
	default:
		return 0, nil
	}
}

func TestDeadLettersAreReportedByTheFunctionTheyWereForWhenTheyAreCounted(t *testing.T) {
	t.Parallel()
	a := newObservedApp(t, func(app *functions.App) { app.DeadLetters = given{subscription: "payment-result", n: 7} })
	answer := httptest.NewRecorder()
	a.handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/operations/dead-letters", nil))
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	a.flush(t)
	require.Equal(t, 7, a.count("orderflow.backlog.dead_lettered payment-result"))
	require.Zero(t, a.count("orderflow.backlog.dead_lettered order-placed"))
	require.Negative(t, a.count("orderflow.backlog.dead_lettered shipment-timeout"), "what is not known is not reported")
	requireNoIDs(t, a.collector)
}

func TestACountOfTheBacklogIsReportedOnceAndNotForEverByAnInstanceThatCountsNoMore(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), collectTo(c.URL))
	response, body, err := s.post("outbox-dispatch", payload(t, "timer.json"))
	require.NoError(t, err)
	requireSettled(t, response, body, "")
	require.Eventually(t, func() bool { return c.count("orderflow.backlog.waiting") == 0 }, 10*time.Second, 5*time.Millisecond)
	c.mu.Lock()
	clear(c.points)
	c.mu.Unlock()
	require.Eventually(t, func() bool { return c.count("orderflow.invocations outbox-dispatch Done") == 1 }, 10*time.Second, 5*time.Millisecond, "metrics go on")
	require.NotContains(t, strings.Join(c.series(), "\n"), "backlog")
}

func TestWithoutAnEndpointNothingIsSentAndNothingOfItRuns(t *testing.T) {
	t.Parallel()
	// The collector of a case that sends stays apart: something of it may come late.
	silent, c := newCollector(t), newCollector(t)
	for name, tt := range map[string]struct {
		environ map[string]string
		runs    bool
	}{
		"with one":              {collectTo(c.URL), true},
		"without":               {map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_METRIC_EXPORT_INTERVAL": "1"}, false},
		"with an empty one":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, false},
		"switched off":          {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": silent.URL, "OTEL_SDK_DISABLED": "true"}, false},
		"with no signal at all": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": silent.URL, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), tt.environ)
			for _, step := range flow("order-42") {
				response, body, err := s.post(step.function, step.body)
				require.NoError(t, err)
				requireSettled(t, response, body, "Applied")
			}
			if tt.runs {
				require.Eventually(t, func() bool { return c.asked() > 0 }, 10*time.Second, 5*time.Millisecond)
			}
			require.NoError(t, s.cmd.Process.Signal(syscall.SIGQUIT)) // which prints every goroutine
			<-s.done
			require.Contains(t, s.stderr.String(), "goroutine ")
			require.Equal(t, tt.runs, strings.Contains(s.stderr.String(), "opentelemetry"))
			if !tt.runs {
				require.Zero(t, silent.asked())
				require.NotContains(t, s.stdout.String(), "telemetry")
			}
		})
	}
}

func TestWhatWatchesNothingChangesNothing(t *testing.T) {
	t.Parallel()
	to, err := telemetry.Read(nil)
	require.NoError(t, err)
	watch, err := telemetry.Start(t.Context(), to, telemetry.Topics{}, nil)
	require.NoError(t, err)
	require.Nil(t, watch)
	app := watch.Watch(functions.App{Backlog: backlogOf{}})
	require.Nil(t, app.Trace)
	require.Nil(t, app.Measure)
	require.Equal(t, backlogOf{}, app.Backlog)
	inner := &sends{}
	require.Same(t, inner, watch.Sender(inner))
	require.Nil(t, watch.Decided())
	require.NoError(t, watch.Stop(t.Context()))
}

func TestOneSignalCanBeHadWithoutTheOther(t *testing.T) {
	t.Parallel()
	for signal, has := range map[string]struct{ traces, metrics bool }{"TRACES": {traces: true}, "METRICS": {metrics: true}} {
		c := newCollector(t)
		environ := collectTo(c.URL + "/v1/" + strings.ToLower(signal)) // its variable holds the whole address
		environ["OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"] = environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
		delete(environ, "OTEL_EXPORTER_OTLP_ENDPOINT")
		s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), environ)
		response, body, err := s.post("order-placed", payload(t, "order-placed.binary.json"))
		require.NoError(t, err)
		requireSettled(t, response, body, "Applied")
		require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
		require.Equal(t, exitFailed, s.exitCode(t, 5*time.Second))
		require.Equal(t, has.traces, len(c.named("process OrderPlaced")) == 1)
		require.Equal(t, has.metrics, c.count("orderflow.invocations order-placed Applied") == 1)
	}
}

func TestAskedToStopTheHandlerSendsWhatTelemetryItHasLeft(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_SERVICE_NAME": "shop-orders", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
	})
	response, body, err := s.post("order-placed", payload(t, "order-placed.binary.json"))
	require.NoError(t, err)
	requireSettled(t, response, body, "Applied")
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitFailed, s.exitCode(t, 5*time.Second))
	require.Len(t, c.named("process OrderPlaced"), 1)
	require.Equal(t, 1, c.count("orderflow.transitions NotStarted AwaitingInventory"))
	require.Equal(t, "shop-orders", c.resource["service.name"], "the environment has the last word")
	require.Equal(t, "test", c.resource["deployment.environment.name"])
	require.NotEmpty(t, c.resource["service.version"])
}

func TestWhatTheSDKHasToSayIsInTheLogOnceAndWithoutWhatMayBeAKey(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	environ := collectTo(c.URL)
	environ["OTEL_EXPORTER_OTLP_HEADERS"] = "hunter2"
	environ["OTEL_TRACES_SAMPLER"] = "now_and_then"
	environ["OTEL_RESOURCE_ATTRIBUTES"] = "nonsense"
	s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), environ)
	response, body, err := s.post("order-placed", payload(t, "order-placed.binary.json"))
	require.NoError(t, err)
	requireSettled(t, response, body, "Applied")
	c.one(t, "process OrderPlaced") // it is sent all the same
	for _, said := range []string{"OpenTelemetry: it cannot parse headers", "OpenTelemetry: unsupported sampler: now_and_then", "OTEL_RESOURCE_ATTRIBUTES"} {
		require.Equal(t, 1, strings.Count(s.stdout.String(), said), "%s: %s", said, &s.stdout)
	}
	require.NotContains(t, s.stdout.String(), "hunter2")
	require.Empty(t, s.stderr.String(), "stderr is for what ends the program")
}

// silence is a collector that takes connections and says nothing.
func silence(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestACollectorThatIsAwayCostsTheHandlerNothingAndOneLineInTheLog(t *testing.T) {
	t.Parallel()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(busy.Close)
	angry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(angry.Close)
	for name, url := range map[string]string{
		"nobody listens": "http://127.0.0.1:9",
		"nobody answers": "http://" + silence(t),
		"it is busy":     busy.URL,
		"it refuses":     angry.URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ := collectTo(url)
			environ["OTEL_EXPORTER_OTLP_TIMEOUT"], environ["OTEL_BSP_EXPORT_TIMEOUT"], environ["OTEL_METRIC_EXPORT_TIMEOUT"] = "200", "200", "200"
			s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), environ)
			// For the traces and the metrics, each of which fails many times.
			lines := func() int { return strings.Count(s.stdout.String(), "do not reach their collector") }
			var slowest time.Duration
			for n := 0; n < 100 || lines() < 2; n++ {
				began := time.Now()
				response, body, err := s.post("order-placed", flow(fmt.Sprint("order-", n))[0].body)
				require.NoError(t, err)
				requireSettled(t, response, body, "Applied")
				slowest = max(slowest, time.Since(began))
				require.Less(t, n, 20000, "nothing is said of it")
			}
			require.Less(t, slowest, time.Second)
			require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
			asked := time.Now()
			require.Equal(t, exitFailed, s.exitCode(t, 5*time.Second))
			t.Logf("slowest answer %s, gone after %s", slowest, time.Since(asked))
			require.Equal(t, 2, lines(), "one for each signal")
			for line := range strings.Lines(s.stdout.String()) {
				require.NotContains(t, line, "OpenTelemetry", "nor is it said in the SDK's words")
			}
			require.NotContains(t, s.stdout.String(), "reach their collector again")
			require.NotContains(t, s.stderr.String(), "otel", "stderr is for what ends the program")
		})
	}
}

func TestAskedToStopWhileNeitherTheDatabaseNorTheCollectorAnswersTheHandlerIsGoneInTime(t *testing.T) {
	t.Parallel()
	require.Less(t, stopTimeout+goodbyeTimeout, 5*time.Second)
	database := filepath.Join(t.TempDir(), "orders.db")
	environ := collectTo("http://" + silence(t))
	environ["HandlerDeadline"] = "4m"
	s := startServed(t, database, environ)
	defer lockOut(t, database, s)()
	begun, told := make(chan struct{}, 1), make(chan string, 1)
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	defer client.CloseIdleConnections()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { begun <- struct{}{} }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/order-placed", bytes.NewReader(flow("order-42")[0].body))
	require.NoError(t, err)
	r.Header.Set("Expect", "100-continue") // it is invoked when its body is wanted
	go func() {
		response, err := client.Do(r)
		if err != nil {
			told <- err.Error()
			return
		}
		defer response.Body.Close()
		told <- response.Status
	}()
	within(t, 10*time.Second, begun)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	asked := time.Now()
	require.Equal(t, exitFailed, s.exitCode(t, 6*time.Second))
	t.Logf("gone after %s", time.Since(asked))
	require.Equal(t, "500 Internal Server Error", within(t, time.Second, told))
}

func TestTheLogSaysWhenTheCollectorIsBack(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), collectTo("http://127.0.0.1:"+port))
	say := func(words string) int { return strings.Count(s.stdout.String(), words) }
	n := 0
	post := func() {
		n++
		_, _, err := s.post("order-placed", flow(fmt.Sprint("order-", n))[0].body)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { post(); return say("do not reach") == 2 }, 20*time.Second, 10*time.Millisecond)
	c := &collector{t: t, points: make(map[string]point)}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	require.NoError(t, err)
	c.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(c.serve)}}
	c.Start()
	t.Cleanup(c.Close)
	require.Eventually(t, func() bool { post(); return say("collector again") == 2 }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, 2, say("do not reach"))
	require.NotEmpty(t, c.named("process OrderPlaced"))
}
