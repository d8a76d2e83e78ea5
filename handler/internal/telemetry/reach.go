package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// reach is whether a signal reaches its collector. It logs when that changes,
// and keeps every other failure from the SDK, which would tell of each.
type reach struct {
	what string
	log  *slog.Logger

	mu       sync.Mutex
	failures int // in a row
}

func (r *reach) learn(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled): // it is being stopped, and tries once more
	case err == nil && r.failures > 0:
		r.log.LogAttrs(ctx, slog.LevelInfo, r.what+" reach their collector again", slog.Int("failures", r.failures))
		r.failures = 0
	case err != nil:
		if r.failures++; r.failures == 1 {
			r.log.LogAttrs(ctx, slog.LevelWarn, r.what+" do not reach their collector", slog.String("error", err.Error()))
		}
	}
	return nil
}

// spans is an exporter of which is known whether it reaches its collector.
type spans struct {
	sdktrace.SpanExporter
	reach *reach
}

func (s spans) ExportSpans(ctx context.Context, all []sdktrace.ReadOnlySpan) error {
	return s.reach.learn(ctx, s.SpanExporter.ExportSpans(ctx, all))
}

// numbers is an exporter of which is known whether it reaches its collector.
type numbers struct {
	sdkmetric.Exporter
	reach *reach
}

func (n numbers) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	return n.reach.learn(ctx, n.Exporter.Export(ctx, all))
}

// speakThrough has the SDK say to a log what else it has to say, each thing
// once. It would write to stderr, which is for what ends the program. Both are
// of the whole process; there is no other way.
func speakThrough(log *slog.Logger) {
	v := &voice{log: log, said: make(map[string]bool)}
	otel.SetLogger(logr.New(v))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if !errors.Is(err, context.Canceled) { // which is that it is being stopped
			v.say(err.Error())
		}
	}))
}

// voice is the SDK's, as a logr.LogSink.
type voice struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]bool
}

// voiceMost is how many different things the SDK may say.
const voiceMost = 20

func (v *voice) say(what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.said[what] || len(v.said) == voiceMost {
		return
	}
	v.said[what] = true
	v.log.Warn("OpenTelemetry: " + what)
}

// Init, Enabled, Info, Error, WithValues and WithName make a voice a
// logr.LogSink. Only errors are heard, and of them the message alone: the values
// may be a header's, and so a key.
func (v *voice) Init(logr.RuntimeInfo)             {}
func (v *voice) Enabled(int) bool                  { return false }
func (v *voice) Info(int, string, ...any)          {}
func (v *voice) Error(_ error, m string, _ ...any) { v.say("it cannot " + m) }
func (v *voice) WithValues(...any) logr.LogSink    { return v }
func (v *voice) WithName(string) logr.LogSink      { return v }
