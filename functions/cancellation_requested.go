package functions

import "orderflow/workflow"

// cancellationRequested takes a customer's wish to cancel, which is granted until
// the order is paid; after that the goods may be on their way.
func cancellationRequested() function {
	return messages("cancellation-requested", workflow.CancellationRequested)
}
