package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// restored is what becomes of an order whose database was put back to an earlier
// moment, while the services around it remember what they did since.
func restored() []scenario {
	const command = theOrder + ":capture-payment:1"
	return []scenario{
		{"a database that was put back comes to the same end when the services answer again, and nothing is done twice", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			var bus broker
			w.drain(&bus) // the moment that is put back to: the payment, the parcel and the end are forgotten
			w.expect(workflow.Held, shipped(theOrder))
			w.refused("it was sent 0s ago, and the broker drops what it is sent twice within 10m0s: wait until then",
				workflow.Action{Kind: workflow.SendAgain, Target: command})
			w.db.Pass(10 * time.Minute)
			w.acts(workflow.Applied, workflow.SendAgain, command)
			w.drain(&bus)
			require.Equal(w, []string{"capture-payment:1", "capture-payment:1"}, bus.ids(theOrder))
			w.expect(workflow.Applied, captured(theOrder)) // as the service answered the first time
			require.Equal(w, "Completed 4", w.stands(theOrder))
			require.Zero(w, w.drain(&bus), "the parcel that arrived is not sent again")
			w.expect(workflow.Duplicate, shipped(theOrder))
			w.expect(workflow.Stale, expired(theOrder, "payment-timeout:1"))
		}},
		{"an order that a restored database does not know is placed again under the same IDs", func(w *world) {
			w.expect(workflow.Held, reserved(theOrder)) // the answer to what it is about to ask
			w.expect(workflow.Applied, placed(theOrder))
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
			require.Equal(w, []string{"reserve-inventory:1 closed", "capture-payment:1 waiting", "payment-timeout:1 waiting"}, w.emitted(theOrder))
		}},
	}
}
