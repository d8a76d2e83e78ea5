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
