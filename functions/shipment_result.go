package functions

import "orderflow/workflow"

// shipmentResult takes shipping's answer: the goods left and the order is
// complete, or they did not and everything is given back, money first.
func shipmentResult() function {
	return messages("shipment-result", workflow.ShipmentConfirmed, workflow.ShipmentFailed)
}
