package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABadSettingEndsInAClearMessageThatNamesItWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = busy.Close() })
	_, busyPort, err := net.SplitHostPort(busy.Addr().String())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "a file")
	require.NoError(t, os.WriteFile(file, []byte("no database"), 0o600))

	for _, c := range []struct {
		name     string
		settings map[string]string // beside good ones; a value "-" takes one away
		says     []string
	}{
		{"the port is not a number", map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "abc"}, []string{"FUNCTIONS_CUSTOMHANDLER_PORT", `"abc"`}},
		{"the port is out of range", map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "70000"}, []string{"FUNCTIONS_CUSTOMHANDLER_PORT", "65535"}},
		{"the port is busy", map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": busyPort}, []string{"FUNCTIONS_CUSTOMHANDLER_PORT", busyPort, "in use"}},
		{"the database's folder does not exist", map[string]string{"SqlConnection": "/nowhere/orders.db"}, []string{"SqlConnection", "/nowhere/orders.db"}},
		{"the database's folder is a file", map[string]string{"SqlConnection": file + "/orders.db"}, []string{"SqlConnection"}},
		{"the database is another file", map[string]string{"SqlConnection": file}, []string{"SqlConnection", "not a database"}},
		{"the database is a folder", map[string]string{"SqlConnection": filepath.Dir(file)}, []string{"SqlConnection"}},
		{"the database is missing", map[string]string{"SqlConnection": "-"}, []string{"SqlConnection"}},
		{"the database is of another kind", map[string]string{"SqlConnection": "postgres://h/db"}, []string{"SqlConnection", "postgres"}},
		{"the database's address is one of ADO.NET", map[string]string{"SqlConnection": "Server=tcp:h,1433;User ID=u;Password=hunter2://x"}, []string{"SqlConnection must be", "sqlserver://", "NAME=VALUE"}},
		{"the database's address cannot be read", map[string]string{"SqlConnection": "sqlserver://u:p@h:notaport"}, []string{"SqlConnection", "notaport"}},
		{"the pool is no number", map[string]string{"SqlMaxConnections": "many"}, []string{"SqlMaxConnections", `"many"`, "a whole number"}},
		{"the pool is empty", map[string]string{"SqlMaxConnections": "0"}, []string{"SqlMaxConnections", "1000"}},
		{"the database's timeout is too short", map[string]string{"SqlTimeout": "1ms"}, []string{"SqlTimeout", "1s"}},
		{"a connection's life is too long", map[string]string{"SqlConnectionLifetime": "48h"}, []string{"SqlConnectionLifetime", "24h"}},
		{"a deadline is no time", map[string]string{"PaymentDeadline": "7d"}, []string{"PaymentDeadline", `"7d"`, "168h"}},
		{"a deadline is too short", map[string]string{"ShipmentDeadline": "0s"}, []string{"ShipmentDeadline", "1s"}},
		{"a deadline is negative", map[string]string{"CompensationDeadline": "-1h"}, []string{"CompensationDeadline"}},
		{"the handler's deadline outlasts the host's", map[string]string{"HandlerDeadline": "10m"}, []string{"HandlerDeadline", "4m"}},
		{"early messages are given no time", map[string]string{"EarlyLimit": "1s"}, []string{"EarlyLimit", "1m"}},
		{"nothing is kept", map[string]string{"Retention": "0s"}, []string{"Retention", "1h"}},
		{"the topics forget at once", map[string]string{"DuplicateDetection": "1s"}, []string{"DuplicateDetection", "20s"}},
		{"nobody says that SQL Server does not answer", map[string]string{"SqlConnection": "sqlserver://u:p@127.0.0.1?database=d", "SqlTimeout": "45s"}, []string{"SqlTimeout must be shorter than three quarters of HandlerDeadline, 45s", "it is 45s"}},
		{"a command is deleted before it may be sent again", map[string]string{"Retention": "1h", "DuplicateDetection": "2h"}, []string{"Retention must be at least DuplicateDetection, 2h0m0s", "it is 1h0m0s"}},
		{"the topics forget before a lease is over", map[string]string{"OutboxLease": "30s", "DuplicateDetection": "30s"}, []string{"OutboxLease must be shorter than DuplicateDetection, 30s", "it is 30s"}},
		{"a message is held after the last delivery", map[string]string{"HoldFromDelivery": "11"}, []string{"HoldFromDelivery must be between 1 and 10"}},
		{"a message is held before the first delivery", map[string]string{"HoldFromDelivery": "0"}, []string{"HoldFromDelivery must be between 1 and 10"}},
		{"nothing is claimed", map[string]string{"OutboxBatch": "0"}, []string{"OutboxBatch must be between 1 and 1000"}},
		{"nobody sends", map[string]string{"OutboxParallel": "0"}, []string{"OutboxParallel must be between 1 and 256"}},
		{"the number of senders is no number", map[string]string{"OutboxParallel": "a few"}, []string{"OutboxParallel", `"a few"`, "a whole number"}},
		{"the outbox has no schedule", map[string]string{"OutboxSchedule": " "}, []string{"OutboxSchedule must be an NCRONTAB schedule"}},
		{"the sweep has no schedule", map[string]string{"SweepSchedule": " "}, []string{"SweepSchedule must be an NCRONTAB schedule"}},
		{"a topic is empty", map[string]string{"OrdersTopic": " "}, []string{"OrdersTopic"}},
		{"Service Bus is missing", map[string]string{"ServiceBusConnection": "-"}, []string{"ServiceBusConnection"}},
		{"Service Bus is nonsense", map[string]string{"ServiceBusConnection": "nonsense"}, []string{"ServiceBusConnection"}},
		{"Service Bus is given twice", map[string]string{"ServiceBusConnection__fullyQualifiedNamespace": "n"}, []string{"ServiceBusConnection", "both"}},
		{"the collector has no scheme", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT must be the address", "http://127.0.0.1:4318", `"collector:4318"`}},
		{"the collector is at another kind of address", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "grpc://collector:4317"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://"}},
		{"the collector has no host", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://:4318"}, []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "names no host"}},
		{"the collector's port is too large", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:70000"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "65535"}},
		{"the collector's port is no number", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://h:otlp"}, []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "invalid port"}},
		{"the collector's address holds a password", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:hunter2@h"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"}},
		{"the collector's address holds a key", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h/?api-key=hunter2"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"}},
		{"the collector's address is broken and holds a password", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:hunter2@h:x/%zz"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "cannot be read"}},
		{"the collector is to be spoken to by gRPC", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, []string{"OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or http/json", `"grpc"`}},
		{"metrics are to go elsewhere", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_METRICS_EXPORTER": "prometheus"}, []string{"OTEL_METRICS_EXPORTER must be otlp or none", `"prometheus"`}},
		{"two are wrong at once", map[string]string{"PaymentDeadline": "x", "InventoryDeadline": "y"}, []string{"PaymentDeadline", "InventoryDeadline"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			settings := map[string]string{
				"FUNCTIONS_CUSTOMHANDLER_PORT": freePort(t), "ServiceBusConnection": nowhere,
				"SqlConnection": filepath.Join(t.TempDir(), "orders.db"),
			}
			for name, value := range c.settings {
				settings[name] = value
				if value == "-" {
					delete(settings, name)
				}
			}
			p := start(t, settings)
			require.Equal(t, exitFailed, p.exitCode(t, 2*time.Second))
			for _, word := range c.says {
				require.Contains(t, p.stderr.String(), word)
			}
			require.NotContains(t, p.stderr.String(), "goroutine", "it is a message, not a crash")
			require.NotContains(t, p.stderr.String(), "hunter2", "what may be a secret is not repeated")
			for name := range c.settings {
				require.LessOrEqual(t, strings.Count(p.stderr.String(), "orderflow: "+name+" "), 1, "each mistake is said once: %s", &p.stderr)
			}
		})
	}
}

func TestNoFailureEndsWithACodeThatTheHostTakesForSomethingElse(t *testing.T) {
	t.Parallel()
	for _, code := range []int{exitFailed, exitUsage} { // which is what the other tests compare with
		require.NotContains(t, []int{0, 200}, code, "0 is done, 200 an ordered restart")
	}
}

func TestABadFlagOfLocalModeIsNamed(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = busy.Close() })
	_, busyPort, err := net.SplitHostPort(busy.Addr().String())
	require.NoError(t, err)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"local", "-port", "abc"}, exitUsage, "port"},
		{[]string{"local", "-port", busyPort}, exitFailed, "-port"},
		{[]string{"local", "-deadline", "1ms"}, exitUsage, "-deadline"},
		{[]string{"local", "-dir", "/dev/null/x"}, exitFailed, "-dir"},
		{[]string{"local", "-port", "0", "-root", "/"}, exitFailed, "-root"},
		{[]string{"local", "-without", "inventory,warehouse"}, exitUsage, `-without: there is no service "warehouse"; there are inventory, payment, shipping, order-updates`},
		{[]string{"local", "surplus"}, exitUsage, "surplus"},
		{[]string{"lokal"}, exitUsage, "lokal"},
		{[]string{"serve", "surplus"}, exitUsage, "surplus"},
		{[]string{"migrate"}, exitUsage, "up"},
		{[]string{"migrate", "down"}, exitUsage, "status"},
		{[]string{"migrate", "up"}, exitFailed, "SqlConnection"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			args := c.args
			if args[0] == "local" && !slices.Contains(args, "-dir") {
				args = append(slices.Clone(args[:1]), append([]string{"-dir", folder(t)}, args[1:]...)...)
			}
			p := start(t, nil, args...)
			require.Equal(t, c.code, p.exitCode(t, 2*time.Second))
			require.Contains(t, p.stderr.String(), c.says)
		})
	}
}

// hostOnly are settings that only the Functions host reads. The last is for the
// Service Bus emulator, which lets a topic be asked 200 times at once.
var hostOnly = []string{
	"FUNCTIONS_WORKER_RUNTIME", "AzureWebJobsStorage",
	"AzureFunctionsJobHost__extensions__serviceBus__maxConcurrentSessions",
}

// example reads the example of the app settings.
func example(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../local.settings.json.example")
	require.NoError(t, err)
	var file struct{ Values map[string]string }
	require.NoError(t, json.Unmarshal(b, &file))
	return file.Values
}

func TestTheExampleHoldsEverySettingThatIsReadAndNoOther(t *testing.T) {
	t.Parallel()
	var read []string
	for field := range reflect.TypeFor[settings]().Fields() {
		name := field.Tag.Get("env")
		if name != "FUNCTIONS_CUSTOMHANDLER_PORT" && !strings.Contains(name, "__") { // the host's own; the other way to connect
			read = append(read, name)
		}
	}
	var listed []string
	for name := range example(t) {
		listed = append(listed, name)
	}
	require.ElementsMatch(t, append(read, hostOnly...), listed)
}

func TestTheExampleHoldsTheDefaults(t *testing.T) {
	t.Parallel()
	values := example(t)
	for field := range reflect.TypeFor[settings]().Fields() {
		if def, ok := field.Tag.Lookup("envDefault"); ok && field.Name != "Port" {
			require.Equal(t, def, values[field.Tag.Get("env")], field.Tag.Get("env"))
		}
	}
	s, err := readSettings(values)
	require.NoError(t, err)
	require.NoError(t, s.checkServe())
}

func TestSettingsAreHandedOnAsTheyAreRead(t *testing.T) {
	t.Parallel()
	s, err := readSettings(map[string]string{
		"FUNCTIONS_CUSTOMHANDLER_PORT": "54321", "SqlConnection": "a b.db", "ServiceBusConnection": nowhere,
		"PaymentDeadline": "90s", "OutboxSchedule": "* * * * * *",
	})
	require.NoError(t, err)
	again, err := readSettings(s.environment())
	require.NoError(t, err)
	require.Equal(t, s, again)
}

func TestSettingsReachWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	s, err := readSettings(map[string]string{
		"EarlyLimit": "2h", "Retention": "48h", "DuplicateDetection": "30m", "SqlMaxConnections": "7",
		"OutboxBatch": "11", "OutboxParallel": "13", "OutboxLease": "40s", "HandlerDeadline": "30s", "HoldFromDelivery": "5",
	})
	require.NoError(t, err)
	h := handler{settings: s}
	out := h.dispatcher(nil)
	require.Equal(t, []int{11, 13}, []int{out.Batch, out.Parallel})
	require.Equal(t, 40*time.Second, out.Lease)
	require.Less(t, out.Budget, s.HandlerDeadline)
	orders := &lateStore{}
	served := h.app(t.Context(), orders, out)
	require.Equal(t, []int{5, 128}, []int{served.HoldFrom, served.Concurrent})
	require.Equal(t, []time.Duration{30 * time.Second, 30 * time.Minute}, []time.Duration{served.Deadline, served.DuplicateDetection})
	require.Equal(t, []any{orders, orders, orders, orders, out}, []any{served.Process, served.Orders, served.Backlog, served.Sweeper, served.Outbox})
	options := s.storeOptions()
	require.Equal(t, []time.Duration{2 * time.Hour, 48 * time.Hour, 30 * time.Minute},
		[]time.Duration{options.EarlyLimit, options.Retention, options.DuplicateDetection})

	require.Equal(t, 128, s.concurrent(), "SQLite has one writer, and shared commits")
	s.SQLConnection = "sqlserver://u:p@h?database=orders"
	require.Equal(t, 7, s.concurrent(), "SQL Server has so many connections")

	l := localSystem{settings: s}
	for _, topic := range l.topics() {
		require.Equal(t, 30*time.Minute, topic.DuplicateDetection, topic.Name)
	}
	app, err := (&localSystem{settings: s, flags: localFlags{root: ".."}}).app()
	require.NoError(t, err)
	for _, f := range app.Functions {
		if f.Name == "sweep" {
			require.Equal(t, s.SweepSchedule, f.Timer.Schedule.String())
			return
		}
	}
	require.Fail(t, "the host knows no sweep")
}

func TestTheReadmesTableOfSettingsIsTrue(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `([A-Za-z_]+)` \\| (?:`([^`]*)`|—) \\|")
	table := make(map[string]string)
	for _, m := range row.FindAllStringSubmatch(string(readme), -1) {
		table[m[1]] = m[2]
	}
	want := make(map[string]string)
	for field := range reflect.TypeFor[settings]().Fields() {
		want[field.Tag.Get("env")] = field.Tag.Get("envDefault")
	}
	delete(want, "FUNCTIONS_CUSTOMHANDLER_PORT")
	require.Equal(t, want, table)
}
