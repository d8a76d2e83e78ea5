// Package telemetry gives OpenTelemetry's traces and metrics of what is done
// here to a collector, over OTLP/HTTP. It is the only room that knows
// OpenTelemetry; why it is as it is says docs/adr/0017.
//
// Read endpoint.go first, which decides whether there is any; then trace.go, one
// span for a message that comes and one for a message that goes; then
// measure.go, what is counted.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"orderflow/functions"
	"orderflow/workflow"
)

// scope names who made a span or a measurement.
const scope = "orderflow"

// Topics are the names of the two topics, for spans.
type Topics struct{ Orders, Commands string }

// Telemetry watches a handler. Nil watches nothing and costs nothing; all its
// methods may be called on it.
type Telemetry struct {
	topics Topics
	types  types
	tracer trace.Tracer // nil: no traces
	meters *meters      // nil: no metrics
	stops  []func(context.Context) error
}

// Start begins to send to the collectors of some endpoints; it is nil if there
// are none. Nothing is dialled yet, and a collector that is away is no error
// then or later: a line in the log says when that changes.
//
// What the standard variables say beyond the endpoints, the SDK reads from the
// environment of the process.
func Start(ctx context.Context, to Endpoints, topics Topics, log *slog.Logger) (*Telemetry, error) {
	if to == (Endpoints{}) {
		return nil, nil //nolint:nilnil // nil is the one that watches nothing
	}
	speakThrough(log)
	from, err := whoWeAre(ctx)
	if err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "OTEL_RESOURCE_ATTRIBUTES is not understood in full", slog.String("error", err.Error()))
	}
	t := &Telemetry{topics: topics, types: taken()}
	if to.Traces != "" {
		exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to.Traces))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", to.tracesFrom, err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithResource(from),
			sdktrace.WithBatcher(spans{exporter, &reach{what: "traces", log: log}}))
		t.tracer = provider.Tracer(scope)
		t.stops = append(t.stops, provider.Shutdown)
	}
	if to.Metrics != "" {
		exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(to.Metrics))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", to.metricsFrom, err), t.Stop(ctx))
		}
		reader := sdkmetric.NewPeriodicReader(numbers{exporter, &reach{what: "metrics", log: log}})
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(from), sdkmetric.WithReader(reader))
		t.stops = append(t.stops, provider.Shutdown)
		if t.meters, err = newMeters(provider.Meter(scope)); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare the metrics: %w", err), t.Stop(ctx))
		}
	}
	log.LogAttrs(ctx, slog.LevelInfo, "telemetry is on", slog.String("traces", to.Traces), slog.String("metrics", to.Metrics))
	return t, nil
}

// whoWeAre is the resource that all telemetry is about. The environment has the
// last word. An error leaves out what could not be read.
func whoWeAre(ctx context.Context) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			semconv.ServiceName("orderflow"),
			semconv.ServiceVersion(version()),
			// Else what several instances count would be taken for one's.
			semconv.ServiceInstanceID(uuid.NewString()),
		),
		resource.WithFromEnv(),
	)
}

// version is that of the program, as the build recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// Watch has an app's invocations, and the backlog and the dead letters that it
// counts, observed.
func (t *Telemetry) Watch(app functions.App) functions.App {
	if t == nil {
		return app
	}
	if t.tracer != nil {
		app.Trace = t.arrived
	}
	if t.meters != nil {
		app.Measure = t.meters.invocation
		if app.Backlog != nil {
			app.Backlog = backlog{app.Backlog, t.meters}
		}
		if app.DeadLetters != nil {
			app.DeadLetters = deadLetters{app.DeadLetters, t.meters}
		}
	}
	return app
}

// Decided counts decisions, for whoever makes them; it is nil if nobody wants
// to know.
func (t *Telemetry) Decided() func([]workflow.Decision) {
	if t == nil || t.meters == nil {
		return nil
	}
	return t.meters.decided
}

// Stop sends what was not sent yet, as far as that can be done before ctx ends.
func (t *Telemetry) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	errs := make([]error, len(t.stops))
	var wg sync.WaitGroup
	for i, stop := range t.stops {
		wg.Go(func() { errs[i] = stop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
