package functions

import "orderflow/workflow"

// paymentTimeout takes the message that the payment service did not answer in
// time: the goods are given back, and later money too.
func paymentTimeout() function {
	return messages("payment-timeout", workflow.PaymentDeadlineExpired)
}
