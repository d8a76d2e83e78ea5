package project

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"orderflow/handler/internal/funchost"
)

// longestIdle is how long a session without messages may be kept: each order has
// one, and one that is drained takes the place of an order that waits.
const longestIdle = 10 * time.Second

// host checks what the Functions host reads: host.json and the folders. What it
// would not start with, or what would go wrong later, funchost says; the rest is
// what funchost cannot know.
func (c *check) host() {
	app, err := funchost.Load(c.root, c.setting)
	for _, fault := range faults(err) {
		where, what, cut := strings.Cut(fault.Error(), ": ")
		if !cut {
			c.find(hostFile, inTheRoot, "%v", fault)
			return
		}
		c.find(where, "", "%s", what)
	}
	c.bundle()
	c.folders()
	for _, name := range c.Functions {
		c.bound(name)
	}
	if app == nil {
		return // the faults are told
	}
	c.started(app)
	for _, fn := range app.Functions {
		c.triggered(fn)
	}
	c.reached(app)
}

// setting is the value of an app setting for funchost: the default, or, since
// others say what is missing, whatever can be read.
func (c *check) setting(name string) (string, bool) {
	i := slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return "0 * * * * *", true
	}
	return c.Settings[i].Default, true
}

// bundle checks the range of the extension bundle.
func (c *check) bundle() {
	var host struct {
		ExtensionBundle struct{ Version string }
	}
	data, err := fs.ReadFile(c.root, hostFile)
	if err == nil {
		err = json.Unmarshal(data, &host)
	}
	if version := host.ExtensionBundle.Version; err == nil && version != "" && !regexp.MustCompile(`^\[4\.[0-9.*]+, ?5\.0\.0\)$`).MatchString(version) {
		c.find(hostFile+": extensionBundle.version", "", "must be a range within version 4, such as [4.*, 5.0.0), since the names here are those of its Service Bus extension; is %q", version)
	}
}

// folders compares the folders that hold a function.json with the functions.
func (c *check) folders() {
	files, _ := fs.Glob(c.root, functionFile("*")) // the pattern is sound
	for _, name := range c.Functions {
		if !slices.Contains(files, functionFile(name)) {
			c.find(functionFile(name), "add it, or take the function out of functions/registry.go", "the program has a function %s, and nothing calls it", name)
		}
	}
	for _, file := range files {
		if name := strings.TrimSuffix(file, "/function.json"); !slices.Contains(c.Functions, name) {
			c.find(file, "add it to functions/registry.go, or delete the folder", "the program has no function %s: each of its invocations would fail", name)
		}
	}
}

// started checks how the host starts the program, how long it lets it work, and
// how it holds sessions.
func (c *check) started(app *funchost.App) {
	const path = hostFile + ": customHandler.description."
	if app.Executable != Executable {
		c.find(path+"defaultExecutablePath", "", "must be %s, which is what is built and packed, is %s", Executable, app.Executable)
	}
	if app.WorkingDirectory != "" {
		c.find(path+"workingDirectory", "", "must be empty, the app's root, is %s", app.WorkingDirectory)
	}
	if len(app.Arguments) > 0 {
		c.find(path+"arguments", "", "must be empty: with any, the program does something else than serve; is %s", strings.Join(app.Arguments, " "))
	}
	limit := app.FunctionTimeout
	if limit <= c.LongestInvocation { // none is zero
		c.find(hostFile+": functionTimeout", "", "must be set, not -1, and longer than HandlerDeadline may be, %s: when it passes, the host kills the program with everything that is under way", c.LongestInvocation)
	}
	renewal := app.ServiceBus.MaxAutoLockRenewalDuration
	if renewal >= 0 && (limit == 0 || renewal < limit) {
		c.find(hostFile+": extensions.serviceBus.maxAutoLockRenewalDuration", "", "must not be shorter than functionTimeout, or an order is taken up elsewhere while its message is still handled")
	}
	if app.ServiceBus.SessionIdleTimeout > longestIdle {
		c.find(hostFile+": extensions.serviceBus.sessionIdleTimeout", "", "must be at most %s, is %s: an order without messages would keep others from being handled",
			longestIdle, app.ServiceBus.SessionIdleTimeout)
	}
}

// triggered checks that a function is triggered by what the program thinks it is.
func (c *check) triggered(fn funchost.Function) {
	file := functionFile(fn.Name)
	_, listens := called(c.Orders.Subscriptions, fn.Name)
	_, timed := c.Timers[fn.Name]
	switch {
	case listens != (fn.ServiceBus != nil), timed != (fn.Timer != nil): // or both, and HTTP is what is left
		if slices.Contains(c.Functions, fn.Name) {
			c.find(file+": bindings", "", "must have the trigger that the program serves: Service Bus for a message, a timer for a schedule, HTTP for a path of the API")
		}
	case listens && fn.ServiceBus.Subscription != fn.Name:
		c.find(file+": subscriptionName", "", "must be %s, the function's own, is %s", fn.Name, fn.ServiceBus.Subscription)
	case listens && !fn.ServiceBus.Binary:
		c.find(file+": dataType", "", "must be binary: as a string, a body could take the place of its message's ID and session")
	case fn.HTTP != nil:
		c.guarded(fn)
	}
	if fn.Disabled {
		c.find(file+": disabled", "take it out", "the function would not run")
	}
}

// guarded checks the key that opens a function. What needs none has nothing in
// its route in which another path could stand (docs/adr/0018).
func (c *check) guarded(fn funchost.Function) {
	file := functionFile(fn.Name)
	open := slices.Contains(c.Open, fn.Name)
	switch level := fn.HTTP.AuthLevel; {
	case open && level != "anonymous":
		c.find(file+": authLevel", "", "must be anonymous, is %s: nobody who asks has a key", level)
	case !open && level != "function":
		c.find(file+": authLevel", "", "must be function, is %s: it needs a key, and one of its own", level)
	}
	for segment := range strings.SplitSeq(fn.HTTP.Route.String(), "/") {
		if open && strings.Contains(segment, "{") && !strings.HasSuffix(segment, ":alpha}") {
			c.find(file+": route", "", "must have no parameter but letters, such as {kind:alpha}, since it needs no key (docs/adr/0018): %s", segment)
		}
	}
}

// reached checks that the host gives each path of the API to the function whose
// key is to open it.
func (c *check) reached(app *funchost.App) {
	for _, e := range c.Endpoints {
		path := "/" + strings.Trim(app.RoutePrefix+"/"+e.Path, "/") // a name in braces is a segment like another
		switch to := app.Serves(e.Method, path); to {
		case e.Function:
		case "":
			c.find(functionFile(e.Function)+": route", "make its route and methods match", "%s %s is not reached by any function", e.Method, e.Path)
		default:
			c.find(functionFile(e.Function)+": route", "make the routes differ", "%s %s is opened by the key of %s", e.Method, e.Path, to)
		}
	}
}

// bound checks what a binding names, as it is written: funchost has put the
// values of the settings in its place.
func (c *check) bound(name string) {
	file := functionFile(name)
	b := c.bindings(name)
	if b.TopicName != "" && b.TopicName != "%"+c.Orders.Setting+"%" {
		c.find(file+": topicName", "", "must be %%%s%%, is %s", c.Orders.Setting, b.TopicName)
	}
	if b.Connection != "" && b.Connection != c.Connection {
		c.find(file+": connection", "", "must be %s, where the program sends to, is %s", c.Connection, b.Connection)
	}
	if setting, timed := c.Timers[name]; timed && b.Schedule != "" && b.Schedule != "%"+setting+"%" {
		c.find(file+": schedule", "", "must be %%%s%%, is %s", setting, b.Schedule)
	}
}

// binding is what a trigger names.
type binding struct {
	TopicName, SubscriptionName, Connection, Schedule string
}

func (b binding) texts() []string {
	return []string{b.TopicName, b.SubscriptionName, b.Connection, b.Schedule}
}

// bindings is what the first binding of a function names, which is its trigger;
// nothing if it cannot be read, which funchost says.
func (c *check) bindings(name string) (b binding) {
	data, err := fs.ReadFile(c.root, functionFile(name))
	if err != nil {
		return b
	}
	var file struct{ Bindings []binding }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Bindings) == 0 {
		return b
	}
	return file.Bindings[0]
}
