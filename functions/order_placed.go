package functions

import "orderflow/workflow"

// orderPlaced starts orders: the goods are asked for first, and everything that
// came too early for the order is taken up in the same commit.
func orderPlaced() function {
	return messages("order-placed", workflow.OrderPlaced)
}
