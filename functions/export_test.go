package functions

import "orderflow/workflow"

// Reading is an App that reads messages in another way than Envelope.Decode,
// which is not known to panic.
func Reading(a App, decode func(workflow.Envelope) (workflow.Message, error)) App {
	a.decode = decode
	return a
}

// FirstBytes is how much of a request of unknown length is read before it needs
// room for all it may have.
const FirstBytes = firstBytes

// Endpoint is what serves a method and a path of the API.
type Endpoint struct {
	Function, Method, Path string
	Query                  []string
}

// Endpoints lists all.
func Endpoints() []Endpoint {
	var all []Endpoint
	for _, e := range endpoints() {
		all = append(all, Endpoint{e.function, e.method, e.path, e.query})
	}
	return all
}
