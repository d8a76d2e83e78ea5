package functions

import "orderflow/workflow"

// compensationResult takes the answers to the undoing of what an order brought
// about: each refund and release is asked for after the answer to the last one,
// and a failed one waits for a person.
func compensationResult() function {
	return messages("compensation-result",
		workflow.PaymentRefunded, workflow.PaymentRefundFailed,
		workflow.InventoryReleased, workflow.InventoryReleaseFailed)
}
