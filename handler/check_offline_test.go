package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/handler/internal/project"
)

func TestTheProjectsFilesAgree(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	code := run(t.Context(), []string{"check", "-offline", "-root", ".."}, nil, &said, &said)
	require.Zero(t, code, &said)
	require.Contains(t, said.String(), "✓ the project's files agree")
}

// projectFiles is a copy in memory of the files that are compared, with some of
// those that are not published.
func projectFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	paths, err := filepath.Glob("../*/function.json")
	require.NoError(t, err)
	templates, err := filepath.Glob("../infra/*.bicep")
	require.NoError(t, err)
	paths = append(paths, templates...)
	for _, name := range []string{"host.json", ".funcignore", "local.settings.json.example", "infra/topics.json", "infra/settings.json", "emulator/config.json"} {
		paths = append(paths, filepath.Join("..", name))
	}
	for _, path := range paths {
		name, err := filepath.Rel("..", path)
		require.NoError(t, err)
		files[filepath.ToSlash(name)] = &fstest.MapFile{Data: []byte(document(t, name))}
	}
	for _, name := range []string{
		".git/config", ".ci/run", "README.md", "go.mod", "orders.db", "orders.db-wal", "local.settings.json", "docs/.hidden",
		"handler/main.go", "handler/internal/amqp/conn.go", "workflow/process.go", "handler/handler",
	} {
		files[name] = &fstest.MapFile{Data: []byte("x")}
	}
	return files
}

// in changes one place of a file.
func in(file, old, new string) func(*testing.T, fstest.MapFS, *project.Facts) {
	return func(t *testing.T, files fstest.MapFS, _ *project.Facts) {
		t.Helper()
		require.Contains(t, files, file)
		text := string(files[file].Data)
		require.Contains(t, text, old)
		files[file] = &fstest.MapFile{Data: []byte(strings.Replace(text, old, new, 1))}
	}
}

func gone(file string) func(*testing.T, fstest.MapFS, *project.Facts) {
	return func(t *testing.T, files fstest.MapFS, _ *project.Facts) {
		t.Helper()
		require.Contains(t, files, file)
		delete(files, file)
	}
}

func added(file, text string) func(*testing.T, fstest.MapFS, *project.Facts) {
	return func(_ *testing.T, files fstest.MapFS, _ *project.Facts) {
		files[file] = &fstest.MapFile{Data: []byte(text)}
	}
}

func both(one, other func(*testing.T, fstest.MapFS, *project.Facts)) func(*testing.T, fstest.MapFS, *project.Facts) {
	return func(t *testing.T, files fstest.MapFS, f *project.Facts) {
		t.Helper()
		one(t, files, f)
		other(t, files, f)
	}
}

// eachPath is a finding for each path that a function serves.
func eachPath(fault, function string) (found []string) {
	for _, e := range functions.Endpoints() {
		if e.Function == function {
			found = append(found, function+"/function.json: route: …"+e.Method+" "+e.Path+" "+fault)
		}
	}
	return found
}

func TestEachDisagreementOfTheFilesIsNamed(t *testing.T) {
	t.Parallel()
	facts, err := facts()
	require.NoError(t, err)
	require.Empty(t, project.Check(projectFiles(t), facts), "what is broken below is whole")

	placed := document(t, "order-placed/function.json")
	for _, c := range []struct {
		broken string
		by     func(*testing.T, fstest.MapFS, *project.Facts)
		found  []string // the beginning and a part of each finding, with "…" between
	}{
		// host.json
		{"there is no host.json", gone("host.json"), []string{"host.json: …: run it in the project's root"}},
		{"it is another folder", func(_ *testing.T, files fstest.MapFS, _ *project.Facts) { clear(files) }, []string{"host.json: …: run it in the project's root"}},
		{"no function has a folder", func(_ *testing.T, files fstest.MapFS, _ *project.Facts) {
			maps.DeleteFunc(files, func(name string, _ *fstest.MapFile) bool { return strings.HasSuffix(name, "/function.json") })
		}, []string{"host.json: no folder holds a function.json: run it in the project's root"}},
		{"another program is started", in("host.json", `"handler/handler"`, `"handler"`), []string{"host.json: customHandler.description.defaultExecutablePath: …must be handler/handler"}},
		{"it is started elsewhere", in("host.json", `"workingDirectory": ""`, `"workingDirectory": "bin"`), []string{"host.json: customHandler.description.workingDirectory: …must be empty"}},
		{"it is started with arguments", in("host.json", `"arguments": []`, `"arguments": ["local"]`), []string{"host.json: customHandler.description.arguments: …is local"}},
		{"the bundle is of another version", in("host.json", `[4.*, 5.0.0)`, `[3.*, 4.0.0)`), []string{"host.json: extensionBundle.version: …within version 4"}},
		{"the bundle's version is not said", in("host.json", `,
    "version": "[4.*, 5.0.0)"`, ""), []string{"host.json: …extensionBundle.version: is missing"}},
		{"a name is of the old extension", in("host.json", `"autoCompleteMessages": true,`, `"sessionHandlerOptions": {"maxConcurrentSessions": 8},`), []string{"host.json: …sessionHandlerOptions: is an old name"}},
		{"another name is of the old extension", in("host.json", `"autoCompleteMessages": true,`, `"messageHandlerOptions": {},`), []string{"host.json: …messageHandlerOptions: is an old name"}},
		{"a name is misspelt", in("host.json", "maxConcurrentSessions", "maxConcurrentSession"), []string{"host.json: …maxConcurrentSession: unknown key"}},
		{"routes stand beside the folders", in("host.json", `"enableForwardingHttpRequest"`, `"http": {"routes": []}, "enableForwardingHttpRequest"`), []string{"host.json: …customHandler.http: routes in host.json exclude function folders"}},
		{"an invocation may outlast the host's patience", in("host.json", `"00:05:00"`, `"00:04:00"`), []string{"host.json: functionTimeout: …longer than HandlerDeadline may be, 4m0s"}},
		{"the host has no patience set", in("host.json", `"functionTimeout": "00:05:00"`, `"functionTimeout": "-1"`), []string{"host.json: functionTimeout: …must be set, not -1", "host.json: extensions.serviceBus.maxAutoLockRenewalDuration: …"}},
		{"a lock ends while its message is handled", in("host.json", `"00:30:00"`, `"00:01:00"`), []string{"host.json: extensions.serviceBus.maxAutoLockRenewalDuration: …shorter than functionTimeout"}},
		{"drained orders keep others away", in("host.json", `"00:00:02"`, `"00:01:00"`), []string{"host.json: extensions.serviceBus.sessionIdleTimeout: …at most 10s, is 1m0s"}},

		// The folders.
		{"a folder is missing", gone("sweep/function.json"), []string{"sweep/function.json: …nothing calls it: add it"}},
		{"a folder has no function", added("parcel-lost/function.json", strings.Replace(placed, `"order-placed"`, `"parcel-lost"`, 1)), []string{
			"parcel-lost/function.json: …has no function parcel-lost", "parcel-lost: …does not belong to the package",
		}},
		{"sessions are off", in("order-placed/function.json", `"isSessionsEnabled": true`, `"isSessionsEnabled": false`), []string{"order-placed/function.json: …isSessionsEnabled: must be literally true"}},
		{"a body is a string", in("order-placed/function.json", `"binary"`, `"string"`), []string{"order-placed/function.json: dataType: …must be binary"}},
		{"a topic is named in place of its setting", in("order-placed/function.json", "%OrdersTopic%", "orders"), []string{"order-placed/function.json: topicName: …must be %OrdersTopic%, is orders"}},
		{"the commands are listened to", in("order-placed/function.json", "%OrdersTopic%", "%CommandsTopic%"), []string{"order-placed/function.json: topicName: …must be %OrdersTopic%"}},
		{"another subscription is listened to", in("order-placed/function.json", `"order-placed"`, `"payment-result"`), []string{"order-placed/function.json: subscriptionName: …must be order-placed"}},
		{"another namespace is listened to", in("order-placed/function.json", `"ServiceBusConnection"`, `"OtherConnection"`), []string{"order-placed/function.json: connection: …must be ServiceBusConnection"}},
		{"a function is disabled", in("order-placed/function.json", `"bindings"`, `"disabled": true, "bindings"`), []string{"order-placed/function.json: disabled: …would not run"}},
		{"a message comes by a timer", added("order-placed/function.json", document(t, "sweep/function.json")), []string{"order-placed/function.json: bindings: …the trigger that the program serves"}},
		{"a timer is a message", added("sweep/function.json", placed), []string{"sweep/function.json: bindings: …the trigger that the program serves"}},
		{"a message is a request", added("order-placed/function.json", strings.Replace(document(t, "place-order/function.json"), `"orders"`, `"placed"`, 1)), []string{"order-placed/function.json: bindings: …the trigger that the program serves"}},
		{"a timer is a request", added("sweep/function.json", strings.Replace(document(t, "place-order/function.json"), `"orders"`, `"swept"`, 1)), []string{"sweep/function.json: bindings: …the trigger that the program serves"}},
		{"a request is a message", added("health/function.json", placed), []string{
			"health/function.json: bindings: …the trigger that the program serves", "health/function.json: route: …GET health/live is not reached", "health/function.json: route: …GET health/ready is not reached",
		}},
		{"a schedule is written out", in("sweep/function.json", "%SweepSchedule%", "0 * * * * *"), []string{"sweep/function.json: schedule: …must be %SweepSchedule%"}},
		{"schedules are exchanged", in("sweep/function.json", "%SweepSchedule%", "%OutboxSchedule%"), []string{"sweep/function.json: schedule: …must be %SweepSchedule%, is %OutboxSchedule%"}},
		{"a schedule is none", in("sweep/function.json", "%SweepSchedule%", "every minute"), []string{"sweep/function.json: …is not an NCRONTAB expression", "sweep/function.json: schedule: …must be %SweepSchedule%"}},
		{"a setting is in neither file", in("order-placed/function.json", `"order-placed"`, `"%Placed%"`), []string{
			"order-placed/function.json: subscriptionName: …must be order-placed",
			"local.settings.json.example: …Placed is missing, which order-placed/function.json reads", "infra/settings.json: …Placed is missing",
		}},
		{"a route is the host's own", in("place-order/function.json", `"route": "orders"`, `"route": "admin/orders"`), []string{"place-order/function.json: …begins with admin"}},
		{"another is too", in("place-order/function.json", `"route": "orders"`, `"route": "runtime"`), []string{"place-order/function.json: …begins with runtime"}},
		{"what is open has room for another path", in("health/function.json", "{kind:alpha}", "{kind}"), []string{"health/function.json: route: …no parameter but letters, such as {kind:alpha}"}},
		{"what is open needs a key", in("health/function.json", "anonymous", "function"), []string{"health/function.json: authLevel: …must be anonymous"}},
		{"an order is placed without a key", in("place-order/function.json", `"function"`, `"anonymous"`), []string{"place-order/function.json: authLevel: …must be function, is anonymous"}},
		{"the master key is asked for", in("orders/function.json", `"function"`, `"admin"`), []string{"orders/function.json: authLevel: …must be function, is admin"}},
		{"a path leads nowhere", in("place-order/function.json", `"route": "orders"`, `"route": "order"`), []string{"place-order/function.json: route: …POST orders is not reached"}},
		{"a method leads nowhere", in("operation-actions/function.json", `["post"]`, `["put"]`), eachPath("is not reached by any function", "operation-actions")},
		{"paths are opened by another key", both(in("orders/function.json", "orders/{id?}/{view?}", "operations/{*what}"), in("operations/function.json", "operations/{*what}", "orders/{id?}/{view?}")),
			slices.Concat(eachPath("is opened by the key of operations", "orders"), eachPath("is opened by the key of orders", "operations"))},

		// The settings.
		{"the example is gone", gone("local.settings.json.example"), []string{"local.settings.json.example: …put it back"}},
		{"the example is broken", added("local.settings.json.example", "{"), []string{"local.settings.json.example: …cannot be understood"}},
		{"the example is for another runtime", in("local.settings.json.example", `"custom"`, `"node"`), []string{`local.settings.json.example: FUNCTIONS_WORKER_RUNTIME: …must be custom, is "node"`}},
		{"a setting is not in the example", in("local.settings.json.example", `"OutboxBatch": "100",`, ""), []string{"local.settings.json.example: …OutboxBatch is missing, which the program reads"}},
		{"a setting is not deployed", in("infra/settings.json", `"OutboxBatch": "100",`, ""), []string{"infra/settings.json: …OutboxBatch is missing"}},
		{"no connection is deployed", in("infra/settings.json", `"ServiceBusConnection__fullyQualifiedNamespace": "",`+"\n"+`  "ServiceBusConnection__clientId": "",`, ""), []string{"infra/settings.json: …ServiceBusConnection is missing"}},
		{"a setting is misspelt", in("infra/settings.json", `{`, `{"OutboxBach": "5",`), []string{"infra/settings.json: OutboxBach: …neither the program nor the host reads it"}},
		{"a connection's part is misspelt", in("infra/settings.json", `{`, `{"AuditStorage__uri": "",`), []string{"infra/settings.json: AuditStorage__uri: …neither"}},
		{"the runtime is said twice on Flex", in("infra/settings.json", `{`, `{"FUNCTIONS_WORKER_RUNTIME": "custom",`), []string{"infra/settings.json: FUNCTIONS_WORKER_RUNTIME: …Flex Consumption"}},
		{"the package is run from elsewhere on Flex", in("infra/settings.json", `{`, `{"WEBSITE_RUN_FROM_PACKAGE": "1",`), []string{"infra/settings.json: WEBSITE_RUN_FROM_PACKAGE: …Flex Consumption"}},
		{"the host's version is set on Flex", in("infra/settings.json", `{`, `{"FUNCTIONS_EXTENSION_VERSION": "~4",`), []string{"infra/settings.json: FUNCTIONS_EXTENSION_VERSION: …Flex Consumption"}},
		{"a deployed setting is wrong", in("infra/settings.json", `"168h"`, `"7d"`), []string{"infra/settings.json: …ShipmentDeadline must be a length of time"}},
		{"deployed settings cannot be together", in("infra/settings.json", `"OutboxLease": "1m"`, `"OutboxLease": "10m"`), []string{"infra/settings.json: …OutboxLease must be shorter than DuplicateDetection"}},
		{"two settings are wrong", in("infra/settings.json", "\"30\",\n  \"SqlConnectionLifetime\": \"15m\"", "\"0\",\n  \"SqlConnectionLifetime\": \"1s\""), []string{"infra/settings.json: …SqlMaxConnections", "infra/settings.json: …SqlConnectionLifetime"}},
		{"a deployed schedule is none", in("infra/settings.json", `"0 * * * * *"`, `"0 * * * * 9"`), []string{"infra/settings.json: SweepSchedule: …the schedule of sweep"}},
		{"the topic has another name", in("infra/settings.json", `"OrdersTopic": "orders"`, `"OrdersTopic": "order"`), []string{`infra/settings.json: OrdersTopic: …is made as "orders", is "order" here`}},
		{"the topics remember for another time", in("infra/settings.json", `"DuplicateDetection": "10m"`, `"DuplicateDetection": "20m"`), []string{"infra/settings.json: DuplicateDetection: …remember for PT10M, and PT20M is said here"}},
		{"one topic remembers for another time", func(_ *testing.T, _ fstest.MapFS, f *project.Facts) { f.Commands.DuplicateDetection *= 2 }, []string{
			"local.settings.json.example: DuplicateDetection: …", "infra/settings.json: DuplicateDetection: …", "infra/topics.json: commands: …duplicate detection must be PT20M, is PT10M",
		}},
		{"the other does", func(_ *testing.T, _ fstest.MapFS, f *project.Facts) { f.Orders.DuplicateDetection *= 2 }, []string{
			"local.settings.json.example: DuplicateDetection: …", "infra/settings.json: DuplicateDetection: …", "infra/topics.json: orders: …duplicate detection must be PT20M, is PT10M",
		}},
		{"the broker gives up first", in("infra/settings.json", `"HoldFromDelivery": "8"`, `"HoldFromDelivery": "10"`), []string{"infra/settings.json: HoldFromDelivery: …gives it up after 10"}},
		{"the deployed settings are gone", gone("infra/settings.json"), []string{"infra/settings.json: …-update"}},
		{"the deployed settings are broken", added("infra/settings.json", `{"ReadOnly": true}`), []string{"infra/settings.json: …cannot be understood"}},

		// The topics.
		{"the topics are gone", gone("infra/topics.json"), []string{"infra/topics.json: …-update"}},
		{"the topics are broken", in("infra/topics.json", `"PT10M"`, `"10m"`), []string{"infra/topics.json: …cannot be understood"}},
		{"a topic is not made", in("infra/topics.json", `"name": "commands"`, `"name": "command"`), []string{"infra/topics.json: commands: …the topic is missing", "infra/topics.json: command: …none of the program's"}},
		{"a topic's name is in another setting", in("infra/topics.json", `"OrdersTopic"`, `"Orders"`), []string{"infra/topics.json: orders: …setting must be OrdersTopic, is Orders"}},
		{"a made topic forgets sooner", in("infra/topics.json", `"PT10M"`, `"PT5M"`), []string{"infra/topics.json: orders: …duplicate detection must be PT10M, is PT5M"}},
		{"a subscription is not made", in("infra/topics.json", `"name": "payment-result"`, `"name": "payment-results"`), []string{"infra/topics.json: orders/payment-result: …is missing", "infra/topics.json: orders/payment-results: …nobody takes"}},
		{"a service has no subscription", in("infra/topics.json", `"name": "shipping"`, `"name": "orders"`), []string{"infra/topics.json: commands/shipping: …is missing", "infra/topics.json: commands/orders: …nobody takes"}},
		{"a made subscription has no sessions", in("infra/topics.json", `"requiresSession": true`, `"requiresSession": false`), []string{"infra/topics.json: orders/order-placed: …sessions must be true, is false"}},
		{"a made subscription gives up sooner", in("infra/topics.json", `"maxDeliveryCount": 10`, `"maxDeliveryCount": 5`), []string{"infra/topics.json: orders/order-placed: …maximum delivery count must be 10, is 5"}},
		{"a made subscription locks for longer", in("infra/topics.json", `"lockDuration": "PT1M"`, `"lockDuration": "PT5M"`), []string{"infra/topics.json: orders/order-placed: …lock duration must be PT1M, is PT5M"}},
		{"a made subscription takes something else", in("infra/topics.json", `"PaymentFailed"`, `"PaymentDeclined"`), []string{"infra/topics.json: orders/payment-result: …subjects must be PaymentCaptured, PaymentFailed, is PaymentCaptured, PaymentDeclined"}},
		{"the emulator's file is gone", gone("emulator/config.json"), []string{"emulator/config.json: …-update"}},
		{"the emulator's file is broken", added("emulator/config.json", "[]"), []string{"emulator/config.json: …cannot be understood"}},
		{"the emulator's namespace has another name", in("emulator/config.json", "sbemulatorns", "orderflow"), []string{"emulator/config.json: …must have one namespace, sbemulatorns"}},
		{"the emulator has two namespaces", in("emulator/config.json", `"Namespaces": [`, `"Namespaces": [{"Name": "sbemulatorns"},`), []string{"emulator/config.json: …must have one namespace, sbemulatorns"}},
		{"the emulator has another subscription", in("emulator/config.json", `"Name": "shipping"`, `"Name": "ships"`), []string{"emulator/config.json: commands/shipping: …is missing", "emulator/config.json: commands/ships: …nobody takes"}},
		{"the emulator's topic forgets at once", in("emulator/config.json", `"RequiresDuplicateDetection": true`, `"RequiresDuplicateDetection": false`), []string{"emulator/config.json: orders: …RequiresDuplicateDetection must be true"}},
		{"the emulator's topic remembers for longer than it can", in("emulator/config.json", `"PT5M"`, `"PT10M"`), []string{"emulator/config.json: orders: …duplicate detection must be PT5M, is PT10M"}},
		{"the emulator drops messages", in("emulator/config.json", `"DeadLetteringOnMessageExpiration": true`, `"DeadLetteringOnMessageExpiration": false`), []string{"emulator/config.json: orders/order-placed: …DeadLetteringOnMessageExpiration must be true"}},
		{"the emulator's subscription has no sessions", in("emulator/config.json", `"RequiresSession": true`, `"RequiresSession": false`), []string{"emulator/config.json: orders/order-placed: …sessions must be true"}},
		{"the emulator gives up sooner", in("emulator/config.json", `"MaxDeliveryCount": 10`, `"MaxDeliveryCount": 3`), []string{"emulator/config.json: orders/order-placed: …maximum delivery count must be 10, is 3"}},
		{"the emulator locks for longer", in("emulator/config.json", `"LockDuration": "PT1M"`, `"LockDuration": "PT2M"`), []string{"emulator/config.json: orders/order-placed: …lock duration must be PT1M, is PT2M"}},
		{"the emulator filters by SQL", in("emulator/config.json", `"Correlation"`, `"Sql"`), []string{"emulator/config.json: orders/order-placed: …the rule OrderPlaced must be a correlation"}},
		{"the emulator filters for something else", in("emulator/config.json", `"Label": "OrderPlaced"`, `"Label": "Placed"`), []string{"emulator/config.json: orders/order-placed: …subjects must be OrderPlaced, is Placed"}},

		// The templates.
		{"a template says the topics itself", in("infra/messaging.bicep", "loadJsonContent('topics.json').topics", "[{ name: 'orders' }]"), []string{"infra/*.bicep: …no template loads infra/topics.json: have a template read it"}},
		{"other settings are deployed", in("infra/app.bicep", "loadJsonContent('settings.json')", "loadJsonContent('../settings.json')"), []string{"infra/*.bicep: …no template loads infra/settings.json"}},
		{"a comment loads the settings", in("infra/app.bicep", "items(loadJsonContent('settings.json'))", "items({}) // loadJsonContent('settings.json')\n"), []string{"infra/*.bicep: …no template loads infra/settings.json"}},
		{"a template says a lock's length itself", in("infra/subscription.bicep", "subscription.lockDuration", "'PT5M'"), []string{"infra/*.bicep: …no template reads subscription.lockDuration of infra/topics.json"}},
		{"a template says itself how long a topic remembers", in("infra/topic.bicep", "topic.duplicateDetection", "'PT1M'"), []string{"infra/*.bicep: …no template reads topic.duplicateDetection"}},
		{"a template reads what nobody says", in("infra/subscription.bicep", "subscription.maxDeliveryCount", "subscription.maxDeliveryCounts"), []string{"infra/*.bicep: …no template reads subscription.maxDeliveryCount of"}},
		{"no subject has a rule", in("infra/subscription.bicep", "in subscription.subjects", "in []"), []string{"infra/*.bicep: …no template reads subscription.subjects"}},

		// What is published.
		{"nothing says what is published", gone(".funcignore"), []string{".funcignore: …put it back"}},
		{"func reads a line in another way than git", in(".funcignore", "/docs", "docs/"), []string{".funcignore: …must begin with a slash, not end with one, and say what is left out: docs/", "docs: …func would publish it"}},
		{"a line ends with a slash", in(".funcignore", "/docs", "/docs/"), []string{".funcignore: …/docs/", "docs: …func would publish it"}},
		{"a line has two stars", in(".funcignore", "/docs", "/docs/**"), []string{".funcignore: …/docs/**", "docs: …func would publish it"}},
		{"a line says what is kept", in(".funcignore", "/docs", "!/docs"), []string{".funcignore: …!/docs", "docs: …func would publish it"}},
		{"the program is left out", in(".funcignore", "/handler/handler.exe", "/handler"), []string{".funcignore: …must not leave out handler/handler"}},
		{"a function is left out", in(".funcignore", "/docs", "/docs\n/sweep"), []string{".funcignore: …must not leave out sweep/function.json"}},
		{"host.json is left out", in(".funcignore", "/docs", "/docs\n/*.json"), []string{".funcignore: …must not leave out host.json"}},
		{"a source is published", in(".funcignore", "/handler/*.go", ""), []string{"handler/main.go: …func would publish it"}},
		{"a database is published", added("orders/orders.db", "x"), []string{"orders/orders.db: …func would publish it, and it does not belong to the package"}},
		{"a folder is published", both(added("scripts/a/b.sh", "x"), added("scripts/c.sh", "x")), []string{"scripts: …func would publish it"}},
		{"a file of the root is published", added("secrets.txt", "x"), []string{"secrets.txt: …func would publish it"}},
		{"a name only begins like one that is left out", added("handler/internal_notes", "x"), []string{"handler/internal_notes: …func would publish it"}},
		{"a star stands for nothing", added("handler/.go", "x"), []string{"handler/.go: …func would publish it"}},
		{"something else beside the program is published", added("handler/notes.txt", "x"), []string{"handler/notes.txt: …func would publish it"}},
	} {
		t.Run(c.broken, func(t *testing.T) {
			t.Parallel()
			files, own := projectFiles(t), facts
			c.by(t, files, &own)
			var told []string
			for _, f := range project.Check(files, own) {
				told = append(told, f.String())
			}
			require.Len(t, told, len(c.found), "%s", strings.Join(told, "\n"))
			for i, want := range c.found {
				begin, part, _ := strings.Cut(want, "…")
				require.True(t, strings.HasPrefix(told[i], begin), "%s\nis not told of %s", told[i], begin)
				require.Contains(t, told[i], part)
			}
		})
	}
}

func TestGitReadsFuncignoreAsCoreToolsDo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("not run: git is not installed")
	}
	root := t.TempDir()
	want := []string{"host.json", "handler/handler"}
	for name := range projectFiles(t) {
		if strings.HasPrefix(name, ".git/") {
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte("x"), 0o600))
		if filepath.Base(name) == "function.json" {
			want = append(want, name)
		}
	}
	rules, err := filepath.Abs("../.funcignore")
	require.NoError(t, err)
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	require.ElementsMatch(t, want, strings.Split(git("ls-files", "--others", "--exclude-from="+rules), "\n"))
}

func TestWhatMayDifferIsNotFound(t *testing.T) {
	t.Parallel()
	facts, err := facts()
	require.NoError(t, err)
	for name, change := range map[string]func(*testing.T, fstest.MapFS, *project.Facts){
		"a lock is renewed without end":               in("host.json", `"00:30:00"`, `"-00:00:00.0010000"`),
		"a lock is renewed as long as a function may": in("host.json", `"00:30:00"`, `"00:05:00"`),
		"a drained order is kept for ten seconds":     in("host.json", `"00:00:02"`, `"00:00:10"`),
		"the bundle's range is narrower":              in("host.json", "[4.*, 5.0.0)", "[4.26.0, 5.0.0)"),
		"the topic's name is filled in elsewhere":     in("infra/settings.json", `"OrdersTopic": "orders"`, `"OrdersTopic": ""`),
		"a schedule is filled in elsewhere":           in("infra/settings.json", `"SweepSchedule": "0 * * * * *"`, `"SweepSchedule": ""`),
		"another deadline is deployed":                in("infra/settings.json", `"168h"`, `"100h"`),
		"the audit is connected by a string":          in("infra/settings.json", `"AuditStorage__tableServiceUri": "",`, `"AuditStorage": "",`),
		"func never publishes an editor's settings":   added("orders/.vscode/settings.json", "x"),
		"func never publishes another repository":     added("orders/.git/config", "x"),
		"func never publishes local settings":         added("orders/local.settings.json", "x"),
		"the program is not built":                    gone("handler/handler"),
	} {
		files := projectFiles(t)
		change(t, files, nil)
		require.Empty(t, project.Check(files, facts), name)
	}
	for _, name := range []string{
		"AzureWebJobsStorage__accountName", "AzureWebJobs.sweep.Disabled", "AzureFunctionsJobHost__extensions__serviceBus__maxConcurrentSessions",
		"APPLICATIONINSIGHTS_CONNECTION_STRING", "OTEL_SERVICE_NAME", "ServiceBusConnection__credential",
	} {
		files := projectFiles(t)
		in("infra/settings.json", "{", `{"`+name+`": "x",`)(t, files, nil)
		in("local.settings.json.example", `"Values": {`, `"Values": {"`+name+`": "x",`)(t, files, nil)
		require.Empty(t, project.Check(files, facts), name)
	}
}

func TestWhatIsFoundIsToldAsTextOrJSONAndEndsWithOne(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, file := range projectFiles(t) {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), file.Data, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "a&b.txt"), nil, 0o600))

	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"check", "-offline", "-root", root}, nil, &out, &errs))
	require.Equal(t, "✗ a&b.txt: func would publish it, and it does not belong to the package: name it in .funcignore, or delete it\n", out.String())
	require.Equal(t, "orderflow: one thing is wrong\n", errs.String())

	out.Reset()
	require.Equal(t, exitFailed, run(t.Context(), []string{"check", "-offline", "-root", root, "-o", "json"}, nil, &out, &errs))
	var found []map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &found))
	require.Len(t, found, 1)
	require.Equal(t, []string{"do", "what", "where"}, slices.Sorted(maps.Keys(found[0])))

	require.NoError(t, os.Remove(filepath.Join(root, "a&b.txt")))
	out.Reset()
	require.Zero(t, run(t.Context(), []string{"check", "-offline", "-root", root, "-o", "json"}, nil, &out, &errs))
	require.Equal(t, "[]\n", out.String(), "a list, also when it is empty")

	errs.Reset()
	require.Equal(t, exitUsage, run(t.Context(), []string{"check", "-offline", "-o", "yaml"}, nil, &out, &errs))
	require.Contains(t, errs.String(), "-o must be text or json")
}
