package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/localbus"
	"orderflow/handler/internal/servicebus"
	"orderflow/handler/internal/simulation"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// shots is where the pictures go that the browser takes, none without it.
var shots = flag.String("shots", "", "the folder in which TestOperatorsWorkWithThePageInABrowser leaves pictures of the page")

// What hostile messages say in every field that may say anything.
const hostile = `"><img src=x onerror="document.title='taken'"><script>document.title='taken'</script>javascript:x`

// TestOperatorsWorkWithThePageInABrowser has Chromium follow orders, act on them
// and read what hostile messages say. The browser's part is in
// testdata/browser/page.cjs; it fails on any error in the console, which any
// breach of the Content-Security-Policy is.
func TestOperatorsWorkWithThePageInABrowser(t *testing.T) {
	t.Parallel()
	chromium := needsBrowser(t)
	executable, err := binary()
	require.NoError(t, err)
	var mended atomic.Bool
	r := raise(t, rigging{
		instances: 1, executable: executable, window: 20 * time.Second, idle: 200 * time.Millisecond,
		environ: map[string]string{"DuplicateDetection": "20s", "ShipmentDeadline": "3s", "TimeoutSendAhead": "2s", "OutboxLease": "1s", "OutboxSchedule": "* * * * * *"},
		faults: busserver.Faults{On: func(e busserver.Event) busserver.Fault {
			if e.Moment == busserver.Arrived && !mended.Load() {
				for _, m := range e.Messages {
					if m.SessionID == "order-dead" && m.Subject == string(workflow.CapturePayment) {
						return busserver.Fault{Refuse: amqp.Errorf(amqp.MessageSizeExceeded, "too large for this namespace")}
					}
				}
			}
			return busserver.Fault{}
		}},
	})
	site := httptest.NewServer(keyed(r.instances[0].host, &mended))
	t.Cleanup(site.Close)
	r.furnish()

	script := exec.CommandContext(t.Context(), "node", "page.cjs", site.URL+"/api/ops", chromium)
	script.Dir = filepath.Join("testdata", "browser")
	script.Env = append(os.Environ(), "SHOTS="+shotsFolder(t))
	var said bytes.Buffer
	script.Stdout, script.Stderr = &said, &said
	err = script.Run()
	t.Log(said.String())
	require.NoError(t, err, "what the browser did not find is said above")

	db, err := store.Open(t.Context(), r.database, store.Options{Now: time.Now})
	require.NoError(t, err)
	defer db.Close()
	cancelled, err := db.Story(t.Context(), "order-silent")
	require.NoError(t, err)
	require.Equal(t, workflow.Cancelled, cancelled.Order.Status)
	asked := heard(t, cancelled, workflow.CancellationRequested)
	require.Equal(t, workflow.Applied, asked.Outcome)
	require.True(t, strings.HasPrefix(asked.MessageID, "operator:"), "under the dialog's own Idempotency-Key")
	require.Contains(t, readBody(t, r, asked.MessageID), "Zoë's friend <ann>", "the reason as it was typed")
	resent, err := db.Story(t.Context(), "order-dead")
	require.NoError(t, err)
	require.Equal(t, workflow.Completed, resent.Order.Status, "the dead command was sent again and answered")
}

// furnish has orders of all sorts: some go on, some are stuck, and some messages
// are hostile.
func (r *rig) furnish() {
	t := r.t
	t.Helper()
	client, err := servicebus.NewClient(servicebus.Connection{String: r.broker})
	require.NoError(t, err)
	answers, err := client.NewSender(r.settings.OrdersTopic, nil)
	require.NoError(t, err)
	world := simulation.World{
		Client: client, Answers: answers, Commands: r.settings.CommandsTopic, Pace: 200 * time.Millisecond, Late: time.Hour, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	}
	background := t.Context() // it ends before the rig is stopped
	done := make(chan struct{})
	go func() { defer close(done); world.Run(background) }()
	t.Cleanup(func() { <-done })
	for _, s := range []simulation.Sample{
		{OrderID: "order-1", SKU: "A/1", Customer: "ada"},
		{OrderID: "order-silent", SKU: "A/1", Customer: simulation.SilentBank},
		{OrderID: "order-patient", SKU: "A/1", Customer: simulation.SilentBank},
		{OrderID: "order-dead", SKU: "A/1", Customer: "ada"},
		{OrderID: "order-lost", SKU: simulation.LostParcel, Customer: "ada"},
		{OrderID: "order-refund", SKU: simulation.Unshippable, Customer: simulation.StubbornBank},
		{OrderID: "order-empty", SKU: simulation.OutOfStock, Customer: "ada"},
		{OrderID: "order-declined", SKU: "A/1", Customer: simulation.Declined},
		{OrderID: "order-minds", SKU: "A/1", Customer: simulation.ChangesMind},
		{OrderID: "order-2", SKU: "A/1", Customer: "ada"},
		{OrderID: "order-3", SKU: "B/2", Customer: "ada"},
		{OrderID: "order-hostile", SKU: hostile, Customer: simulation.SilentBank},
		{OrderID: "order-blocked", SKU: "A/1", Customer: simulation.SilentBank},
	} {
		require.NoError(t, world.Place(t.Context(), s))
	}
	say := func(order, id string, kind workflow.MessageType, body any) {
		text, given := body.([]byte)
		if !given {
			text, err = json.Marshal(body)
			require.NoError(t, err)
		}
		_, err = r.bus.Send(t.Context(), r.settings.OrdersTopic, localbus.Message{
			MessageID: id, SessionID: order, Subject: string(kind), Body: text, Properties: map[string]any{workflow.PropertyParent: hostile},
		})
		require.NoError(t, err)
	}
	say("order-hostile", hostile, workflow.PaymentFailed, map[string]any{"orderId": "order-hostile", "reason": hostile})
	say("order-early", "warehouse:early-1", workflow.InventoryReserved, map[string]any{"orderId": "order-early", "reservationId": hostile})
	say("order-1", "broken:1", workflow.PaymentCaptured, []byte(`{"orderId":`+hostile))
	say("order-of-the-other-shop-4711", "broken:"+strings.Repeat("0a1b2c3d", 8), workflow.PaymentCaptured, map[string]any{"orderId": strings.Repeat("4e5f6071", 8)})
	say("order-1", "broken:2", workflow.PaymentCaptured, []byte{0xff, 0xfe, 0x00, 'x'})

	_, err = r.bus.Send(t.Context(), r.settings.OrdersTopic, localbus.Message{
		MessageID: "bank:gone", SessionID: "order-gone", Subject: string(workflow.PaymentCaptured), TimeToLive: time.Nanosecond,
		Body: []byte(`{"orderId":"order-gone","paymentId":"payment-9"}`),
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(r.deadLetters(t.Context())) == 1 }, 30*time.Second, 50*time.Millisecond, "the broker gave a message up")

	db, err := store.Open(t.Context(), r.database, store.Options{Now: time.Now})
	require.NoError(t, err)
	defer db.Close()
	is := func(order string, status workflow.Status) func() bool {
		return func() bool {
			story, err := db.Story(t.Context(), order)
			return err == nil && story.Order.Status == status
		}
	}
	for order, status := range map[string]workflow.Status{
		"order-1": workflow.Completed, "order-lost": workflow.NeedsAttention, "order-refund": workflow.NeedsAttention,
		"order-dead": workflow.AwaitingPayment, "order-blocked": workflow.AwaitingPayment,
	} {
		require.Eventually(t, is(order, status), 30*time.Second, 50*time.Millisecond, "%s gets to %s", order, status)
	}
	blocks, err := workflow.Envelope{
		ID: "bank:captured-7", Type: workflow.PaymentCaptured, OrderID: "order-blocked", Body: []byte(`{"orderId":"order-blocked","paymentId":"payment-7"}`),
	}.Decode()
	require.NoError(t, err)
	_, err = db.Hold(t.Context(), blocks, "panic: "+hostile)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		page, err := db.Dispatches(t.Context(), workflow.DispatchDead, false, 10, "")
		return err == nil && len(page.Items) == 1
	}, 30*time.Second, 50*time.Millisecond, "the command is dead")
}

// keyed is the host with the check of keys that Azure's makes, and mends the
// broker when it is told to.
func keyed(host http.Handler, mended *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := "look"
		switch {
		case r.URL.Path == "/api/ops":
			key = ""
		case r.URL.Path == "/mend":
			mended.Store(true)
			return
		case r.Method == http.MethodPost:
			key = "act"
		}
		if r.URL.RawQuery != "" && strings.Contains(r.URL.RawQuery, "look") {
			http.Error(w, "a key in an address", http.StatusTeapot)
			return
		}
		if key != "" && r.Header.Get("X-Functions-Key") != key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		host.ServeHTTP(w, r)
	})
}

// readBody is the body of a message that was journalled.
func readBody(t *testing.T, r *rig, id string) (body string) {
	t.Helper()
	require.NoError(t, r.sql().QueryRowContext(t.Context(), `SELECT CAST(body AS TEXT) FROM journal WHERE message_id = ?`, id).Scan(&body))
	return body
}

func shotsFolder(t *testing.T) string {
	t.Helper()
	if *shots == "" {
		return ""
	}
	folder, err := filepath.Abs(*shots)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o750))
	return folder
}

// needsBrowser skips a test where there is no browser or nothing to drive it,
// and returns the browser.
func needsBrowser(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("NOT RUN: the page's browser needs node")
	}
	if _, err := os.Stat(filepath.Join("testdata", "browser", "node_modules")); errors.Is(err, os.ErrNotExist) {
		t.Skip("NOT RUN: what drives the browser is not installed; run npm ci in handler/testdata/browser")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("NOT RUN: no Chromium is installed; on Debian, apt-get install chromium")
	return ""
}
