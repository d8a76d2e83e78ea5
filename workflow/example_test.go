package workflow_test

import (
	"fmt"
	"strings"

	"orderflow/workflow"
)

// An order is placed: it goes on to wait for the goods, asks for them, and
// bounds the wait.
func ExampleApply() {
	message, err := workflow.Envelope{
		ID: "orders:order-placed:42", Type: workflow.OrderPlaced, OrderID: "order-42",
		Body: []byte(`{"orderId":"order-42","customerId":"c-9","currency":"EUR","amount":12990,"lines":[{"sku":"s-1","quantity":2}]}`),
	}.Decode()
	if err != nil {
		fmt.Println(err)
		return
	}
	result := workflow.Apply(workflow.Order{ID: "order-42"}, message, nil)

	fmt.Println(result.Decisions[0].Outcome, result.Order.Status)
	for _, e := range result.Emissions() {
		fmt.Println(e.ID, "because of", e.ParentID)
	}
	// Output:
	// Applied AwaitingInventory
	// order-42:reserve-inventory:1 because of orders:order-placed:42
	// order-42:inventory-timeout:1 because of orders:order-placed:42
}

func ExampleMermaid() {
	for line := range strings.Lines(workflow.Mermaid()) {
		if strings.Contains(line, "AwaitingInventory -->") {
			fmt.Print(strings.TrimSpace(line), "\n")
		}
	}
	// Output:
	// AwaitingInventory --> AwaitingPayment: InventoryReserved / CapturePayment
	// AwaitingInventory --> BackOut: InventoryRejected, CancellationRequested, InventoryDeadlineExpired
}

func ExampleExplain() {
	fmt.Println(workflow.Explain(workflow.Order{ID: "order-42", Status: workflow.AwaitingPayment}))
	// Output:
	// the goods are held and the customer's payment was asked for; waits for the payment service's answer to CapturePayment
}
