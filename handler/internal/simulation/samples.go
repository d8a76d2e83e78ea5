package simulation

import (
	"encoding/json"

	"orderflow/workflow"
)

// Sample is an order with a known ending.
type Sample struct {
	OrderID  string
	SKU      string
	Customer string
	Ending   workflow.Status
	Story    string // what happens, in a few words
}

// Samples is one order for each way in which an order can go.
func Samples() []Sample {
	return []Sample{
		{"order-1-ships", "A/1", "ada", workflow.Completed, "everything goes well"},
		{"order-2-out-of-stock", OutOfStock, "ada", workflow.Cancelled, "the warehouse has none"},
		{"order-3-card-declined", "A/1", Declined, workflow.Cancelled, "the goods go back"},
		{"order-4-bank-silent", "A/1", SilentBank, workflow.Cancelled, "the payment deadline passes"},
		{"order-5-bank-late", "A/1", SlowBank, workflow.Cancelled, "money that comes after the deadline is given back"},
		{"order-6-stock-late", SlowStock, "ada", workflow.Cancelled, "goods that come after the deadline are given back"},
		{"order-7-told-twice", "A/1", StutteringBank, workflow.Completed, "the second report of the payment changes nothing"},
		{"order-8-cannot-ship", Unshippable, "ada", workflow.Cancelled, "money first, then goods go back"},
		{"order-9-refund-fails", Unshippable, StubbornBank, workflow.Cancelled, "an operator retries the refund"},
		{"order-10-parcel-lost", LostParcel, "ada", workflow.NeedsAttention, "the goods may have left: a person has to decide"},
		{"order-11-cancelled", "A/1", ChangesMind, workflow.Cancelled, "the customer cancels in time"},
	}
}

// Body is the OrderPlaced that places it.
func (s Sample) Body() []byte {
	body, err := json.Marshal(map[string]any{
		"orderId": s.OrderID, "customerId": s.Customer, "currency": "EUR", "amount": 12990,
		"lines": []workflow.Line{{SKU: s.SKU, Quantity: 2}},
	})
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return body
}
