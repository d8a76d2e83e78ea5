package main

import (
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes telemetry over OTLP/HTTP and keeps what it is given.
type collector struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	requests int
	raw      strings.Builder // all that was received, as bytes
	resource map[string]any
	spans    []span
	points   map[string]point // the last of each series
}

// span is one span as it was received.
type span struct {
	name, kind        string
	trace, id, parent string
	attributes        map[string]any
	failure           string // the description of an error; "-" for one without
	began, ended      time.Time
}

// traceParent is what a message carries whose parent the span is.
func (s span) traceParent() string { return "00-" + s.trace + "-" + s.id + "-01" }

// point is the last value of one series.
type point struct {
	metric string
	labels map[string]any
	value  float64 // a sum, a gauge, or how many are in a histogram
	sum    float64 // of a histogram
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t, points: make(map[string]point)}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	body, err := io.ReadAll(r.Body)
	if err != nil { // a sender or this collector stops amid a request: nothing was said
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.raw.Write(body)
	if err := c.take(r.URL.Path, body); err != nil {
		c.t.Errorf("%s: %v", r.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
	}
}

func (c *collector) take(path string, body []byte) error {
	switch path {
	case "/v1/traces":
		var request coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			return err
		}
		for _, r := range request.GetResourceSpans() {
			c.resource = values(r.GetResource().GetAttributes())
			for _, scope := range r.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					got := span{
						name: s.GetName(), kind: strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"),
						trace: hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()),
						attributes: values(s.GetAttributes()),
						began:      time.Unix(0, int64(s.GetStartTimeUnixNano())), ended: time.Unix(0, int64(s.GetEndTimeUnixNano())),
					}
					if s.GetStatus().GetCode().String() == "STATUS_CODE_ERROR" {
						got.failure = or(s.GetStatus().GetMessage(), "-")
					}
					c.spans = append(c.spans, got)
				}
			}
		}
	case "/v1/metrics":
		var request colmetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			return err
		}
		for _, r := range request.GetResourceMetrics() {
			c.resource = values(r.GetResource().GetAttributes())
			for _, scope := range r.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					c.takeMetric(m)
				}
			}
		}
	default:
		c.t.Errorf("telemetry went to %s", path)
	}
	return nil
}

func (c *collector) takeMetric(m *metrics.Metric) {
	add := func(attributes []*common.KeyValue, value, sum float64) {
		labels := values(attributes)
		key := m.GetName()
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			key += " " + labels[name].(string)
		}
		c.points[key] = point{m.GetName(), labels, value, sum}
	}
	for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
		add(p.GetAttributes(), float64(p.GetAsInt())+p.GetAsDouble(), 0)
		if len(p.GetExemplars()) > 0 {
			c.t.Errorf("%s has exemplars, which hold IDs", m.GetName())
		}
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		add(p.GetAttributes(), float64(p.GetCount()), p.GetSum())
		if len(p.GetExemplars()) > 0 {
			c.t.Errorf("%s has exemplars, which hold IDs", m.GetName())
		}
	}
}

// values are attributes as Go values.
func values(attributes []*common.KeyValue) map[string]any {
	all := make(map[string]any)
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.GetKey()] = v.IntValue
		case *common.AnyValue_DoubleValue:
			all[a.GetKey()] = v.DoubleValue
		default:
			all[a.GetKey()] = a.GetValue().String()
		}
	}
	return all
}

// named are the spans of a name, in the order of their ends.
func (c *collector) named(name string) (all []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.name == name {
			all = append(all, s)
		}
	}
	return all
}

// one is the only span of a name; it is waited for.
func (c *collector) one(t *testing.T, name string) span {
	t.Helper()
	require.Eventually(t, func() bool { return len(c.named(name)) > 0 }, 10*time.Second, 5*time.Millisecond, name)
	all := c.named(name)
	require.Len(t, all, 1, name)
	return all[0]
}

// count is the value of a series, by its name and its labels' values in the
// order of their names; -1 if there is none.
func (c *collector) count(series string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.points[series]; ok {
		return int(p.value)
	}
	return -1
}

// series are the names of all that was received, with the labels' values.
func (c *collector) series() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.points))
}

// received is all that was received, as bytes.
func (c *collector) received() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

// asked is how many requests there were.
func (c *collector) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}
