package functions_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"orderflow/functions"
	"orderflow/workflow"
)

// instant decides at once, so that what is measured is the way there and back.
type instant struct{}

func (instant) Handle(context.Context, workflow.Message) (workflow.Decision, error) {
	return decision(workflow.Applied), nil
}
func (instant) Hold(context.Context, workflow.Message, string) (workflow.Decision, error) {
	return decision(workflow.Blocked), nil
}
func (instant) Reject(context.Context, workflow.Rejection) error { return nil }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// sink is a ResponseWriter that costs nothing.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(p []byte) (int, error) { return len(p), nil }
func (s sink) WriteHeader(int)             {}

// BenchmarkInvocation is a message from the HTTP request to the answer, the
// decision left out and the log line included.
func BenchmarkInvocation(b *testing.B) {
	h := functions.App{Process: instant{}, Log: slog.New(slog.NewJSONHandler(discard{}, nil))}.Handler()
	for _, name := range []string{"order-placed.binary", "order-placed.string"} {
		b.Run(name, func(b *testing.B) {
			body := fixture(b, name)
			r := newRequest(b, http.MethodPost, "/order-placed", http.NoBody)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				again := *r
				again.ContentLength = int64(len(body))
				again.Body = readCloser{strings.NewReader(body)}
				h.ServeHTTP(sink{http.Header{}}, &again)
			}
		})
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
