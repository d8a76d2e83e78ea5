package telemetry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/telemetry"
)

func TestWhereTelemetryGoesIsReadFromTheStandardVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ         map[string]string
		traces, metrics string
	}{
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, "http://h:4318/v1/traces", "http://h:4318/v1/metrics"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": " https://h/base/ "}, "https://h/base/v1/traces", "https://h/base/v1/metrics"},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:1/as/it/is"}, "http://h:1/as/it/is", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://[::1]:1"}, "", "http://[::1]:1"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m/x"}, "http://h/v1/traces", "http://m/x"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "none"}, "", "http://h/v1/metrics"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "otlp"}, "http://h/v1/traces", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf"}, "http://h/v1/traces", "http://h/v1/metrics"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "TRUE"}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_EXPORTER": "jaeger"}, "", ""},
	} {
		got, err := telemetry.Read(c.environ)
		require.NoError(t, err, c.environ)
		require.Equal(t, []string{c.traces, c.metrics}, []string{got.Traces, got.Metrics}, c.environ)
	}
}
