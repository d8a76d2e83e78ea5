package workflow_test

import "orderflow/workflow"

func cellsCompensating() []cell {
	return []cell{
		{in: releasing, say: placed(), come: stale, when: "the content is the same"},
		{in: releasing, say: placedFor(500), come: conflict, when: "the amount is another"},
		{
			in: moneyOnly, say: reserved("res-1"), come: "release-inventory:1 [compensation-timeout:2]", when: "goods were unknown",
			stand: "money pay-1 waiting, goods res-1 waiting",
		},
		{in: releasing, say: reserved("res-1"), come: stale, when: "the reference is the same"},
		{in: releasing, say: reserved("res-2"), come: conflict, when: "the reference is another"},
		{in: releasing, say: notReserved, come: stale},
		{
			in: releasing, say: captured("pay-1"), come: "refund-payment:1 [compensation-timeout:2]", when: "money was unknown",
			stand: "goods res-1 waiting, money pay-1 waiting",
		},
		{in: refunding, say: captured("pay-1"), come: stale, when: "the reference is the same"},
		{in: refunding, say: captured("pay-2"), come: conflict, when: "the reference is another"},
		{in: releasing, say: notPaid, come: stale},
		{
			in: refunding, say: shipped("ship-1"), come: "→ NeedsAttention", when: "it was said to have failed",
			stand: "goods res-1 held, money pay-1 waiting, shipment ship-1 held",
		},
		{
			in: releasing, say: shipped("ship-1"), come: "→ NeedsAttention", when: "nothing was to be shipped",
			stand: "goods res-1 waiting, shipment ship-1 held",
		},
		{in: releasing, say: notShipped, come: stale, when: "nothing was to be shipped"},
		{in: refunding, say: notShipped, come: stale, when: "it is known"},
		{
			in: refunding, say: refunded("pay-1", "ref-1"), come: "release-inventory:1 [compensation-timeout:2]", when: "goods are held",
			stand: "goods res-1 waiting, money pay-1 undone by ref-1, shipment undone",
		},
		{
			in: bothUndos, say: refunded("pay-1", "ref-1"), come: recorded, when: "a release is in flight",
			stand: "goods res-1 waiting, money pay-1 undone by ref-1",
		},
		{
			in: moneyOnly, say: refunded("pay-1", "ref-1"), come: "→ Cancelled", when: "the customer was told",
			stand: "money pay-1 undone by ref-1",
		},
		{in: refunding, say: refunded("pay-2", "ref-1"), come: conflict, when: "the payment is another"},
		{in: releasing, say: refunded("pay-1", "ref-1"), come: refused, when: "no money is known"},
		{
			in:  refunding.then(workflow.Compensating, refunded("pay-1", "ref-1")),
			say: refunded("pay-1", "ref-1"), come: stale, when: "the refund is known",
		},
		{
			in:  refunding.then(workflow.Compensating, refunded("pay-1", "ref-1")),
			say: refunded("pay-1", "ref-2"), come: conflict, when: "the refund is another",
		},
		{
			in: refunding, say: refundFailed("pay-1", 1), come: "→ NeedsAttention", when: "it is the attempt",
			stand: "goods res-1 held, money pay-1 failed, shipment undone",
		},
		{in: secondTry, say: refundFailed("pay-1", 1), come: stale, when: "it is an earlier attempt"},
		{
			in: secondTry, say: refundFailed("pay-1", 2), come: "→ NeedsAttention", when: "it is the second attempt",
			stand: "goods res-1 held, money pay-1 failed, shipment undone",
		},
		{in: refunding, say: refundFailed("pay-1", 2), come: refused, when: "that attempt was never made"},
		{in: refunding, say: refundFailed("pay-2", 1), come: conflict, when: "the payment is another"},
		{
			in:  refunding.then(workflow.Compensating, refunded("pay-1", "ref-1")),
			say: refundFailed("pay-1", 1), come: stale, when: "the refund is known",
		},
		{in: releasing, say: refundFailed("pay-1", 1), come: refused, when: "no money is known"},
		{in: releasing, say: released("res-1"), come: "→ Cancelled cancel-order:1", stand: "goods res-1 undone by res-1"},
		{
			in: bothUndos, say: released("res-1"), come: recorded, when: "a refund is in flight",
			stand: "goods res-1 undone by res-1, money pay-1 waiting",
		},
		{in: releasing, say: released("res-2"), come: conflict, when: "the reservation is another"},
		{in: refunding, say: released("res-1"), come: refused, when: "the goods are held: nobody asked"},
		{
			in:  bothUndos.then(workflow.Compensating, released("res-1")),
			say: released("res-1"), come: stale, when: "the release is known",
		},
		{in: releasing, say: releaseFailed("res-1", 1), come: "→ NeedsAttention", stand: "goods res-1 failed"},
		{
			in: bothUndos, say: releaseFailed("res-1", 1), come: recorded, when: "a refund is in flight",
			stand: "goods res-1 failed, money pay-1 waiting",
		},
		{in: releasing, say: releaseFailed("res-1", 2), come: refused, when: "that attempt was never made"},
		{in: releasing, say: releaseFailed("res-2", 1), come: conflict, when: "the reservation is another"},
		{in: refunding, say: releaseFailed("res-1", 1), come: refused, when: "the goods are held: nobody asked"},
		{in: releasing, say: cancelled, come: stale},
		{in: releasing, say: expired("inventory-timeout:1"), come: stale},
		{in: releasing, say: expired("payment-timeout:1"), come: stale},
		{in: releasing, say: expired("shipment-timeout:1"), come: stale},
		{in: releasing, say: expired("compensation-timeout:1"), come: "→ NeedsAttention", stand: "goods res-1 overdue"},
		{in: bothUndos, say: expired("compensation-timeout:1"), come: stale, when: "the second is armed"},
		{
			in: bothUndos, say: expired("compensation-timeout:2"), come: "→ NeedsAttention", when: "two undos are in flight",
			stand: "goods res-1 overdue, money pay-1 overdue",
		},
		{in: releasing, say: tooSoon("compensation-timeout:1"), come: "[compensation-timeout:2]", when: "it is not due"},
		{in: releasing, say: dead("release-inventory:1"), come: recorded, when: "it is awaited"},
		{in: moneyOnly, say: dead("cancel-order:1"), come: recorded, when: "the customer is to be told"},
		{in: releasing, say: dead("capture-payment:1"), come: stale, when: "it is not awaited any more"},
		{in: secondTry, say: dead("refund-payment:1"), come: stale, when: "it is an earlier attempt"},
		{in: releasing, say: retry, come: refused},
		{in: releasing, say: resolveCancelled, come: refused},
		{in: releasing, say: resolveCompleted, come: refused},
	}
}

func cellsNeedsAttention() []cell {
	lateMoney := wordGoods.then(workflow.NeedsAttention, captured("pay-1"))
	return []cell{
		{
			in: lateMoney, say: resolveCancelled, come: "→ Compensating refund-payment:1 [compensation-timeout:2]",
			when:  "the goods left, which comes before the money that turned up",
			stand: "goods res-1 overdue, shipment hand undone by hand, money pay-1 waiting",
		},
		{in: lateMoney, say: retry, come: refused, when: "the goods left"},
		{in: silent, say: placed(), come: stale, when: "the content is the same"},
		{in: silent, say: placedFor(500), come: conflict, when: "the amount is another"},
		{
			in: moneyOverdue, say: reserved("res-1"), come: "→ Compensating release-inventory:1 [compensation-timeout:2]", when: "goods were unknown",
			stand: "money pay-1 overdue, goods res-1 waiting",
		},
		{in: silent, say: reserved("res-1"), come: stale, when: "the reference is the same"},
		{in: silent, say: reserved("res-2"), come: conflict, when: "the reference is another"},
		{in: silent, say: notReserved, come: stale},
		{
			in: goodsOverdue, say: captured("pay-1"), come: "→ Compensating refund-payment:1 [compensation-timeout:2]", when: "money was unknown",
			stand: "goods res-1 overdue, money pay-1 waiting",
		},
		{in: silent, say: captured("pay-1"), come: stale, when: "the reference is the same"},
		{in: silent, say: captured("pay-2"), come: conflict, when: "the reference is another"},
		{in: silent, say: notPaid, come: stale},
		{
			in: silent, say: shipped("ship-1"), come: "→ Completed", when: "goods and money are held",
			stand: "goods res-1 held, money pay-1 held, shipment ship-1 held",
		},
		{
			in: goodsOverdue, say: shipped("ship-1"), come: recorded, when: "no money is held",
			stand: "goods res-1 overdue, shipment ship-1 held",
		},
		{in: contradicted, say: shipped("ship-1"), come: stale, when: "the reference is the same"},
		{in: contradicted, say: shipped("ship-2"), come: conflict, when: "the reference is another"},
		{
			in: silent, say: notShipped, come: "→ Compensating refund-payment:1 [compensation-timeout:1]", when: "it was overdue",
			stand: "goods res-1 held, money pay-1 waiting, shipment undone",
		},
		{
			in: goodsOverdue, say: notShipped, come: recorded, when: "nothing was to be shipped",
			stand: "goods res-1 overdue, shipment undone",
		},
		{in: contradicted, say: notShipped, come: conflict, when: "the goods left"},
		{in: refundFails, say: notShipped, come: stale, when: "it is known"},
		{
			in: contradicted, say: refunded("pay-1", "ref-1"), come: recorded, when: "the goods left",
			stand: "goods res-1 held, money pay-1 undone by ref-1, shipment ship-1 held",
		},
		{
			in: refundFails, say: refunded("pay-1", "ref-1"), come: "→ Compensating release-inventory:1 [compensation-timeout:2]", when: "it was said to have failed",
			stand: "goods res-1 waiting, money pay-1 undone by ref-1, shipment undone",
		},
		{
			in: bothOverdue, say: refunded("pay-1", "ref-1"), come: recorded, when: "the release is overdue too",
			stand: "goods res-1 overdue, money pay-1 undone by ref-1",
		},
		{in: shippedRefund, say: refunded("pay-1", "ref-2"), come: conflict, when: "the refund is another"},
		{in: shippedRefund, say: refunded("pay-1", "ref-1"), come: stale, when: "the refund is known"},
		{in: silent, say: refunded("pay-1", "ref-1"), come: refused, when: "the money is held: nobody asked"},
		{
			in: contradicted, say: refundFailed("pay-1", 1), come: recorded, when: "the goods left",
			stand: "goods res-1 held, money pay-1 failed, shipment ship-1 held",
		},
		{in: refundFails, say: refundFailed("pay-1", 1), come: stale, when: "it is known"},
		{in: refundFails, say: refundFailed("pay-1", 2), come: stale, when: "it failed already, whatever attempt is named"},
		{in: silent, say: refundFailed("pay-1", 1), come: refused, when: "the money is held: nobody asked"},
		{in: goodsOverdue, say: released("res-1"), come: "→ Cancelled cancel-order:1", stand: "goods res-1 undone by res-1"},
		{in: releaseFails, say: released("res-1"), come: "→ Cancelled cancel-order:1", when: "it was said to have failed", stand: "goods res-1 undone by res-1"},
		{in: silent, say: released("res-1"), come: refused, when: "the goods are held: nobody asked"},
		{in: goodsOverdue, say: releaseFailed("res-1", 1), come: recorded, stand: "goods res-1 failed"},
		{in: releaseFails, say: releaseFailed("res-1", 1), come: stale, when: "it is known"},
		{in: silent, say: cancelled, come: refused},
		{in: silent, say: expired("inventory-timeout:1"), come: stale},
		{in: silent, say: expired("payment-timeout:1"), come: stale},
		{in: silent, say: expired("shipment-timeout:1"), come: stale},
		{in: silent, say: tooSoon("shipment-timeout:1"), come: stale, when: "it is not due either"},
		{in: goodsOverdue, say: expired("compensation-timeout:1"), come: stale},
		{in: silent, say: dead("ship-order:1"), come: recorded, when: "the shipment is overdue"},
		{in: goodsOverdue, say: dead("release-inventory:1"), come: recorded, when: "the goods are overdue"},
		{in: refundFails, say: dead("refund-payment:1"), come: stale, when: "it was answered"},
		{
			in: refundFails, say: retry, come: "→ Compensating refund-payment:2 [compensation-timeout:2]",
			stand: "goods res-1 held, money pay-1 waiting, shipment undone",
		},
		{
			in: releaseFails, say: retry, come: "→ Compensating release-inventory:2 [compensation-timeout:2]", when: "the release failed",
			stand: "goods res-1 waiting",
		},
		{in: refundFails, say: actedLate(workflow.Retry, 1), come: refused, when: "the order has moved on"},
		{in: silent, say: retry, come: refused, when: "nothing failed"},
		{in: goodsOverdue, say: retry, come: refused, when: "it was merely not answered"},
		{
			in:  contradicted.then(workflow.NeedsAttention, refundFailed("pay-1", 1)),
			say: retry, come: refused, when: "the refund failed but the goods left",
		},
		{
			in: silent, say: resolveCancelled, come: "→ Compensating refund-payment:1 [compensation-timeout:1]", when: "stuck on the shipment",
			stand: "goods res-1 held, money pay-1 waiting, shipment undone by hand",
		},
		{in: goodsOverdue, say: resolveCancelled, come: "→ Cancelled cancel-order:1", when: "stuck on the goods", stand: "goods res-1 undone by hand"},
		{
			in: bothOverdue, say: resolveCancelled, come: recorded, when: "stuck on the money and then on the goods",
			stand: "goods res-1 overdue, money pay-1 undone by hand",
		},
		{
			in: shippedRefund, say: resolveCancelled, come: "→ Compensating release-inventory:1 [compensation-timeout:2]", when: "shipped and refunded",
			stand: "goods res-1 waiting, money pay-1 undone by ref-1, shipment ship-1 undone by hand",
		},
		{in: silent, say: actedLate(workflow.ResolveCancelled, 1), come: refused, when: "the order has moved on"},
		{
			in: silent, say: resolveCompleted, come: "→ Completed", when: "the shipment is unknown",
			stand: "goods res-1 held, money pay-1 held, shipment hand held",
		},
		{
			in: contradicted, say: resolveCompleted, come: "→ Completed", when: "the shipment is known",
			stand: "goods res-1 held, money pay-1 waiting, shipment ship-1 held",
		},
		{in: goodsOverdue, say: resolveCompleted, come: "→ Completed", when: "nothing was to be shipped", stand: "goods res-1 overdue, shipment hand held"},
		{in: silent, say: actedLate(workflow.ResolveCompleted, 1), come: refused, when: "the order has moved on"},
	}
}
