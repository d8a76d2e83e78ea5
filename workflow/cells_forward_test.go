package workflow_test

import "orderflow/workflow"

const held, stale, refused, conflict, recorded = "held", "stale", "refused", "conflict", "recorded"

func cellsNotStarted() []cell {
	in := fresh
	early := in.then(workflow.NotStarted, captured("pay-1"), cancelled)
	return []cell{
		{in: in, say: placed(), come: "→ AwaitingInventory reserve-inventory:1 [inventory-timeout:1]"},
		{in: in, say: reserved("res-1"), come: held},
		{in: in, say: notReserved, come: held},
		{in: in, say: captured("pay-1"), come: held},
		{in: early, say: captured("pay-1"), come: held, when: "one is held already"},
		{in: in, say: notPaid, come: held},
		{in: in, say: shipped("ship-1"), come: held},
		{in: in, say: notShipped, come: held},
		{in: in, say: refunded("pay-1", "ref-1"), come: refused},
		{in: early, say: refunded("pay-1", "ref-1"), come: refused, when: "the payment is held early"},
		{in: in, say: refundFailed("pay-1", 1), come: refused},
		{in: in, say: released("res-1"), come: refused},
		{in: in, say: releaseFailed("res-1", 1), come: refused},
		{in: in, say: cancelled, come: held},
		{in: in, say: expired("inventory-timeout:1"), come: stale},
		{in: in, say: expired("payment-timeout:1"), come: stale},
		{in: in, say: expired("shipment-timeout:1"), come: stale},
		{in: in, say: expired("compensation-timeout:1"), come: stale},
		{in: in, say: dead("reserve-inventory:1"), come: stale},
		{in: in, say: retry, come: refused},
		{in: in, say: resolveCancelled, come: refused},
		{in: in, say: resolveCompleted, come: refused},
	}
}

func cellsAwaitingInventory() []cell {
	in := reserving
	again := in.then(in.status, tooSoon("inventory-timeout:1"))
	return []cell{
		{in: in, say: placed(), come: stale, when: "the content is the same"},
		{in: in, say: placedFor(500), come: conflict, when: "the amount is another"},
		{in: in, say: reserved("res-1"), come: "→ AwaitingPayment capture-payment:1 [payment-timeout:1]", stand: "goods res-1 held"},
		{in: in, say: notReserved, come: "→ Cancelled cancel-order:1"},
		{in: in, say: captured("pay-1"), come: held},
		{in: in, say: notPaid, come: held},
		{in: in, say: shipped("ship-1"), come: held},
		{in: in, say: notShipped, come: held},
		{in: in, say: refunded("pay-1", "ref-1"), come: refused},
		{in: in, say: refundFailed("pay-1", 1), come: refused},
		{in: in, say: released("res-1"), come: refused},
		{in: in, say: releaseFailed("res-1", 1), come: refused},
		{in: in, say: cancelled, come: "→ Cancelled cancel-order:1"},
		{in: in, say: expired("inventory-timeout:1"), come: "→ Cancelled cancel-order:1"},
		{in: in, say: tooSoon("inventory-timeout:1"), come: "[inventory-timeout:2]", when: "it is not due"},
		{in: again, say: expired("inventory-timeout:1"), come: stale, when: "it was armed again"},
		{in: again, say: expired("inventory-timeout:2"), come: "→ Cancelled cancel-order:1", when: "it was armed again"},
		{in: in, say: expired("payment-timeout:1"), come: stale},
		{in: in, say: expired("shipment-timeout:1"), come: stale},
		{in: in, say: expired("compensation-timeout:1"), come: stale},
		{in: in, say: dead("reserve-inventory:1"), come: recorded, when: "it is awaited"},
		{in: in, say: dead("reserve-inventory:2"), come: stale, when: "it was never sent"},
		{in: in, say: dead("capture-payment:1"), come: stale, when: "it is not awaited"},
		{in: in, say: retry, come: refused},
		{in: in, say: resolveCancelled, come: refused},
		{in: in, say: resolveCompleted, come: refused},
	}
}

func cellsAwaitingPayment() []cell {
	in := paying
	const out = "→ Compensating release-inventory:1 [compensation-timeout:1]"
	return []cell{
		{in: in, say: placed(), come: stale, when: "the content is the same"},
		{in: in, say: placedFor(500), come: conflict, when: "the amount is another"},
		{in: in, say: reserved("res-1"), come: stale, when: "the reference is the same"},
		{in: in, say: reserved("res-2"), come: conflict, when: "the reference is another"},
		{in: in, say: notReserved, come: refused},
		{in: in, say: captured("pay-1"), come: "→ AwaitingShipment ship-order:1 [shipment-timeout:1]", stand: "goods res-1 held, money pay-1 held, shipment waiting"},
		{in: in, say: notPaid, come: out, stand: "goods res-1 waiting"},
		{in: in, say: shipped("ship-1"), come: held},
		{in: in, say: notShipped, come: held},
		{in: in, say: refunded("pay-1", "ref-1"), come: refused},
		{in: in, say: refundFailed("pay-1", 1), come: refused},
		{in: in, say: released("res-1"), come: refused},
		{in: in, say: releaseFailed("res-1", 1), come: refused},
		{in: in, say: cancelled, come: out, stand: "goods res-1 waiting"},
		{in: in, say: expired("inventory-timeout:1"), come: stale},
		{in: in, say: expired("payment-timeout:1"), come: out, stand: "goods res-1 waiting"},
		{in: in, say: tooSoon("payment-timeout:1"), come: "[payment-timeout:2]", when: "it is not due"},
		{in: in, say: expired("shipment-timeout:1"), come: stale},
		{in: in, say: expired("compensation-timeout:1"), come: stale},
		{in: in, say: dead("capture-payment:1"), come: recorded, when: "it is awaited"},
		{in: in, say: dead("reserve-inventory:1"), come: stale, when: "it was answered"},
		{in: in, say: retry, come: refused},
		{in: in, say: resolveCancelled, come: refused},
		{in: in, say: resolveCompleted, come: refused},
	}
}

func cellsAwaitingShipment() []cell {
	in := shipping
	return []cell{
		{in: in, say: placed(), come: stale, when: "the content is the same"},
		{in: in, say: placedFor(500), come: conflict, when: "the amount is another"},
		{in: in, say: reserved("res-1"), come: stale, when: "the reference is the same"},
		{in: in, say: reserved("res-2"), come: conflict, when: "the reference is another"},
		{in: in, say: notReserved, come: refused},
		{in: in, say: captured("pay-1"), come: stale, when: "the reference is the same"},
		{in: in, say: captured("pay-2"), come: conflict, when: "the reference is another"},
		{in: in, say: notPaid, come: refused},
		{in: in, say: shipped("ship-1"), come: "→ Completed", stand: "goods res-1 held, money pay-1 held, shipment ship-1 held"},
		{
			in: in, say: notShipped, come: "→ Compensating refund-payment:1 [compensation-timeout:1]",
			stand: "goods res-1 held, money pay-1 waiting, shipment undone",
		},
		{in: in, say: refunded("pay-1", "ref-1"), come: refused},
		{in: in, say: refundFailed("pay-1", 1), come: refused},
		{in: in, say: released("res-1"), come: refused},
		{in: in, say: releaseFailed("res-1", 1), come: refused},
		{in: in, say: cancelled, come: refused},
		{in: in, say: expired("inventory-timeout:1"), come: stale},
		{in: in, say: expired("payment-timeout:1"), come: stale},
		{
			in: in, say: expired("shipment-timeout:1"), come: "→ NeedsAttention",
			stand: "goods res-1 held, money pay-1 held, shipment overdue",
		},
		{in: in, say: tooSoon("shipment-timeout:1"), come: "[shipment-timeout:2]", when: "it is not due"},
		{in: in, say: expired("compensation-timeout:1"), come: stale},
		{in: in, say: dead("ship-order:1"), come: recorded, when: "it is awaited"},
		{in: in, say: dead("capture-payment:1"), come: stale, when: "it was answered"},
		{in: in, say: retry, come: refused},
		{in: in, say: resolveCancelled, come: refused},
		{in: in, say: resolveCompleted, come: refused},
	}
}
