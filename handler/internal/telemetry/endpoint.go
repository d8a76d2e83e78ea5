package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Endpoints are where the signals are sent; the zero value is nowhere.
type Endpoints struct {
	Traces, Metrics         string // addresses in full, empty for a signal that is not sent
	tracesFrom, metricsFrom string // the variables that name them
}

// Read reads the standard variables that say whether and where something is
// sent. Its error names each that is wrong and says what it must be: the SDK
// would take its default instead, which is nowhere.
func Read(environ map[string]string) (Endpoints, error) {
	if strings.EqualFold(strings.TrimSpace(environ["OTEL_SDK_DISABLED"]), "true") {
		return Endpoints{}, nil
	}
	var e Endpoints
	var traces, metrics error
	e.Traces, e.tracesFrom, traces = endpoint(environ, "TRACES", "/v1/traces")
	e.Metrics, e.metricsFrom, metrics = endpoint(environ, "METRICS", "/v1/metrics")
	if traces != nil && metrics != nil && traces.Error() == metrics.Error() {
		metrics = nil // it is about the variable that they share
	}
	return e, errors.Join(traces, metrics)
}

// endpoint is where a signal is sent, and which variable says so. The variable
// of all signals names what they share, that of one signal its whole address.
func endpoint(environ map[string]string, signal, path string) (address, variable string, err error) {
	get := func(format string) (name, value string) {
		for _, name = range []string{fmt.Sprintf(format, signal+"_"), fmt.Sprintf(format, "")} {
			if value = strings.TrimSpace(environ[name]); value != "" {
				return name, value // one that is empty counts as not set
			}
		}
		return name, ""
	}
	variable, value := get("OTEL_EXPORTER_OTLP_%sENDPOINT")
	if value == "" {
		return "", "", nil
	}
	exporter := "OTEL_" + signal + "_EXPORTER"
	switch kind := strings.TrimSpace(environ[exporter]); kind {
	case "none":
		return "", "", nil
	case "", "otlp":
	default:
		return "", "", fmt.Errorf("%s must be otlp or none; it is %q", exporter, kind)
	}
	switch name, protocol := get("OTEL_EXPORTER_OTLP_%sPROTOCOL"); protocol {
	case "", "http/protobuf", "http/json":
	default:
		return "", "", fmt.Errorf("%s must be http/protobuf or http/json, which is what this program speaks; it is %q", name, protocol)
	}
	u, fault := parse(value)
	if fault != "" {
		return "", "", fmt.Errorf("%s must be the address of an OTLP/HTTP collector, such as http://127.0.0.1:4318; %s", variable, fault)
	}
	if variable == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		u = u.JoinPath(path)
	}
	return u.String(), variable, nil
}

// parse reads an address, or says what is wrong with it. What may be a secret in
// it is not repeated.
func parse(address string) (*url.URL, string) {
	u, err := url.Parse(address)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err // without the address
		}
		return nil, "it cannot be read: " + err.Error()
	}
	port := u.Port()
	number, err := strconv.Atoi(port)
	switch {
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, "it holds more than a host and a path; a key belongs in OTEL_EXPORTER_OTLP_HEADERS"
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Sprintf("it is %q, which does not begin with http:// or https://", address)
	case u.Hostname() == "":
		return nil, fmt.Sprintf("it is %q, which names no host", address)
	case port != "" && (err != nil || number < 1 || number > 65535):
		return nil, fmt.Sprintf("it is %q, whose port is not from 1 to 65535", address)
	}
	return u, ""
}
