package funchost

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

const plainHost = `{
  "version": "2.0",
  "extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"},
  "customHandler": {"description": {"defaultExecutablePath": "handler/handler"}, "enableForwardingHttpRequest": true}
}`

const plainBus = `{"bindings": [{"type": "serviceBusTrigger", "direction": "in", "name": "message",
  "topicName": "%OrdersTopic%", "subscriptionName": "order-placed", "connection": "ServiceBusConnection",
  "isSessionsEnabled": true, "dataType": "binary"}]}`

const plainTimer = `{"bindings": [{"type": "timerTrigger", "direction": "in", "name": "timer", "schedule": "%Schedule%"}]}`

const plainHTTP = `{"bindings": [
  {"type": "httpTrigger", "direction": "in", "name": "req", "route": "orders/{id?}", "methods": ["get", "post"]},
  {"type": "http", "direction": "out", "name": "$return"}]}`

// folder is an app of files by their path.
func folder(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func plainFiles() map[string]string {
	return map[string]string{
		"host.json":                  plainHost,
		"order-placed/function.json": plainBus,
		"sweep/function.json":        plainTimer,
		"orders/function.json":       plainHTTP,
		"docs/readme.md":             "not a function",
	}
}

func plainSettings(name string) (string, bool) {
	value, ok := map[string]string{"OrdersTopic": "orders", "Schedule": "0 */5 * * * *"}[name]
	return value, ok
}

func TestLoadReadsThisRepositorysOwnFolders(t *testing.T) {
	t.Parallel()
	app, err := Load(os.DirFS("../../.."), func(name string) (string, bool) {
		value, ok := map[string]string{"OrdersTopic": "orders", "OutboxSchedule": "*/5 * * * * *", "SweepSchedule": "0 * * * * *"}[name]
		return value, ok
	})
	require.NoError(t, err)
	require.Equal(t, "handler/handler", app.Executable)
	require.Equal(t, 5*time.Minute, app.FunctionTimeout)
	require.Equal(t, ServiceBusOptions{MaxConcurrentSessions: 64, SessionIdleTimeout: 2 * time.Second, MaxAutoLockRenewalDuration: 30 * time.Minute}, app.ServiceBus)
	byName := map[string]Function{}
	for _, fn := range app.Functions {
		byName[fn.Name] = fn
	}
	require.Equal(t, &ServiceBusTrigger{Binding: "message", Topic: "orders", Subscription: "payment-result", Binary: true}, byName["payment-result"].ServiceBus)
	require.Equal(t, "*/5 * * * * *", byName["outbox-dispatch"].Timer.Schedule.String())
	require.Equal(t, "0 * * * * *", byName["sweep"].Timer.Schedule.String())
	require.Equal(t, "api/orders/{id?}/{view?}", byName["orders"].HTTP.Route.String())
	require.Equal(t, []string{"GET", "HEAD"}, byName["orders"].HTTP.Methods)
	require.Equal(t, "anonymous", byName["health"].HTTP.AuthLevel)
}

func TestLoadKnowsTheHostsDefaults(t *testing.T) {
	t.Parallel()
	app, err := Load(folder(plainFiles()), plainSettings)
	require.NoError(t, err)
	require.Equal(t, 30*time.Minute, app.FunctionTimeout)
	require.Equal(t, 30*time.Second, app.InitializationTimeout)
	require.Equal(t, "api", app.RoutePrefix)
	require.Equal(t, ServiceBusOptions{MaxConcurrentSessions: 8, SessionIdleTimeout: time.Minute, MaxAutoLockRenewalDuration: 5 * time.Minute}, app.ServiceBus)
	require.Len(t, app.Functions, 3)
	require.True(t, app.Functions[2].Timer.UseMonitor)
	require.False(t, app.Functions[2].Timer.RunOnStartup)
	require.Equal(t, "function", app.Functions[1].HTTP.AuthLevel)
}

func TestLoadTakesUnboundedTimesForWhatTheyAre(t *testing.T) {
	t.Parallel()
	files := plainFiles()
	files["host.json"] = strings.Replace(plainHost, `"version": "2.0",`, `"version": "2.0", "functionTimeout": "-1",
		"extensions": {"serviceBus": {"maxAutoLockRenewalDuration": "-00:00:00.0010000"}},`, 1)
	app, err := Load(folder(files), plainSettings)
	require.NoError(t, err)
	require.Zero(t, app.FunctionTimeout)
	require.Negative(t, app.ServiceBus.MaxAutoLockRenewalDuration)
}

func TestLoadDisablesFunctionsBySettingOrKey(t *testing.T) {
	t.Parallel()
	files := plainFiles()
	files["sweep/function.json"] = strings.Replace(plainTimer, "{", `{"disabled": true, `, 1)
	app, err := Load(folder(files), func(name string) (string, bool) {
		if name == "AzureWebJobs.order-placed.Disabled" {
			return "true", true
		}
		return plainSettings(name)
	})
	require.NoError(t, err)
	require.True(t, app.Functions[0].Disabled)
	require.False(t, app.Functions[1].Disabled)
	require.True(t, app.Functions[2].Disabled)
}

func TestLoadRefusesWithFileAndKey(t *testing.T) {
	t.Parallel()
	const host, bus, timer, web = "host.json", "order-placed/function.json", "sweep/function.json", "orders/function.json"
	for _, c := range []struct{ file, old, new, want string }{
		{host, `"version": "2.0"`, `"version": "1.0"`, `host.json: version: must be 2.0`},
		{host, `{`, ``, `host.json: must be a JSON object`},
		{host, `"version": "2.0",`, `"version": "2.0", "version": "2.0",`, `host.json: version: is written twice`},
		{host, `"version"`, `"Version"`, `host.json: Version: unknown key (write it version)`},
		{host, `"customHandler"`, `"customhandler"`, `host.json: customHandler.description: is missing`},
		{host, `"description"`, `"describe"`, `host.json: customHandler.description: is missing`},
		{host, `"defaultExecutablePath": "handler/handler"`, ``, `host.json: customHandler.description.defaultExecutablePath: is missing`},
		{host, `"description": {`, `"http": {}, "description": {`, `host.json: customHandler.http`},
		{host, `"description": {`, `"initializationTimeout": "30", "description": {`, `host.json: customHandler.initializationTimeout: "30" is not a duration`},
		{host, `"enableForwardingHttpRequest": true`, `"enableForwardingHttpRequest": "true"`, `host.json: customHandler.enableForwardingHttpRequest: must be true or false`},
		{host, `"enableForwardingHttpRequest": true`, `"enableForwardingHttpRequest": false`, `orders/function.json: bindings: an httpTrigger needs customHandler.enableForwardingHttpRequest`},
		{host, `"version": "2.0",`, `"version": "2.0", "httpWorker": {},`, `host.json: httpWorker`},
		{host, `"extensionBundle"`, `"bundle"`, `host.json: extensionBundle: is missing`},
		{host, `[4.*, 5.0.0)`, ``, `host.json: extensionBundle.version: is missing`},
		{host, `"version": "2.0",`, `"version": "2.0", "functionTimeout": "24:00:00",`, `host.json: functionTimeout: "24:00:00" has more than 23 hours`},
		{host, `"version": "2.0",`, `"version": "2.0", "functionTimeout": "00:00:00",`, `host.json: functionTimeout: must be longer than zero`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"serviceBus": {"sessionHandlerOptions": {}}},`, `host.json: extensions.serviceBus.sessionHandlerOptions: is an old name`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"serviceBus": {"maxConcurrentSession": 1}},`, `host.json: extensions.serviceBus.maxConcurrentSession: unknown key`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"serviceBus": {"maxConcurrentSessions": 0}},`, `host.json: extensions.serviceBus.maxConcurrentSessions: must be at least 1`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"serviceBus": {"maxConcurrentSessions": 1.5}},`, `must be a whole number, is 1.5`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"serviceBus": {"maxConcurrentCallsPerSession": 2}},`, `host.json: extensions.serviceBus.maxConcurrentCallsPerSession: must be 1`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"serviceBus": {"prefetchCount": 5}},`, `host.json: extensions.serviceBus.prefetchCount: must be 0`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"serviceBus": {"autoCompleteMessages": false}},`, `host.json: extensions.serviceBus.autoCompleteMessages: must be true`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"serviceBus": {"sessionIdleTimeout": null}},`, `host.json: extensions.serviceBus.sessionIdleTimeout: must be a string, is null`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": {"servicebus": {}},`, `host.json: extensions.servicebus: unknown key (write it serviceBus)`},
		{host, `"version": "2.0",`, `"version": "2.0", "extensions": [],`, `host.json: extensions: must be a JSON object`},

		{bus, `"bindings"`, `"binding"`, `order-placed/function.json: bindings: has no trigger`},
		{bus, `"bindings"`, `"retry": {}, "bindings"`, `order-placed/function.json: retry: must not be set`},
		{bus, `"isSessionsEnabled": true, `, ``, `order-placed/function.json: bindings[0].isSessionsEnabled: must be literally true`},
		{bus, `"isSessionsEnabled": true`, `"isSessionsEnabled": "%Sessions%"`, `bindings[0].isSessionsEnabled: must be literally true`},
		{bus, `"isSessionsEnabled": true`, `"isSessionsEnabled": false`, `bindings[0].isSessionsEnabled: must be literally true`},
		{bus, `%OrdersTopic%`, `%OrderTopic%`, `order-placed/function.json: bindings[0].topicName: %OrderTopic% is not set`},
		{bus, `%OrdersTopic%`, `%OrdersTopic`, `bindings[0].topicName: "%OrdersTopic" has a % without its partner`},
		{bus, `"topicName": "%OrdersTopic%"`, `"queueName": "orders"`, `bindings[0].queueName: is not imitated here`},
		{bus, `"connection": "ServiceBusConnection",`, ``, `bindings[0].connection: is missing`},
		{bus, `"dataType": "binary"`, `"dataType": "stream"`, `bindings[0].dataType: must be one of string, binary`},
		{bus, `"dataType": "binary"`, `"cardinality": "many"`, `bindings[0].cardinality: many is not imitated here`},
		{bus, `"dataType": "binary"`, `"autoComplete": true`, `bindings[0].autoComplete: unknown key`},
		{bus, `"dataType": "binary"`, `"autoCompleteMessages": false`, `bindings[0].autoCompleteMessages: must be true`},
		{bus, `"direction": "in"`, `"direction": "out"`, `bindings[0].direction: must be "in"`},
		{bus, `"name": "message",`, ``, `bindings[0].name: is missing`},
		{bus, `serviceBusTrigger`, `eventHubTrigger`, `bindings[0].type: "eventHubTrigger" is not imitated here`},
		{bus, `[{`, `[{"type": "timerTrigger", "direction": "in", "name": "t", "schedule": "* * * * *"}, {`, `bindings: has 2 triggers`},

		{timer, `%Schedule%`, `61 * * * * *`, `sweep/function.json: bindings[0].schedule: "61 * * * * *": second`},
		{timer, `%Schedule%`, `00:05:00`, `bindings[0].schedule: "00:05:00" is a duration`},
		{timer, `%Schedule%`, `%Nothing%`, `bindings[0].schedule: %Nothing% is not set`},

		{web, `orders/{id?}`, `admin/orders`, `orders/function.json: bindings[0].route: "admin/orders" begins with admin`},
		{web, `orders/{id?}`, `/Runtime`, `bindings[0].route: "Runtime" begins with runtime`},
		{web, `orders/{id?}`, `orders/{id:int}`, `bindings[0].route: "api/orders/{id:int}": a segment is`},
		{web, `["get", "post"]`, `[]`, `bindings[0].methods: names none`},
		{web, `"type": "http",`, `"type": "queue",`, `bindings[1].type: "queue" is not imitated here`},
		{web, `$return`, `req`, `bindings[1].name: "req" is the name of another binding too`},
	} {
		files := plainFiles()
		require.Contains(t, files[c.file], c.old)
		files[c.file] = strings.Replace(files[c.file], c.old, c.new, 1)
		_, err := Load(folder(files), plainSettings)
		require.ErrorContains(t, err, c.want, "%s -> %s", c.old, c.new)
	}
}

func TestLoadRefusesFoldersThatCannotBeFunctions(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"9lives":                 "9lives/function.json: the folder's name",
		"a.b":                    "a.b/function.json: the folder's name",
		"Host":                   "Host/function.json: the folder's name",
		strings.Repeat("a", 129): "/function.json: the folder's name",
		"Order-Placed":           "only in case",
	} {
		files := plainFiles()
		files[name+"/function.json"] = plainTimer
		_, err := Load(folder(files), plainSettings)
		require.ErrorContains(t, err, want, name)
	}
	_, err := Load(folder(map[string]string{"host.json": plainHost}), plainSettings)
	require.ErrorContains(t, err, "no folder holds a function.json")
	_, err = Load(folder(nil), plainSettings)
	require.ErrorContains(t, err, "host.json")
}

func TestLoadRefusesRoutesThatCollide(t *testing.T) {
	t.Parallel()
	files := plainFiles()
	files["orders-too/function.json"] = strings.Replace(plainHTTP, "orders/{id?}", "Orders/{number?}", 1)
	_, err := Load(folder(files), plainSettings)
	require.ErrorContains(t, err, `"api/Orders/{number?}" and the route of orders, "api/orders/{id?}", are for the same requests`)
	files["orders-too/function.json"] = strings.ReplaceAll(strings.Replace(plainHTTP, "orders/{id?}", "orders/{*rest}", 1), `"get", "post"`, `"get"`)
	_, err = Load(folder(files), plainSettings)
	require.ErrorContains(t, err, `are for the same requests`)
	files["orders-too/function.json"] = strings.Replace(files["orders-too/function.json"], `"get"`, `"put"`, 1)
	_, err = Load(folder(files), plainSettings)
	require.NoError(t, err, "their methods tell them apart")

	files = plainFiles()
	files["host.json"] = strings.Replace(plainHost, `"version": "2.0",`, `"version": "2.0", "extensions": {"http": {"routePrefix": ""}},`, 1)
	files["orders/function.json"] = strings.Replace(plainHTTP, "orders/{id?}", "{id}", 1)
	_, err = Load(folder(files), plainSettings)
	require.ErrorContains(t, err, `also catches the invocations of order-placed`)
}

func TestLoadShowsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	files := maps.Clone(plainFiles())
	files["host.json"] = `{"version": "3.0"}`
	files["sweep/function.json"] = `{"bindings": []}`
	_, err := Load(folder(files), plainSettings)
	require.ErrorContains(t, err, "host.json: version")
	require.ErrorContains(t, err, "host.json: customHandler.description")
	require.ErrorContains(t, err, "sweep/function.json: bindings")
}

func TestDurationsAreReadAsDotNETWritesThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"00:05:00":          5 * time.Minute,
		"1.02:03:04.5":      26*time.Hour + 3*time.Minute + 4500*time.Millisecond,
		"00:00:00.0000001":  100 * time.Nanosecond,
		"-00:00:00.0010000": -time.Millisecond,
	} {
		got, err := parseTimeSpan(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "5m", "00:05", "00:60:00", "00:00:60", "24:00:00", "00:05:00 ", "99999999.00:00:00"} {
		_, err := parseTimeSpan(text)
		require.Error(t, err, text)
	}
}
