package storetest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// act has an operator do something, and says what must become of it.
func (w *world) act(outcome workflow.Outcome, a workflow.Action) workflow.Decision {
	w.Helper()
	d, err := w.Act(w.Context(), a)
	require.NoError(w, err)
	require.Equal(w, outcome, d.Outcome, d.Reason)
	return d
}

// refused has an operator ask for something that is not done: it is told why,
// and nothing is written.
func (w *world) refused(reason string, a workflow.Action) {
	w.Helper()
	if a.OrderID == "" {
		a.OrderID = theOrder
	}
	if a.Reason == "" {
		a.Reason = "as agreed"
	}
	before := w.everything()
	require.Equal(w, reason, w.act(workflow.Rejected, a).Reason)
	require.Equal(w, before, w.everything())
}

// kills has the order's first command die, and says which that must be.
func (w *world) kills(id string) {
	w.Helper()
	token := fmt.Sprint("sender of ", id, w.count("journal"))
	claimed, err := w.Claim(w.Context(), token, workflow.Want{Commands: true}, 100, time.Minute)
	require.NoError(w, err)
	require.Len(w, claimed, 1)
	require.Equal(w, theOrder+":"+id, claimed[0].ID)
	require.NoError(w, w.Bury(w.Context(), token, claimed[0], "too large"))
}

// row is the outbox row of the order's command.
func (w *world) row(id string) workflow.Dispatch {
	w.Helper()
	for _, d := range w.story(theOrder).Outbox {
		if d.ID == theOrder+":"+id {
			return d
		}
	}
	require.Fail(w, "there is no "+id)
	return workflow.Dispatch{}
}

const forgets = 10 * time.Minute // after so long the broker does not remember a MessageId

func actions() []scenario {
	return []scenario{
		{"what an operator does not say, or says of nothing, is refused in words", func(w *world) {
			w.takes(placed(theOrder))
			retry := workflow.Action{Kind: workflow.RetryMessage, OrderID: theOrder, Target: "order-42/placed", Reason: "as agreed"}
			for _, c := range []struct {
				says   string
				change func(*workflow.Action)
			}{
				{`the action "Nonsense" is not known`, func(a *workflow.Action) { a.Kind = "Nonsense" }},
				{`the action "" is not known`, func(a *workflow.Action) { a.Kind = "" }},
				{`the action "Retry" is not known`, func(a *workflow.Action) { a.Kind = workflow.ActionKind(workflow.Retry) }},
				{"the order ID is missing", func(a *workflow.Action) { a.OrderID = "" }},
				{"the order ID holds ' '; letters, digits and . _ ~ - are allowed", func(a *workflow.Action) { a.OrderID = "order 42" }},
				{"the ID of the message that is meant is missing", func(a *workflow.Action) { a.Target = "" }},
				{"the ID of the message that is meant is longer than 128 characters", func(a *workflow.Action) { a.Target = strings.Repeat("x", 129) }},
				{"the MessageId of the action begins or ends with a space", func(a *workflow.Action) { a.ID = "a " }},
				{"the MessageId of the action is longer than 128 characters", func(a *workflow.Action) { a.ID = strings.Repeat("x", 129) }},
				{"the reason is missing", func(a *workflow.Action) { a.Reason = "" }},
				{"the reason is missing", func(a *workflow.Action) { a.Reason = " \n" }},
				{"no message blocks the order", func(*workflow.Action) {}},
				{"no message blocks the order", func(a *workflow.Action) { a.Kind = workflow.SkipMessage }},
				{"no message blocks the order", func(a *workflow.Action) { a.OrderID = "order-0" }},
				{"the order sent no such command", func(a *workflow.Action) { a.Kind = workflow.SendAgain }},
				{"the order sent no such command", func(a *workflow.Action) { a.Kind = workflow.DiscardCommand }},
				{"the order sent no such command", func(a *workflow.Action) {
					a.Kind, a.OrderID, a.Target = workflow.SendAgain, "order-0", "order-0:ship-order:1"
				}},
				{"the order sent no such command", func(a *workflow.Action) { // another's
					a.Kind, a.OrderID, a.Target = workflow.SendAgain, "order-0", "order-42:reserve-inventory:1"
				}},
				{"the order sent no such command", func(a *workflow.Action) {
					a.Kind, a.Target = workflow.SendAgain, "order-42:inventory-timeout:1"
				}},
				{"the order sent no such command", func(a *workflow.Action) {
					a.Kind, a.Target = workflow.DiscardCommand, "order-42:inventory-timeout:1"
				}},
				{"it is waiting to be sent", func(a *workflow.Action) {
					a.Kind, a.Target = workflow.SendAgain, "order-42:reserve-inventory:1"
				}},
				{"it is waiting to be sent", func(a *workflow.Action) {
					a.Kind, a.Target = workflow.DiscardCommand, "order-42:reserve-inventory:1"
				}},
			} {
				a := retry
				c.change(&a)
				before := w.everything()
				d := w.act(workflow.Rejected, a)
				require.Equal(w, c.says, d.Reason)
				require.Equal(w, before, w.everything(), "%s", c.says)
			}
		}},
		{"an action does not take an ID by which the order hears itself", func(w *world) {
			w.broken("order-42/placed").takes(placed(theOrder))
			for _, id := range []string{
				"order-42:inventory-timeout:1", "order-42:retry:1", "order-42:resolve-cancelled:1", "order-42:skip-message:1",
				"order-42:reserve-inventory:1:dead:1",
			} {
				w.refused(fmt.Sprintf("the MessageId of the action %q is one that the order gives to its own messages", id),
					workflow.Action{ID: id, Kind: workflow.RetryMessage, Target: "order-42/placed"})
			}
			w.act(workflow.Applied, workflow.Action{
				ID: "order-42:retry-message:1", Kind: workflow.RetryMessage, OrderID: theOrder, Target: "order-42/placed", Reason: "its own is fine",
			})
		}},
		{"only the message that blocks an order can be retried or skipped", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			for _, kind := range []workflow.ActionKind{workflow.RetryMessage, workflow.SkipMessage} {
				for _, target := range []string{"order-42/placed", "order-42/captured", "order-42/nothing", "order-42/RESERVED"} {
					w.refused("the order is blocked by order-42/reserved, not by that message", workflow.Action{Kind: kind, Target: target})
				}
			}
		}},
		{"an action is journalled with who, why and what", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder))
			w.db.Pass(time.Minute)
			d := w.act(workflow.Applied, workflow.Action{
				ID: "by-ada-1", Kind: workflow.RetryMessage, OrderID: theOrder, Target: "order-42/reserved", Reason: `it is "mended"`, Actor: "ada",
			})
			require.Equal(w, `handled again by ada: it is "mended"`, d.Reason)
			require.Equal(w, "by-ada-1", d.Message.ID)
			s := w.story(theOrder)
			require.Equal(w, workflow.Entry{
				At: w.db.Now().Truncate(time.Microsecond), MessageID: "by-ada-1", Type: "RetryMessage", ParentID: "order-42/reserved",
				Outcome: workflow.Applied, Reason: `handled again by ada: it is "mended"`,
				From: workflow.AwaitingInventory, To: workflow.AwaitingInventory, Version: 1, Emitted: []string{},
			}, s.Journal[1])
			require.JSONEq(w, `{"orderId":"order-42","messageId":"order-42/reserved","reason":"it is \"mended\"","actor":"ada"}`,
				w.text("SELECT body FROM journal WHERE message_id = 'by-ada-1'"))
			require.Equal(w, "conv-7", w.text("SELECT conversation FROM journal WHERE message_id = 'by-ada-1'"))
			require.Equal(w, "orders:order-placed:42", w.text("SELECT origin_id FROM journal WHERE message_id = 'by-ada-1'"))
		}},
		{"the same action again is a duplicate, and with other content a conflict; both leave nothing", func(w *world) {
			b := w.broken("order-42/reserved", "order-42/captured")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			a := workflow.Action{ID: "by-ada-1", Kind: workflow.RetryMessage, OrderID: theOrder, Target: "order-42/reserved", Reason: "as agreed", Actor: "ada"}
			w.broken("order-42/captured").act(workflow.Applied, a)
			require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy)
			before := w.everything()
			w.act(workflow.Duplicate, a)
			other := a
			other.Target = "order-42/captured"
			d := w.act(workflow.Rejected, other)
			require.Contains(w, d.Reason, "conflict: MessageId by-ada-1 was handled with other content")
			require.NotContains(w, d.Reason, "not expected")
			other = a
			other.Kind = workflow.SkipMessage
			w.act(workflow.Rejected, other)
			other = a
			other.Actor = "bob"
			w.act(workflow.Rejected, other)
			other.ID = "order-42/placed" // another message's
			require.Contains(w, w.act(workflow.Rejected, other).Reason, "conflict")
			require.Equal(w, before, w.everything())
			other.ID, other.Target = "", "order-42/captured"
			w.act(workflow.Applied, other)
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
		}},
		{"of two operators at once one is heard", func(w *world) {
			other := w.open(store.Options{})
			for round := range 15 {
				order := fmt.Sprint("order-", round)
				b := w.broken(order + "/reserved")
				b.takes(placed(order), reserved(order), captured(order))
				var wg sync.WaitGroup
				outcomes := make([]workflow.Decision, 4)
				for n := range outcomes {
					a := workflow.Action{
						Kind: workflow.RetryMessage, OrderID: order, Target: order + "/reserved", Reason: "as agreed", Actor: fmt.Sprint("operator ", n),
					}
					if n == 3 {
						a.Kind = workflow.SkipMessage
					}
					wg.Go(func() {
						var err error
						if outcomes[n], err = []*store.Store{w.Store, other}[n%2].Act(w.Context(), a); err != nil {
							w.Error(err)
						}
					})
				}
				wg.Wait()
				w.swept() // what gave way to others
				applied := 0
				for _, d := range outcomes {
					if d.Outcome == workflow.Applied {
						applied++
					} else {
						require.Equal(w, "no message blocks the order", d.Reason)
					}
				}
				require.Equal(w, 1, applied)
				require.Empty(w, w.lineOf(order))
				if outcomes[3].Outcome == workflow.Applied {
					require.Equal(w, "AwaitingInventory 1", w.stands(order))
				} else {
					require.Equal(w, "AwaitingShipment 3", w.stands(order))
				}
			}
		}},
		{"the same action in two processes at once is done once, and both hear so", func(w *world) {
			other := w.open(store.Options{})
			for round := range 10 {
				order := fmt.Sprint("order-", round)
				w.broken(order + "/placed").takes(placed(order))
				a := workflow.Action{ID: "by-ada", Kind: workflow.RetryMessage, OrderID: order, Target: order + "/placed", Reason: "as agreed"}
				var wg sync.WaitGroup
				var mu sync.Mutex
				outcomes := map[workflow.Outcome]int{}
				for n := range 4 {
					wg.Go(func() {
						d, err := []*store.Store{w.Store, other}[n%2].Act(w.Context(), a)
						mu.Lock()
						defer mu.Unlock()
						if outcomes[d.Outcome]++; err != nil {
							w.Error(err)
						}
					})
				}
				wg.Wait()
				require.Equal(w, map[workflow.Outcome]int{workflow.Applied: 1, workflow.Duplicate: 3}, outcomes)
				w.swept()
				require.Equal(w, "AwaitingInventory 1", w.stands(order))
			}
		}},
		{"an action that cannot be written leaves nothing, and works when asked for again", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder))
			a := workflow.Action{ID: "by-ada", Kind: workflow.SkipMessage, OrderID: theOrder, Target: "order-42/reserved", Reason: "as agreed"}
			for _, f := range []statement{{"UPDATE", "orders"}, {"INSERT", "journal"}, {"UPDATE", "journal"}} {
				before := w.everything()
				allow := w.db.Refuse(f.verb, f.table)
				_, err := w.Act(w.Context(), a)
				allow()
				require.ErrorContains(w, err, "SkipMessage order-42/reserved of order order-42")
				require.Equal(w, before, w.everything(), "%s %s", f.verb, f.table)
			}
			w.act(workflow.Applied, a)
			w.takes(sorry(theOrder, workflow.InventoryRejected))
			w.kills("cancel-order:1")
			a = workflow.Action{ID: "by-ada-2", Kind: workflow.SendAgain, OrderID: theOrder, Target: "order-42:cancel-order:1", Reason: "as agreed"}
			for _, f := range []statement{{"UPDATE", "orders"}, {"INSERT", "journal"}, {"UPDATE", "outbox"}} {
				before := w.everything()
				allow := w.db.Refuse(f.verb, f.table)
				_, err := w.Act(w.Context(), a)
				allow()
				require.ErrorContains(w, err, "SendAgain order-42:cancel-order:1 of order order-42")
				require.Equal(w, before, w.everything(), "%s %s", f.verb, f.table)
			}
			w.act(workflow.Applied, a)
		}},
		{"a dead command is sent again under its own MessageId, and the order's problem is gone", func(w *world) {
			w.takes(placed(theOrder))
			dead := w.row("reserve-inventory:1")
			w.kills("reserve-inventory:1")
			require.Equal(w, "order-42:reserve-inventory:1 could not be sent: too large", w.story(theOrder).Order.Problem)
			since := w.story(theOrder).Since
			w.db.Pass(time.Hour)
			var wakes atomic.Int64
			s := w.open(store.Options{Wake: func() { wakes.Add(1) }})
			(&world{T: w.T, db: w.db, Store: s}).acts(workflow.Applied, workflow.SendAgain, "order-42:reserve-inventory:1")
			require.EqualValues(w, 1, wakes.Load())
			row := w.row("reserve-inventory:1")
			require.Equal(w, workflow.DispatchWaiting, row.State)
			require.Equal(w, w.db.Now().Truncate(time.Microsecond), row.NextAttemptAt)
			require.Equal(w, []int{0, 1}, []int{row.Refusals, row.Deaths})
			story := w.story(theOrder)
			require.Empty(w, story.Order.Problem)
			require.Equal(w, since, story.Since)
			require.EqualValues(w, 2, story.Order.Version, "no message of the process was applied")
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42:reserve-inventory:1:dead:1 Applied", "order-42:send-again:2 Applied",
			}, w.journal(theOrder))
			backlog, err := w.Backlog(w.Context())
			require.NoError(w, err)
			require.Zero(w, backlog.Dead)
			require.Equal(w, 1, backlog.Waiting)
			w.replays(theOrder)

			var bus broker
			require.Equal(w, 1, w.drain(&bus))
			require.Equal(w, []workflow.Outgoing{dead.Outgoing}, bus.sent)
			w.expect(workflow.Applied, reserved(theOrder))
			require.Equal(w, "AwaitingPayment 3", w.stands(theOrder))
		}},
		{"what is sent again goes to the end of its order's line", func(w *world) {
			w.lineOfThree(theOrder) // cancel-order, refund-payment, release-inventory
			w.kills("cancel-order:1")
			w.acts(workflow.Applied, workflow.SendAgain, "order-42:cancel-order:1")
			var bus broker
			w.drain(&bus)
			require.Equal(w, []string{"refund-payment:1", "release-inventory:1", "cancel-order:1"}, bus.ids(theOrder))
			w.replays(theOrder)
		}},
		{"a command that is sent again may die again, which is another death", func(w *world) {
			w.takes(placed(theOrder))
			for n := range 3 {
				w.kills("reserve-inventory:1")
				require.Equal(w, n+1, w.row("reserve-inventory:1").Deaths)
				require.NotEmpty(w, w.story(theOrder).Order.Problem)
				w.acts(workflow.Applied, workflow.SendAgain, "order-42:reserve-inventory:1")
			}
			require.Equal(w, []string{
				"order-42/placed Applied",
				"order-42:reserve-inventory:1:dead:1 Applied", "order-42:send-again:2 Applied",
				"order-42:reserve-inventory:1:dead:2 Applied", "order-42:send-again:4 Applied",
				"order-42:reserve-inventory:1:dead:3 Applied", "order-42:send-again:6 Applied",
			}, w.journal(theOrder))
			w.replays(theOrder)
		}},
		{"when two commands are dead and one is sent again, the problem with the other stays", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			w.takes(sorry(theOrder, workflow.PaymentFailed), captured(theOrder)) // two undos in flight
			w.kills("release-inventory:1")
			w.kills("refund-payment:1")
			require.Equal(w, "order-42:refund-payment:1 could not be sent: too large", w.story(theOrder).Order.Problem)
			w.acts(workflow.Applied, workflow.SendAgain, "order-42:release-inventory:1")
			require.Equal(w, "order-42:refund-payment:1 could not be sent: too large", w.story(theOrder).Order.Problem)
			w.replays(theOrder)
			w.acts(workflow.Applied, workflow.SendAgain, "order-42:refund-payment:1")
			require.Empty(w, w.story(theOrder).Order.Problem)
			w.replays(theOrder)
		}},
		{"a command that was sent and not answered is sent again once the broker has forgotten it", func(w *world) {
			w.takes(placed(theOrder))
			var bus broker
			w.drain(&bus)
			a := workflow.Action{Kind: workflow.SendAgain, Target: "order-42:reserve-inventory:1"}
			w.refused("it was sent 0s ago, and the broker drops what it is sent twice within 10m0s: wait until then", a)
			w.db.Pass(forgets - time.Microsecond)
			w.refused("it was sent 10m0s ago, and the broker drops what it is sent twice within 10m0s: wait until then", a)
			w.db.Pass(time.Microsecond)
			w.acts(workflow.Applied, workflow.SendAgain, a.Target)
			w.refused("it is waiting to be sent", a)
			require.Equal(w, 1, w.drain(&bus))
			require.Equal(w, []string{"reserve-inventory:1", "reserve-inventory:1"}, bus.ids(theOrder))
			require.Equal(w, bus.sent[0], bus.sent[1])
			w.refused("it was sent 0s ago, and the broker drops what it is sent twice within 10m0s: wait until then", a)
			w.replays(theOrder)
		}},
		{"how long the broker remembers can be set", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			s := &world{T: w.T, db: w.db, Store: w.open(store.Options{DuplicateDetection: time.Hour})}
			w.db.Pass(forgets)
			s.refused("it was sent 10m0s ago, and the broker drops what it is sent twice within 1h0m0s: wait until then",
				workflow.Action{Kind: workflow.SendAgain, Target: "order-42:reserve-inventory:1"})
			w.db.Pass(time.Hour - forgets)
			s.acts(workflow.Applied, workflow.SendAgain, "order-42:reserve-inventory:1")
		}},
		{"what is not awaited any more is never sent again, and can only be discarded", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			w.takes(reserved(theOrder))
			w.db.Pass(forgets)
			w.refused("its answer is not awaited any more: it can only be discarded",
				workflow.Action{Kind: workflow.SendAgain, Target: "order-42:reserve-inventory:1"})
			w.acts(workflow.Applied, workflow.DiscardCommand, "order-42:reserve-inventory:1")
			require.Equal(w, "reserve-inventory:1 closed", w.emitted(theOrder)[0])
			for _, kind := range []workflow.ActionKind{workflow.SendAgain, workflow.DiscardCommand} {
				w.refused("it is closed", workflow.Action{Kind: kind, Target: "order-42:reserve-inventory:1"})
			}
			w.replays(theOrder)
		}},
		{"a dead command is closed with the transition that no longer awaits it", func(w *world) {
			w.takes(placed(theOrder))
			w.kills("reserve-inventory:1")
			w.takes(sorry(theOrder, workflow.CancellationRequested))
			require.Equal(w, "reserve-inventory:1 closed", w.emitted(theOrder)[0])
			w.refused("it is closed", workflow.Action{Kind: workflow.SendAgain, Target: "order-42:reserve-inventory:1"})
		}},
		{"a dead command is discarded: it is closed, for the record, and its deadline goes on", func(w *world) {
			w.takes(placed(theOrder))
			w.kills("reserve-inventory:1")
			due := w.story(theOrder).DeadlineAt
			w.db.Pass(time.Minute)
			d := w.acts(workflow.Applied, workflow.DiscardCommand, "order-42:reserve-inventory:1")
			require.Equal(w, "discarded by ada: as agreed", d.Reason)
			row := w.row("reserve-inventory:1")
			require.Equal(w, workflow.DispatchClosed, row.State)
			require.Equal(w, w.db.Now().Truncate(time.Microsecond), row.ClosedAt)
			require.Equal(w, due, w.story(theOrder).DeadlineAt)
			require.Zero(w, w.drain(&broker{}))
			backlog, err := w.Backlog(w.Context())
			require.NoError(w, err)
			require.Zero(w, backlog.Dead)
			require.Contains(w, w.story(theOrder).Order.Problem, "could not be sent", "which is still so")
			w.refused("it is closed", workflow.Action{Kind: workflow.SendAgain, Target: "order-42:reserve-inventory:1"})
			w.replays(theOrder)
		}},
		{"a command that was sent and not answered is discarded, at any time", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			w.acts(workflow.Applied, workflow.DiscardCommand, "order-42:reserve-inventory:1")
			require.Equal(w, "reserve-inventory:1 closed", w.emitted(theOrder)[0])
			w.expect(workflow.Applied, reserved(theOrder))
		}},
		{"a command in a sender's hands is neither sent again nor discarded", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("t", time.Minute)
			for _, kind := range []workflow.ActionKind{workflow.SendAgain, workflow.DiscardCommand} {
				w.refused("it is waiting to be sent", workflow.Action{Kind: kind, Target: claimed[0].ID})
			}
		}},
		{"a dead command's late owner changes nothing once it is sent again", func(w *world) {
			w.takes(placed(theOrder))
			claimed, _ := w.claim("late", time.Hour)
			require.NoError(w, w.Bury(w.Context(), "late", claimed[0], "too large"))
			w.acts(workflow.Applied, workflow.SendAgain, claimed[0].ID)
			before := w.everything()
			w.mark("late", claimed, workflow.Mark{Sent: true})
			require.NoError(w, w.Bury(w.Context(), "late", claimed[0], "too large"))
			require.Equal(w, before, w.everything())
		}},
		{"a command of an order whose state cannot be read is not sent again, for what it is worth is not known", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			w.db.Pass(forgets)
			w.tamper(`UPDATE orders SET state = '{"schema":1,"order":{"amount":"much"}}'`)
			before := w.everything()
			d := w.acts(workflow.Rejected, workflow.SendAgain, "order-42:reserve-inventory:1")
			require.Contains(w, d.Reason, "read the state of order order-42")
			require.Equal(w, before, w.everything())
			w.acts(workflow.Applied, workflow.DiscardCommand, "order-42:reserve-inventory:1")
		}},
		{"of an order that a newer program wrote nothing is done", func(w *world) {
			b := w.broken("order-42/again")
			b.takes(placed(theOrder), as(placed(theOrder), "order-42/again"), placed("order-43"))
			w.tamper(`UPDATE orders SET state = REPLACE(state, '"schema":1', '"schema":2')`)
			before := w.everything()
			for _, a := range []workflow.Action{
				{Kind: workflow.RetryMessage, OrderID: theOrder, Target: "order-42/again", Reason: "as agreed"},
				{Kind: workflow.FireDeadline, OrderID: "order-43", Target: "order-43:inventory-timeout:1", Reason: "as agreed"},
			} {
				_, err := w.Act(w.Context(), a)
				require.ErrorIs(w, err, workflow.ErrTransient, a.Kind)
			}
			require.Equal(w, before, w.everything())
		}},
		{"two who send a command again at once send it once", func(w *world) {
			other := w.open(store.Options{})
			for round := range 10 {
				order := fmt.Sprint("order-", round)
				id := order + ":reserve-inventory:1"
				w.takes(placed(order))
				w.drain(&broker{})
				w.db.Pass(forgets)
				var wg sync.WaitGroup
				outcomes := make([]workflow.Decision, 2)
				for n, s := range []*store.Store{w.Store, other} {
					wg.Go(func() {
						var err error
						outcomes[n], err = s.Act(w.Context(), workflow.Action{Kind: workflow.SendAgain, OrderID: order, Target: id, Reason: "as agreed"})
						if err != nil {
							w.Error(err)
						}
					})
				}
				wg.Wait()
				require.ElementsMatch(w, []workflow.Outcome{workflow.Applied, workflow.Rejected}, []workflow.Outcome{outcomes[0].Outcome, outcomes[1].Outcome})
				var bus broker
				require.Equal(w, 1, w.drain(&bus))
			}
		}},
		{"a command is sent again while its answer comes: it is sent or closed, never both lost and awaited", func(w *world) {
			other := w.open(store.Options{})
			for round := range 10 {
				order := fmt.Sprint("order-", round)
				id := order + ":reserve-inventory:1"
				w.takes(placed(order))
				w.drain(&broker{})
				w.db.Pass(forgets)
				var wg sync.WaitGroup
				wg.Go(func() {
					d, err := w.Act(w.Context(), workflow.Action{Kind: workflow.SendAgain, OrderID: order, Target: id, Reason: "as agreed"})
					if err != nil || d.Outcome == workflow.Rejected && d.Reason != "its answer is not awaited any more: it can only be discarded" {
						w.Errorf("%v: %s", err, d.Reason)
					}
				})
				wg.Go(func() {
					if _, err := other.Handle(w.Context(), reserved(order)); err != nil {
						w.Error(err)
					}
				})
				wg.Wait()
				require.Equal(w, "AwaitingPayment 2", w.stands(order))
				require.NotContains(w, w.emitted(order), "reserve-inventory:1 waiting")
			}
		}},
	}
}
