package workflow_test

import (
	"orderflow/workflow"
)

// statuses are the eight of the process, in its order.
var statuses = []workflow.Status{
	workflow.NotStarted, workflow.AwaitingInventory, workflow.AwaitingPayment, workflow.AwaitingShipment,
	workflow.Compensating, workflow.NeedsAttention, workflow.Completed, workflow.Cancelled,
}

// types are the twenty that reach an order, in the process's order.
var types = []workflow.MessageType{
	workflow.OrderPlaced,
	workflow.InventoryReserved, workflow.InventoryRejected,
	workflow.PaymentCaptured, workflow.PaymentFailed,
	workflow.ShipmentConfirmed, workflow.ShipmentFailed,
	workflow.PaymentRefunded, workflow.InventoryReleased,
	workflow.PaymentRefundFailed, workflow.InventoryReleaseFailed,
	workflow.CancellationRequested,
	workflow.InventoryDeadlineExpired, workflow.PaymentDeadlineExpired,
	workflow.ShipmentDeadlineExpired, workflow.CompensationDeadlineExpired,
	workflow.DispatchFailed,
	workflow.Retry, workflow.ResolveCancelled, workflow.ResolveCompleted,
}

// purposes says which deadline each waiting status has.
var purposes = map[workflow.Status]workflow.Purpose{
	workflow.AwaitingInventory: workflow.InventoryTimeout,
	workflow.AwaitingPayment:   workflow.PaymentTimeout,
	workflow.AwaitingShipment:  workflow.ShipmentTimeout,
	workflow.Compensating:      workflow.CompensationTimeout,
}

// expiries says which deadline each expiry is about.
var expiries = map[workflow.MessageType]workflow.Purpose{
	workflow.InventoryDeadlineExpired:    workflow.InventoryTimeout,
	workflow.PaymentDeadlineExpired:      workflow.PaymentTimeout,
	workflow.ShipmentDeadlineExpired:     workflow.ShipmentTimeout,
	workflow.CompensationDeadlineExpired: workflow.CompensationTimeout,
}
