// Package funchost is a small, strict Azure Functions host for one custom
// handler on one machine. It reads host.json and the function folders as the
// real host does, listens to a localbus instead of Azure Service Bus, and
// calls the handler with the real host's requests and rules.
//
// Where the real host is lenient, or only logs and goes on, it refuses: what
// runs here runs there, not the other way round. What it does not imitate
// (batches, queues, output bindings, retry policies) is refused as well.
package funchost

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"
)

// App is a function app as its folder describes it, with every %Setting%
// resolved.
type App struct {
	// Executable, WorkingDirectory and Arguments say how the real host would
	// start the handler. Nothing is started here.
	Executable       string
	WorkingDirectory string
	Arguments        []string

	// FunctionTimeout is how long one invocation may take before the handler
	// is killed. Zero means without limit.
	FunctionTimeout time.Duration
	// InitializationTimeout is how long the handler may take to answer GET /.
	InitializationTimeout time.Duration
	RoutePrefix           string
	ServiceBus            ServiceBusOptions
	// Functions are sorted by name.
	Functions []Function

	forwardHTTP bool
}

// ServiceBusOptions are the parts of extensions.serviceBus that matter for
// sessions. They hold for each function by itself.
type ServiceBusOptions struct {
	MaxConcurrentSessions int
	// SessionIdleTimeout is how long a session without messages is kept.
	SessionIdleTimeout time.Duration
	// MaxAutoLockRenewalDuration is how long a session's lock is renewed,
	// counted from when the session was accepted. Zero means never; a negative
	// one, without end.
	MaxAutoLockRenewalDuration time.Duration
}

// functionName is the host's own rule for a function's folder.
var functionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,127}$`)

// Load reads host.json and every */function.json of root. The error joins all
// faults found, each naming file and key. The setting function stands for the
// app settings.
//
// A binding's connection is only checked to be there: the local bus stands for
// whatever it names.
func Load(root fs.FS, setting func(name string) (string, bool)) (*App, error) {
	var faults []error
	data, err := fs.ReadFile(root, "host.json")
	if err != nil {
		return nil, fmt.Errorf("host.json: %w", err)
	}
	host := document("host.json", data, &faults)
	app := readHost(host)

	files, err := fs.Glob(root, "*/function.json")
	if err != nil {
		return nil, fmt.Errorf("finding function folders: %w", err)
	}
	if len(files) == 0 {
		faults = append(faults, errors.New("no folder holds a function.json"))
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, "/function.json")
		if !functionName.MatchString(name) || strings.EqualFold(name, "host") {
			faults = append(faults, fmt.Errorf("%s: the folder's name cannot be a function's: a letter, then up to 127 letters, digits, _ or -, and not host", file))
			continue
		}
		if i := slices.IndexFunc(app.Functions, func(f Function) bool { return strings.EqualFold(f.Name, name) }); i >= 0 {
			faults = append(faults, fmt.Errorf("%s: the folder's name differs from %s only in case", file, app.Functions[i].Name))
			continue
		}
		data, err := fs.ReadFile(root, file)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", file, err))
			continue
		}
		app.Functions = append(app.Functions, app.readFunction(name, document(file, data, &faults), setting))
	}
	slices.SortFunc(app.Functions, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	if !host.has("extensionBundle") && slices.ContainsFunc(app.Functions, func(f Function) bool { return f.ServiceBus != nil }) {
		host.fault("extensionBundle", "is missing: without it the host has no Service Bus trigger")
	}
	faults = append(faults, app.collisions()...)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return app, nil
}

func readHost(host *section) *App {
	app := &App{}
	if version := host.required("version"); version != "" && version != "2.0" {
		host.fault("version", "must be 2.0, is %q", version)
	}
	host.ignore("functionTimeout")
	if string(host.values["functionTimeout"]) != `"-1"` {
		app.FunctionTimeout = host.span("functionTimeout", 30*time.Minute)
		if app.FunctionTimeout <= 0 {
			host.fault("functionTimeout", "must be longer than zero, or -1 for no limit")
		}
	}
	if host.has("extensionBundle") {
		bundle := host.child("extensionBundle")
		if id := bundle.required("id"); id != "" && id != "Microsoft.Azure.Functions.ExtensionBundle" {
			bundle.fault("id", "must be Microsoft.Azure.Functions.ExtensionBundle, is %q", id)
		}
		bundle.required("version")
		bundle.done()
	}
	app.readCustomHandler(host)
	app.readExtensions(host.child("extensions"))
	host.refuse("httpWorker", "is the old name: use customHandler")
	host.refuse("retry", "retry policies are not imitated here")
	host.refuse("functions", "a list of functions is not imitated here: disable with the setting AzureWebJobs.<name>.Disabled")
	host.ignore("$schema", "aggregator", "applicationInsights", "concurrency", "healthMonitor", "logging",
		"managedDependency", "singleton", "telemetryMode", "watchDirectories", "watchFiles")
	host.done()
	return app
}

func (app *App) readCustomHandler(host *section) {
	if !host.has("customHandler") {
		host.fault("customHandler.description", "is missing: the host could not start the handler")
		return
	}
	handler := host.child("customHandler")
	if !handler.has("description") {
		handler.fault("description", "is missing: the host could not start the handler")
	} else {
		description := handler.child("description")
		app.Executable = description.required("defaultExecutablePath")
		app.WorkingDirectory = description.text("workingDirectory", "")
		app.Arguments = read(description, "arguments", "a list of strings", []string(nil))
		description.ignore("defaultWorkerPath", "workerArguments", "workerDirectory", "useStdErrorStreamForErrorsOnly")
		description.done()
	}
	app.forwardHTTP = handler.flag("enableForwardingHttpRequest", false)
	if handler.flag("enableProxyingHttpRequest", false) {
		handler.fault("enableProxyingHttpRequest", "is not imitated here: use enableForwardingHttpRequest")
	}
	app.InitializationTimeout = handler.span("initializationTimeout", 30*time.Second)
	if app.InitializationTimeout <= 0 {
		handler.fault("initializationTimeout", "must be longer than zero")
	}
	handler.refuse("http", "routes in host.json exclude function folders: the host throws when it finds both")
	handler.ignore("port")
	handler.done()
}

func (app *App) readExtensions(extensions *section) {
	http := extensions.child("http")
	app.RoutePrefix = strings.Trim(http.text("routePrefix", "api"), "/")
	http.ignore("dynamicThrottlesEnabled", "hsts", "customHeaders", "maxConcurrentRequests", "maxOutstandingRequests")
	http.done()

	bus := extensions.child("serviceBus")
	app.ServiceBus = ServiceBusOptions{
		MaxConcurrentSessions:      bus.number("maxConcurrentSessions", 1, 8),
		SessionIdleTimeout:         bus.span("sessionIdleTimeout", time.Minute),
		MaxAutoLockRenewalDuration: bus.span("maxAutoLockRenewalDuration", 5*time.Minute),
	}
	if app.ServiceBus.SessionIdleTimeout <= 0 {
		bus.fault("sessionIdleTimeout", "must be longer than zero")
	}
	if !bus.flag("autoCompleteMessages", true) {
		bus.fault("autoCompleteMessages", "must be true: a custom handler cannot settle a message itself")
	}
	if bus.number("maxConcurrentCallsPerSession", 1, 1) != 1 {
		bus.fault("maxConcurrentCallsPerSession", "must be 1, or a session loses its order")
	}
	if bus.number("prefetchCount", 0, 0) != 0 {
		bus.fault("prefetchCount", "must be 0: prefetched messages age under the session's lock")
	}
	for _, old := range []string{"sessionHandlerOptions", "messageHandlerOptions", "batchOptions"} {
		bus.refuse(old, "is an old name: version 5 of the extension has flat keys, like maxConcurrentSessions")
	}
	bus.ignore("transportType", "webProxy", "maxConcurrentCalls", "maxMessageBatchSize", "minMessageBatchSize",
		"maxBatchWaitTime", "enableCrossEntityTransactions", "clientRetryOptions")
	bus.done()
	extensions.done()
}
