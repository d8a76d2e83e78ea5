package functions

import "orderflow/workflow"

// shipmentTimeout takes the message that shipping did not answer in time. The
// goods may have left, so a person decides.
func shipmentTimeout() function {
	return messages("shipment-timeout", workflow.ShipmentDeadlineExpired)
}
