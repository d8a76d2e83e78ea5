package funchost

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Function is one function folder. Exactly one of ServiceBus, Timer and HTTP
// is set.
type Function struct {
	// Name is the folder's, and the path the handler is called on.
	Name string
	// Disabled functions are not listened for and answer 404.
	Disabled   bool
	ServiceBus *ServiceBusTrigger
	Timer      *TimerTrigger
	HTTP       *HTTPTrigger
}

// ServiceBusTrigger listens to one session subscription, one message of a
// session at a time.
type ServiceBusTrigger struct {
	// Binding is the key of the message within the invocation's Data.
	Binding      string
	Topic        string
	Subscription string
	// Binary tells dataType binary from string, the host's default.
	Binary bool
}

// TimerTrigger runs by a schedule in UTC.
type TimerTrigger struct {
	Binding  string
	Schedule Schedule
	// UseMonitor is as declared; the host turns monitoring off for schedules
	// with less than a minute between two runs.
	UseMonitor   bool
	RunOnStartup bool
}

// HTTPTrigger is called with the client's own request.
type HTTPTrigger struct {
	// Route includes the route prefix.
	Route Route
	// Methods are in capitals; none means every method.
	Methods []string
	// AuthLevel is not enforced here.
	AuthLevel string
}

func (t *HTTPTrigger) allows(method string) bool {
	return len(t.Methods) == 0 || slices.Contains(t.Methods, method)
}

// readFunction gathers its faults in doc. After a fault the function may lack
// its trigger.
func (app *App) readFunction(name string, doc *section, setting func(string) (string, bool)) Function {
	fn := Function{Name: name, Disabled: doc.flag("disabled", false)}
	if value, ok := setting("AzureWebJobs." + name + ".Disabled"); ok {
		disabled, err := strconv.ParseBool(value)
		fn.Disabled = fn.Disabled || disabled && err == nil
	}
	doc.refuse("retry", "must not be set: Service Bus has redelivery, and retry policies are not imitated here")
	doc.ignore("$schema", "scriptFile")

	triggers, outputs, names := 0, 0, map[string]bool{}
	for i, raw := range read(doc, "bindings", "a list", []json.RawMessage(nil)) {
		b := newSection(doc.file, fmt.Sprintf("bindings[%d].", i), raw, doc.faults)
		binding := b.required("name")
		if binding != "" && names[binding] {
			b.fault("name", "%q is the name of another binding too", binding)
		}
		names[binding] = true
		kind := b.required("type")
		direction := b.required("direction")
		want := "in"
		switch kind {
		case "serviceBusTrigger":
			triggers++
			fn.ServiceBus = readServiceBusTrigger(binding, b, setting)
		case "timerTrigger":
			triggers++
			fn.Timer = readTimerTrigger(binding, b, setting)
		case "httpTrigger":
			triggers++
			fn.HTTP = app.readHTTPTrigger(name, b)
		case "http":
			outputs++
			want = "out"
		case "":
			continue
		default:
			b.fault("type", "%q is not imitated here", kind)
			continue
		}
		if direction != "" && direction != want {
			b.fault("direction", "must be %q, is %q", want, direction)
		}
		b.done()
	}
	switch {
	case triggers == 0:
		doc.fault("bindings", "has no trigger: a function has exactly one")
	case triggers > 1:
		doc.fault("bindings", "has %d triggers: a function has exactly one", triggers)
	case fn.HTTP != nil && outputs != 1:
		doc.fault("bindings", "has %d http outputs: a request is forwarded only with exactly one", outputs)
	case fn.HTTP == nil && outputs > 0:
		doc.fault("bindings", "has an http output without an httpTrigger")
	}
	if fn.HTTP != nil && !app.forwardHTTP {
		doc.fault("bindings", "an httpTrigger needs customHandler.enableForwardingHttpRequest in host.json: the wrapped form is not imitated here")
	}
	doc.done()
	return fn
}

func readServiceBusTrigger(binding string, b *section, setting func(string) (string, bool)) *ServiceBusTrigger {
	resolved := func(key string) string {
		text := b.required(key)
		value, err := resolve(text, setting)
		if err != nil {
			b.fault(key, "%v", err)
		}
		return value
	}
	b.refuse("queueName", "is not imitated here: the local bus has topics only")
	t := &ServiceBusTrigger{Binding: binding, Topic: resolved("topicName"), Subscription: resolved("subscriptionName")}
	resolved("connection")
	b.ignore("isSessionsEnabled")
	if string(b.values["isSessionsEnabled"]) != "true" {
		b.fault("isSessionsEnabled", "must be literally true: every subscription has sessions")
	}
	if !b.flag("autoCompleteMessages", true) {
		b.fault("autoCompleteMessages", "must be true: a custom handler cannot settle a message itself")
	}
	if b.oneOf("cardinality", "one", "many") == "many" {
		b.fault("cardinality", "many is not imitated here")
	}
	t.Binary = b.oneOf("dataType", "string", "binary") == "binary"
	return t
}

func readTimerTrigger(binding string, b *section, setting func(string) (string, bool)) *TimerTrigger {
	t := &TimerTrigger{Binding: binding, UseMonitor: b.flag("useMonitor", true), RunOnStartup: b.flag("runOnStartup", false)}
	text := b.required("schedule")
	if text == "" {
		return t
	}
	text, err := resolve(text, setting)
	if err == nil {
		t.Schedule, err = ParseSchedule(text)
	}
	if err != nil {
		b.fault("schedule", "%v", err)
	}
	return t
}

func (app *App) readHTTPTrigger(name string, b *section) *HTTPTrigger {
	t := &HTTPTrigger{AuthLevel: b.oneOf("authLevel", "function", "anonymous", "admin")}
	route := strings.Trim(b.text("route", name), "/")
	if route == "" {
		route = name
	}
	for _, reserved := range []string{"admin", "runtime"} {
		if strings.HasPrefix(strings.ToLower(route), reserved) {
			b.fault("route", "%q begins with %s, which the host keeps for itself", route, reserved)
		}
	}
	var err error
	if t.Route, err = parseRoute(strings.Trim(app.RoutePrefix+"/"+route, "/")); err != nil {
		b.fault("route", "%v", err)
	}
	for _, method := range read(b, "methods", "a list of strings", []string(nil)) {
		t.Methods = append(t.Methods, strings.ToUpper(method))
	}
	if b.has("methods") && len(t.Methods) == 0 {
		b.fault("methods", "names none")
	}
	return t
}

// collisions finds routes that two functions answer, and routes that would
// catch the POST /<FunctionName> of another function: the handler has one
// listener for both.
func (app *App) collisions() []error {
	var faults []error
	for i, fn := range app.Functions {
		if fn.HTTP == nil || fn.HTTP.Route.segments == nil {
			continue
		}
		for _, other := range app.Functions {
			if other.HTTP == nil && fn.HTTP.allows("POST") && fn.HTTP.Route.matches("/"+other.Name) {
				faults = append(faults, fmt.Errorf("%s/function.json: route: %q also catches the invocations of %s", fn.Name, fn.HTTP.Route, other.Name))
			}
		}
		for _, other := range app.Functions[i+1:] {
			if other.HTTP == nil || !fn.HTTP.Route.meets(other.HTTP.Route) {
				continue
			}
			shared := len(fn.HTTP.Methods) == 0 || len(other.HTTP.Methods) == 0 || slices.ContainsFunc(fn.HTTP.Methods, other.HTTP.allows)
			if shared {
				faults = append(faults, fmt.Errorf("%s/function.json: route: %q and the route of %s, %q, are for the same requests", other.Name, other.HTTP.Route, fn.Name, fn.HTTP.Route))
			}
		}
	}
	return faults
}
