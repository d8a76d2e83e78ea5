package workflow_test

import "orderflow/workflow"

func cellsCompleted() []cell {
	return []cell{
		{in: delivered, say: placed(), come: stale, when: "the content is the same"},
		{in: delivered, say: placedFor(500), come: conflict, when: "the amount is another"},
		{
			in: wordNoGoods, say: reserved("res-1"), come: "→ NeedsAttention", when: "goods were unknown",
			stand: "money pay-1 overdue, shipment hand held, goods res-1 held",
		},
		{in: delivered, say: reserved("res-1"), come: stale, when: "the reference is the same"},
		{in: delivered, say: reserved("res-2"), come: conflict, when: "the reference is another"},
		{in: delivered, say: notReserved, come: refused},
		{
			in: wordGoods, say: captured("pay-1"), come: "→ NeedsAttention", when: "money was unknown",
			stand: "goods res-1 overdue, shipment hand held, money pay-1 held",
		},
		{in: delivered, say: captured("pay-1"), come: stale, when: "the reference is the same"},
		{in: delivered, say: captured("pay-2"), come: conflict, when: "the reference is another"},
		{in: delivered, say: notPaid, come: refused},
		{in: delivered, say: shipped("ship-1"), come: stale, when: "the reference is the same"},
		{in: delivered, say: shipped("ship-2"), come: conflict, when: "the reference is another"},
		{in: wordSilent, say: shipped("ship-1"), come: conflict, when: "a person said that it was shipped"},
		{in: delivered, say: notShipped, come: conflict},
		{in: wordSilent, say: notShipped, come: conflict, when: "a person said that it was shipped"},
		{
			in: wordMoney, say: refunded("pay-1", "ref-1"), come: "→ NeedsAttention", when: "a refund was in flight",
			stand: "goods res-1 held, money pay-1 undone by ref-1, shipment ship-1 held",
		},
		{in: delivered, say: refunded("pay-1", "ref-1"), come: refused, when: "nobody asked"},
		{
			in: wordMoney, say: refundFailed("pay-1", 1), come: recorded, when: "a refund was in flight",
			stand: "goods res-1 held, money pay-1 failed, shipment ship-1 held",
		},
		{in: delivered, say: refundFailed("pay-1", 1), come: refused, when: "nobody asked"},
		{
			in: wordGoods, say: released("res-1"), come: "→ NeedsAttention", when: "a release was in flight",
			stand: "goods res-1 undone by res-1, shipment hand held",
		},
		{in: delivered, say: released("res-1"), come: refused, when: "nobody asked"},
		{
			in: wordGoods, say: releaseFailed("res-1", 1), come: recorded, when: "a release was in flight",
			stand: "goods res-1 failed, shipment hand held",
		},
		{in: delivered, say: releaseFailed("res-1", 1), come: refused, when: "nobody asked"},
		{in: delivered, say: cancelled, come: refused},
		{in: delivered, say: expired("inventory-timeout:1"), come: stale},
		{in: delivered, say: expired("payment-timeout:1"), come: stale},
		{in: delivered, say: expired("shipment-timeout:1"), come: stale},
		{in: wordGoods, say: expired("compensation-timeout:1"), come: stale},
		{in: delivered, say: dead("ship-order:1"), come: stale, when: "it was answered"},
		{in: wordMoney, say: dead("refund-payment:1"), come: stale, when: "it is still awaited"},
		{in: delivered, say: retry, come: refused},
		{in: delivered, say: resolveCancelled, come: refused},
		{in: delivered, say: resolveCompleted, come: refused},
	}
}

func cellsCancelled() []cell {
	return []cell{
		{in: nothing, say: placed(), come: stale, when: "the content is the same"},
		{in: nothing, say: placedFor(500), come: conflict, when: "the amount is another"},
		{
			in: nothing, say: reserved("res-1"), come: "→ Compensating release-inventory:1 [compensation-timeout:1]", when: "goods were unknown",
			stand: "goods res-1 waiting",
		},
		{in: givenBack, say: reserved("res-1"), come: stale, when: "the reference is the same"},
		{in: givenBack, say: reserved("res-2"), come: conflict, when: "the reference is another"},
		{in: nothing, say: notReserved, come: stale},
		{
			in: givenBack, say: captured("pay-1"), come: "→ Compensating refund-payment:1 [compensation-timeout:2]", when: "money was unknown",
			stand: "goods res-1 undone by res-1, money pay-1 waiting",
		},
		{in: allGiven, say: captured("pay-1"), come: stale, when: "the reference is the same"},
		{in: allGiven, say: captured("pay-2"), come: conflict, when: "the reference is another"},
		{in: nothing, say: notPaid, come: stale},
		{
			in: allGiven, say: shipped("ship-1"), come: "→ NeedsAttention", when: "it was said to have failed",
			stand: "goods res-1 undone by res-1, money pay-1 undone by ref-1, shipment ship-1 held",
		},
		{in: nothing, say: shipped("ship-1"), come: "→ NeedsAttention", when: "nothing was to be shipped", stand: "shipment ship-1 held"},
		{
			in:  shippedRefund.then(workflow.Cancelled, resolveCancelled, released("res-1")),
			say: shipped("ship-1"), come: stale, when: "a person settled that shipment",
		},
		{in: nothing, say: notShipped, come: stale, when: "nothing was to be shipped"},
		{in: allGiven, say: notShipped, come: stale, when: "it is known"},
		{in: nothing, say: refunded("pay-1", "ref-1"), come: refused, when: "no money is known"},
		{in: allGiven, say: refunded("pay-1", "ref-1"), come: stale, when: "the refund is known"},
		{in: allGiven, say: refunded("pay-1", "ref-2"), come: conflict, when: "the refund is another"},
		{in: allGiven, say: refunded("pay-2", "ref-1"), come: conflict, when: "the payment is another"},
		{in: nothing, say: refundFailed("pay-1", 1), come: refused, when: "no money is known"},
		{in: allGiven, say: refundFailed("pay-1", 1), come: stale, when: "the refund is known"},
		{in: allGiven, say: refundFailed("pay-2", 1), come: conflict, when: "the payment is another"},
		{in: nothing, say: released("res-1"), come: refused, when: "no goods are known"},
		{in: givenBack, say: released("res-1"), come: stale, when: "the release is known"},
		{in: givenBack, say: released("res-2"), come: conflict, when: "the reservation is another"},
		{in: byHand, say: released("res-1"), come: conflict, when: "a person settled it by hand"},
		{in: nothing, say: releaseFailed("res-1", 1), come: refused, when: "no goods are known"},
		{in: givenBack, say: releaseFailed("res-1", 1), come: stale, when: "the release is known"},
		{in: byHand, say: releaseFailed("res-1", 1), come: stale, when: "a person settled it by hand"},
		{in: nothing, say: cancelled, come: stale},
		{in: nothing, say: expired("inventory-timeout:1"), come: stale},
		{in: nothing, say: expired("payment-timeout:1"), come: stale},
		{in: nothing, say: expired("shipment-timeout:1"), come: stale},
		{in: givenBack, say: expired("compensation-timeout:1"), come: stale},
		{in: nothing, say: dead("cancel-order:1"), come: recorded, when: "the customer is to be told"},
		{in: nothing, say: dead("reserve-inventory:1"), come: stale, when: "it is not awaited any more"},
		{in: givenBack, say: dead("release-inventory:1"), come: stale, when: "it was answered"},
		{in: nothing, say: retry, come: refused},
		{in: nothing, say: resolveCancelled, come: refused},
		{in: nothing, say: resolveCompleted, come: refused},
	}
}
