package functions

import "orderflow/workflow"

// inventoryTimeout takes the message that the warehouse did not answer in time.
func inventoryTimeout() function {
	return messages("inventory-timeout", workflow.InventoryDeadlineExpired)
}
