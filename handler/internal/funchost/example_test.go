package funchost_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"orderflow/handler/internal/funchost"
	"orderflow/handler/internal/localbus"
)

// A function app of one function, its handler, and a message that gets there.
func ExampleHost() {
	root := fstest.MapFS{
		"host.json": {Data: []byte(`{"version": "2.0",
			"extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"},
			"customHandler": {"description": {"defaultExecutablePath": "handler/handler"}}}`)},
		"order-placed/function.json": {Data: []byte(`{"bindings": [{"type": "serviceBusTrigger", "direction": "in",
			"name": "message", "topicName": "%OrdersTopic%", "subscriptionName": "order-placed",
			"connection": "ServiceBusConnection", "isSessionsEnabled": true, "dataType": "binary"}]}`)},
	}
	settings := map[string]string{"OrdersTopic": "orders"}
	app, err := funchost.Load(root, func(name string) (string, bool) { value, ok := settings[name]; return value, ok })
	if err != nil {
		log.Fatal(err)
	}

	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"Outputs":{},"Logs":[],"ReturnValue":null}`)
	}))
	defer handler.Close()
	address := netip.MustParseAddrPort(strings.TrimPrefix(handler.URL, "http://"))

	dir, err := os.MkdirTemp("", "funchost")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bus, err := localbus.Open(filepath.Join(dir, "bus.db"), []localbus.Topic{
		{Name: "orders", Subscriptions: []localbus.Subscription{{Name: "order-placed"}}},
	}, time.Now)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = bus.Close() }()

	ctx, stop := context.WithCancel(context.Background())
	host := funchost.Host{App: app, Bus: bus, Port: int(address.Port()), Now: time.Now, OnInvocation: func(inv funchost.Invocation) {
		fmt.Println(inv.Function, inv.MessageID, inv.SessionID, inv.DeliveryCount, inv.Err)
		stop()
	}}
	if _, err := bus.Send(ctx, "orders", localbus.Message{MessageID: "m-1", SessionID: "order-42", Body: []byte(`{}`)}); err != nil {
		log.Fatal(err)
	}
	if err := host.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: order-placed m-1 order-42 1 <nil>
}

func ExampleParseSchedule() {
	schedule, err := funchost.ParseSchedule("0 30 9 13 * FRI") // the 13th and a Friday, not either
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(schedule.Next(time.Date(2026, 7, 19, 0, 0, 0, 0, time.UTC)))
	// Output: 2026-11-13 09:30:00 +0000 UTC
}
