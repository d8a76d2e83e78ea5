package functions

import "orderflow/workflow"

// compensationTimeout takes the message that a refund or a release was not
// answered in time, so that backing out does not stand still unseen.
func compensationTimeout() function {
	return messages("compensation-timeout", workflow.CompensationDeadlineExpired)
}
