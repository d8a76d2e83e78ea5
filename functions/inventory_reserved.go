package functions

import "orderflow/workflow"

// inventoryReserved takes the warehouse's answer: the goods are held and the
// payment is asked for, or they cannot be had and the order turns back.
func inventoryReserved() function {
	return messages("inventory-reserved", workflow.InventoryReserved, workflow.InventoryRejected)
}
