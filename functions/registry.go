package functions

import (
	"net/http"

	"orderflow/workflow"
)

// serveFunc does the work of one invocation, notes in the record what became of
// it, and returns the answer.
type serveFunc func(App, *http.Request, *record) reply

// function is one function of the app.
type function struct {
	// name is the folder that holds its function.json, its route, and, where it
	// takes messages, its subscription.
	name string
	// types are the message types that its subscription takes; none for a
	// function that something else triggers. They say what is delivered here,
	// not what may be: the type of a message decides what happens, so a known
	// one that arrives at another function is handled all the same.
	types []workflow.MessageType
	// forwarded: the host passes on the caller's own request, once it has checked
	// the key, and hands the answer back as it is. What serves it stands in the
	// table of api.go.
	forwarded bool
	serve     serveFunc
}

// registry lists all functions of the app, in the order of the story.
func registry() []function {
	return []function{
		orderPlaced(),
		inventoryReserved(),
		paymentResult(),
		shipmentResult(),
		compensationResult(),
		cancellationRequested(),
		inventoryTimeout(),
		paymentTimeout(),
		shipmentTimeout(),
		compensationTimeout(),
		outboxDispatch(),
		sweep(),
		{name: "place-order", forwarded: true},
		{name: "orders", forwarded: true},
		{name: "order-actions", forwarded: true},
		{name: "operations", forwarded: true},
		{name: "operation-actions", forwarded: true},
		{name: "ops", forwarded: true},
		{name: "health", forwarded: true},
	}
}

// messages is a function that takes messages of some types.
func messages(name string, types ...workflow.MessageType) function {
	return function{name: name, types: types, serve: posted(deliver)}
}

// Subscription is a function that takes messages: the name of its folder, which
// is that of its subscription, and the Subjects of its correlation rules.
type Subscription struct {
	Name  string
	Types []workflow.MessageType
}

// Subscriptions lists the functions that take messages.
func Subscriptions() []Subscription {
	var all []Subscription
	for _, f := range registry() {
		if len(f.types) > 0 {
			all = append(all, Subscription{f.name, f.types})
		}
	}
	return all
}

// Names lists all functions; each has a folder of that name.
func Names() []string {
	var all []string
	for _, f := range registry() {
		all = append(all, f.name)
	}
	return all
}

// Endpoint is a method and a path of the API, below the host's route prefix,
// where {id} is any one segment; the function whose key opens it; and the
// parameters of its query.
type Endpoint struct {
	Function, Method, Path string
	Query                  []string
}

// Endpoints lists what the API does.
func Endpoints() []Endpoint {
	var all []Endpoint
	for _, e := range endpoints() {
		all = append(all, Endpoint{e.function, e.method, e.path, e.query})
	}
	return all
}
