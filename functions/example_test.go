package functions_test

import (
	"fmt"

	"orderflow/functions"
)

// The subscriptions of the app, for whoever has to create them.
func ExampleSubscriptions() {
	for _, s := range functions.Subscriptions()[:3] {
		fmt.Println(s.Name, s.Types)
	}
	// Output:
	// order-placed [OrderPlaced]
	// inventory-reserved [InventoryReserved InventoryRejected]
	// payment-result [PaymentCaptured PaymentFailed]
}
