package functions

import "orderflow/workflow"

// paymentResult takes the payment service's answer: the order is paid and is to
// be shipped, or it is not and the goods are given back. Money that turns up
// after the order turned back is refunded at once.
func paymentResult() function {
	return messages("payment-result", workflow.PaymentCaptured, workflow.PaymentFailed)
}
