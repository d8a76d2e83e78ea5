package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/simulation"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// heardSender hands on what it is given to send.
type heardSender chan string

func (s heardSender) Send(_ context.Context, messages []workflow.Outgoing) ([]int64, error) {
	for _, m := range messages {
		s <- m.ID
	}
	return make([]int64, len(messages)), nil
}

func (heardSender) Cancel(context.Context, int64) error { return nil }

func TestWhatIsDecidedIsSentAtOnceAndWhatAFormerProcessLeftAtTheStart(t *testing.T) {
	t.Parallel()
	// No host, so no timer: what is sent, somebody was woken for.
	settings, err := readSettings(map[string]string{})
	require.NoError(t, err)
	database := filepath.Join(t.TempDir(), "orders.db")
	run := func(h handler, during func(url string)) {
		h.settings, h.log = settings, slog.New(slog.DiscardHandler)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.run(ctx, listener, database) }()
		during("http://" + listener.Addr().String() + "/order-placed")
		stop()
		require.NoError(t, <-ended)
	}
	place := func(url, orderID string) {
		body := flow(orderID)[0].body
		response, err := http.Post(url, "application/json", strings.NewReader(string(body)))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	next := func(sent heardSender) string {
		select {
		case id := <-sent:
			return id
		case <-time.After(10 * time.Second):
			return "nothing"
		}
	}

	sent := make(heardSender, 10)
	run(handler{sender: sent}, func(url string) {
		place(url, "order-1")
		require.Equal(t, "order-1:reserve-inventory:1", next(sent))
	})

	former, err := store.Open(t.Context(), database, store.Options{Now: time.Now})
	require.NoError(t, err)
	left := simulation.Sample{OrderID: "order-2", SKU: "A/1", Customer: "ada"}
	m, err := workflow.Envelope{ID: "m1", Type: workflow.OrderPlaced, OrderID: left.OrderID, Body: left.Body()}.Decode()
	require.NoError(t, err)
	_, err = former.Handle(t.Context(), m)
	require.NoError(t, err)
	require.NoError(t, former.Close())
	run(handler{sender: sent}, func(string) { require.Equal(t, "order-2:reserve-inventory:1", next(sent)) })
}
