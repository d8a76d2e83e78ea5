package simulation

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// ask is a command as an order sends it.
func ask(t *testing.T, typ, id string, body map[string]any) command {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	var c command
	require.NoError(t, json.Unmarshal(text, &c))
	c.ID, c.Type = id, workflow.MessageType(typ)
	return c
}

func TestEachServiceAnswersAsTheOrderAsks(t *testing.T) {
	t.Parallel()
	lines := func(sku string) map[string]any {
		return map[string]any{"orderId": "o", "lines": []workflow.Line{{SKU: sku, Quantity: 1}}}
	}
	by := func(customer string) map[string]any { return map[string]any{"orderId": "o", "customerId": customer} }
	for _, c := range []struct {
		command string
		body    map[string]any
		says    string // the subjects, and which of them are late
	}{
		{"ReserveInventory", lines("A/1"), "InventoryReserved"},
		{"ReserveInventory", lines(OutOfStock), "InventoryRejected"},
		{"ReserveInventory", lines(SlowStock), "InventoryReserved late"},
		{"CapturePayment", by("ada"), "PaymentCaptured"},
		{"CapturePayment", by(Declined), "PaymentFailed"},
		{"CapturePayment", by(SilentBank), ""},
		{"CapturePayment", by(SlowBank), "PaymentCaptured late"},
		{"CapturePayment", by(StutteringBank), "PaymentCaptured, PaymentCaptured"},
		{"CapturePayment", by(ChangesMind), "CancellationRequested"},
		{"ShipOrder", lines("A/1"), "ShipmentConfirmed"},
		{"ShipOrder", lines(Unshippable), "ShipmentFailed"},
		{"ShipOrder", lines(LostParcel), ""},
		{"RefundPayment", map[string]any{"orderId": "o", "paymentId": "payment-o"}, "PaymentRefunded"},
		{"RefundPayment", map[string]any{"orderId": "o", "paymentId": "payment-o" + stubborn}, "PaymentRefundFailed"},
		{"ReleaseInventory", map[string]any{"orderId": "o", "reservationId": "r"}, "InventoryReleased"},
		{"CancelOrder", map[string]any{"orderId": "o"}, ""},
	} {
		t.Run(c.command+" "+c.says, func(t *testing.T) {
			t.Parallel()
			asked := ask(t, c.command, "o:step:1", c.body)
			var says []string
			for _, a := range answers(asked) {
				said := string(a.subject)
				if a.late {
					said += " late"
				}
				says = append(says, said)
			}
			require.Equal(t, c.says, strings.Join(says, ", "))
			first, again := answers(asked), answers(asked)
			require.Equal(t, first, again, "a command that comes twice gets the same answers")
		})
	}
}

func TestEveryAnswerIsAMessageThatAnOrderUnderstands(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"ReserveInventory", "CapturePayment", "ShipOrder", "RefundPayment", "ReleaseInventory"} {
		for _, paymentID := range []string{"payment-o", "payment-o" + stubborn} {
			for _, customer := range []string{"ada", Declined, StutteringBank, ChangesMind} {
				for _, a := range answers(ask(t, typ, "o:step:1", map[string]any{
					"orderId": "o", "customerId": customer, "paymentId": paymentID, "reservationId": "r",
				})) {
					body, err := json.Marshal(a.body("o"))
					require.NoError(t, err)
					_, err = workflow.Envelope{ID: a.id, Type: a.subject, OrderID: "o", Body: body}.Decode()
					require.NoError(t, err, "%s to %s", a.subject, typ)
				}
			}
		}
	}
}

func TestAnAnswersIDFitsForTheLongestOrderID(t *testing.T) {
	t.Parallel()
	order := strings.Repeat("o", workflow.MaxOrderIDLength)
	asked := ask(t, "CapturePayment", workflow.CommandID(order, workflow.ReleaseInventory, 999), map[string]any{"orderId": order, "customerId": StutteringBank})
	for _, a := range answers(asked) {
		require.Empty(t, workflow.IDFault(a.id))
	}
}

func TestTheSecondRefundOfAStubbornBankSucceeds(t *testing.T) {
	t.Parallel()
	again := answers(ask(t, "RefundPayment", "o:refund-payment:2", map[string]any{"orderId": "o", "paymentId": "payment-o" + stubborn}))
	require.Len(t, again, 1)
	require.Equal(t, workflow.PaymentRefunded, again[0].subject)
}

func TestAServiceThatIsLeftOutTakesNoCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ without, plays string }{
		{"", "inventory, payment, shipping, order-updates"},
		{"inventory", "payment, shipping, order-updates"},
		{"inventory,payment", "shipping, order-updates"},
		{"order-updates, shipping", "inventory, payment"},
		{"inventory,payment,shipping,order-updates", ""},
	} {
		t.Run("without "+c.without, func(t *testing.T) {
			t.Parallel()
			without, err := ServiceNames(c.without)
			require.NoError(t, err)
			var plays []string
			for _, s := range (World{Without: without}).services() {
				plays = append(plays, s.Name)
			}
			require.Equal(t, c.plays, strings.Join(plays, ", "))
		})
	}
}

func TestAServiceThatDoesNotExistCannotBeLeftOut(t *testing.T) {
	t.Parallel()
	for list, unknown := range map[string]string{"warehouse": `"warehouse"`, "inventory,Payment": `"Payment"`, "inventory,": `""`} {
		_, err := ServiceNames(list)
		require.EqualError(t, err, "there is no service "+unknown+"; there are inventory, payment, shipping, order-updates")
	}
}

func TestAWorldWithoutServicesGoesOnUntilItIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		without, err := ServiceNames("inventory,payment,shipping,order-updates")
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			World{Without: without}.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
			require.Fail(t, "it ended by itself")
		default:
		}
		stop()
		<-ended
	})
}
