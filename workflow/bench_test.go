package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// ordinary are the transitions of an order that goes well, and of one that is
// backed out.
func ordinary() map[string]struct {
	order   workflow.Order
	message workflow.Message
} {
	all := map[string]struct {
		order   workflow.Order
		message workflow.Message
	}{}
	for name, c := range map[string]struct {
		in  scene
		say saying
	}{
		"OrderPlaced":       {fresh, placed()},
		"InventoryReserved": {reserving, reserved("res-1")},
		"PaymentCaptured":   {paying, captured("pay-1")},
		"ShipmentConfirmed": {shipping, shipped("ship-1")},
		"ShipmentFailed":    {shipping, notShipped},
		"PaymentRefunded":   {refunding, refunded("pay-1", "ref-1")},
		"InventoryReleased": {releasing, released("res-1")},
		"the last InventoryReleased": {
			secondTry.then(workflow.Compensating, refunded("pay-1", "ref-1")), released("res-1"),
		},
		"PaymentDeadlineExpired": {paying, expired("payment-timeout:1")},
	} {
		d := newDesk()
		d.hears(c.in.told...)
		all[name] = struct {
			order   workflow.Order
			message workflow.Message
		}{d.order, c.say.to(d.order, "m-1")}
	}
	return all
}

func BenchmarkApply(b *testing.B) {
	for name, c := range ordinary() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				workflow.Apply(c.order, c.message, nil)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, on := range []workflow.MessageType{workflow.OrderPlaced, workflow.PaymentCaptured} {
		e := letter(on)
		b.Run(string(on), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Not parallel: it counts the allocations of the whole process.
func TestAnOrdinaryTransitionAllocatesAtMostFifteenTimes(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates too; this runs without it")
	}
	for name, c := range ordinary() {
		allocations := testing.AllocsPerRun(100, func() { workflow.Apply(c.order, c.message, nil) })
		require.LessOrEqual(t, allocations, 15.0, name)
		t.Logf("%s: %v", name, allocations)
	}
}
