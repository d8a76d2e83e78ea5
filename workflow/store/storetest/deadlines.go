package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func deadlines() []scenario {
	return []scenario{
		{"a deadline is handed over shortly before it is due, not earlier, and says when it is due", func(w *world) {
			w.takes(placed(theOrder))
			due := w.story(theOrder).DeadlineAt
			var bus broker
			w.drain(&bus)
			w.db.Pass(24*time.Hour - 2*time.Minute - time.Second)
			require.Zero(w, w.drain(&bus))
			w.db.Pass(time.Second)
			require.Equal(w, 1, w.drain(&bus))
			sent := bus.sent[1]
			require.Equal(w, "order-42:inventory-timeout:1", sent.ID)
			require.Equal(w, workflow.InventoryDeadlineExpired, sent.Type)
			require.Equal(w, workflow.InventoryTimeout, sent.Purpose)
			require.Equal(w, due, sent.DueAt)
			var body struct {
				OrderID, TimeoutID string
				DueAt              time.Time
			}
			require.NoError(w, json.Unmarshal(sent.Body, &body))
			require.Equal(w, theOrder, body.OrderID)
			require.Equal(w, sent.ID, body.TimeoutID)
			require.Equal(w, due, body.DueAt)
			m, err := workflow.Envelope{ID: sent.ID, Type: sent.Type, OrderID: sent.OrderID, Body: sent.Body}.Decode()
			require.NoError(w, err, "it is a sound message to the order itself")
			w.db.Pass(2 * time.Minute)
			w.expect(workflow.Applied, m)
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
		}},
		{"how long deadlines are, and how long before they are handed over, can be set", func(w *world) {
			s := w.open(store.Options{
				Deadlines: map[workflow.Purpose]time.Duration{workflow.InventoryTimeout: time.Hour}, SendAhead: 10 * time.Minute,
			})
			_, err := s.Handle(w.Context(), placed(theOrder))
			require.NoError(w, err)
			require.Equal(w, w.db.Now().Add(time.Hour).Truncate(time.Microsecond), w.story(theOrder).DeadlineAt)
			var bus broker
			w.drain(&bus)
			w.db.Pass(50 * time.Minute)
			require.Equal(w, 1, w.drain(&bus))
		}},
		{"a deadline that became due while nothing ran is sent from the database alone", func(w *world) {
			w.takes(placed(theOrder))
			require.NoError(w, w.Close())
			w.db.Pass(40 * 24 * time.Hour)
			w.Store = w.open(store.Options{})
			var bus broker
			w.drain(&bus)
			require.Equal(w, []string{"inventory-timeout:1", "reserve-inventory:1"}, sorted(bus.ids(theOrder)))
		}},
		{"the armed deadline backs the order out once, and its copies are stale", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			w.db.Pass(24 * time.Hour)
			w.expect(workflow.Applied, expired(theOrder, "payment-timeout:1"))
			require.Equal(w, "Compensating 3", w.stands(theOrder))
			w.expect(workflow.Stale, as(expired(theOrder, "payment-timeout:1"), "copy"))
			w.expect(workflow.Duplicate, expired(theOrder, "payment-timeout:1"))
			require.Len(w, w.story(theOrder).Outbox, 6)
		}},
		{"after the end a deadline is stale", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder), shipped(theOrder))
			w.expect(workflow.Stale, expired(theOrder, "shipment-timeout:1"))
			require.Equal(w, "Completed 4", w.stands(theOrder))
		}},
		{"the first generation is stale once the second is armed, and the second works", func(w *world) {
			w.takes(placed(theOrder))
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1")) // not due: armed again
			w.db.Pass(24 * time.Hour)
			w.expect(workflow.Stale, as(expired(theOrder, "inventory-timeout:1"), "copy"))
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:2"))
			require.Equal(w, workflow.Cancelled, w.story(theOrder).Order.Status)
		}},
		{"a deadline that was heard of before it was armed is heard once it is armed", func(w *world) {
			stray := expired(theOrder, "inventory-timeout:1") // as after the database was put back to an earlier state
			w.expect(workflow.Stale, stray)
			w.takes(placed(theOrder))
			armed := stray.Envelope // as its row says it
			armed.Body = workflow.DeadlineBody(theOrder, stray.ID, w.story(theOrder).DeadlineAt)
			real, err := armed.Decode()
			require.NoError(w, err)
			w.db.Pass(24 * time.Hour)
			w.expect(workflow.Applied, real)
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
			w.expect(workflow.Duplicate, real)
			require.Equal(w, []string{
				stray.ID + " Rejected", "order-42/placed Applied", stray.ID + " Applied",
			}, w.journal(theOrder), "the stray one stays in the trail and gives up its ID")
		}},
		{"a deadline that comes before it is due is armed again for the same time", func(w *world) {
			w.takes(placed(theOrder))
			due := w.story(theOrder).DeadlineAt
			w.db.Pass(23 * time.Hour)
			d := w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1"))
			require.Equal(w, []workflow.Status{workflow.AwaitingInventory, workflow.AwaitingInventory}, []workflow.Status{d.From, d.To})
			require.Equal(w, []string{"reserve-inventory:1 waiting", "inventory-timeout:1 closed", "inventory-timeout:2 waiting"}, w.emitted(theOrder))
			require.Equal(w, due, w.story(theOrder).DeadlineAt)
			require.Equal(w, due, w.story(theOrder).Outbox[2].DueAt)
			w.expect(workflow.Duplicate, expired(theOrder, "inventory-timeout:1"))
			w.db.Pass(time.Hour)
			var bus broker
			w.drain(&bus)
			require.Contains(w, bus.ids(theOrder), "inventory-timeout:2")
			require.NotContains(w, bus.ids(theOrder), "inventory-timeout:1")
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:2"))
			require.Equal(w, "Cancelled 3", w.stands(theOrder))
		}},
		{"what a deadline says of itself does not make it due", func(w *world) {
			w.takes(placed(theOrder))
			liar := expired(theOrder, "inventory-timeout:1") // it says it was due long ago
			require.True(w, liar.Facts.DueAt.Before(w.db.Now()))
			w.expect(workflow.Applied, liar)
			require.Equal(w, "AwaitingInventory 2", w.stands(theOrder))
		}},
		{"a deadline is due to the microsecond by the database's clock", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24*time.Hour - time.Microsecond)
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1"))
			require.Equal(w, workflow.AwaitingInventory, w.story(theOrder).Order.Status)
			w.db.Pass(time.Microsecond)
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:2"))
			require.Equal(w, workflow.Cancelled, w.story(theOrder).Order.Status)
		}},
		{"the deadline first and then the payment: one refund, at once, and never revived", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder))
			w.db.Pass(24 * time.Hour)
			w.takes(expired(theOrder, "payment-timeout:1"))
			d := w.expect(workflow.Applied, captured(theOrder))
			require.Equal(w, "order-42:refund-payment:1", d.Command.ID, "although a release is in flight")
			require.Equal(w, "Compensating 4", w.stands(theOrder))
			require.Equal(w, []string{
				"release-inventory:1 waiting", "compensation-timeout:1 closed", "refund-payment:1 waiting", "compensation-timeout:2 waiting",
			}, w.emitted(theOrder)[4:])
		}},
		{"of a purpose there is never more than one armed deadline", func(w *world) {
			w.takes(placed(theOrder))
			for n := 1; n <= 5; n++ {
				w.takes(expired(theOrder, fmt.Sprint("inventory-timeout:", n)))
				require.Equal(w, 1, w.count("outbox WHERE purpose IS NOT NULL AND state <> 'closed'"))
			}
			_, err := w.db.SQL.ExecContext(w.Context(), "UPDATE outbox SET state = 'waiting' WHERE message_id = 'order-42:inventory-timeout:1'")
			require.Error(w, err, "the database itself does not allow it")
		}},
		{"a deadline that was cancelled before it was handed over is never sent", func(w *world) {
			w.takes(placed(theOrder), reserved(theOrder), captured(theOrder), shipped(theOrder))
			w.db.Pass(30 * 24 * time.Hour)
			require.Zero(w, w.drain(&broker{}))
		}},
		{"a deadline that was cancelled while it was handed over stays cancelled, with the broker's number", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			w.db.Pass(24 * time.Hour)
			claimed, ids := w.claim("sender", time.Minute)
			require.Equal(w, []string{"order-42:inventory-timeout:1"}, ids)
			w.takes(reserved(theOrder))
			w.mark("sender", claimed, workflow.Mark{Sent: true, Sequence: 77})
			require.Equal(w, "inventory-timeout:1 closed", w.emitted(theOrder)[1])
			require.Equal(w, 77, w.number("SELECT broker_sequence FROM outbox WHERE message_id = 'order-42:inventory-timeout:1'"))
			w.expect(workflow.Stale, expired(theOrder, "inventory-timeout:1"))
		}},
		{"a deadline that was sent already is cancelled too", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24 * time.Hour)
			w.drain(&broker{})
			require.Equal(w, []string{"reserve-inventory:1 sent", "inventory-timeout:1 sent"}, w.emitted(theOrder))
			w.takes(reserved(theOrder))
			require.Equal(w, []string{"reserve-inventory:1 sent", "inventory-timeout:1 closed"}, w.emitted(theOrder)[:2])
			require.Zero(w, w.drain(&broker{refuse: func(m workflow.Outgoing) error {
				if m.Purpose != "" {
					w.Errorf("%s was sent", m.ID)
				}
				return errRefused
			}}))
		}},
		{"a command is not held back by a deadline ahead, nor a deadline by a stuck command", func(w *world) {
			w.takes(placed(theOrder))
			bus := broker{refuse: func(m workflow.Outgoing) error {
				if m.Purpose == "" {
					return errRefused
				}
				return nil
			}}
			w.drain(&bus)
			w.db.Pass(24 * time.Hour)
			w.drain(&bus)
			require.Equal(w, []string{"inventory-timeout:1"}, bus.ids(theOrder))
			bus.refuse = nil
			w.takes(placed("order-43"))
			w.drain(&bus)
			require.Equal(w, []string{"reserve-inventory:1"}, bus.ids("order-43"))
		}},
		{"a deadline row that cannot be sent is tried for ever", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			w.db.Pass(24 * time.Hour)
			down := broker{refuse: func(workflow.Outgoing) error { return workflow.ErrMessageRefused }}
			for range 15 {
				w.drain(&down)
				w.db.Pass(time.Hour)
			}
			require.Equal(w, 15, w.story(theOrder).Outbox[1].Attempts)
			require.Equal(w, 1, w.drain(&broker{}))
		}},
		{"a deadline that is armed again after it was handed over is one unsettled row, of the next generation", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24*time.Hour - time.Minute)
			w.handsOver(theOrder, 7)
			due := w.story(theOrder).DeadlineAt
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1")) // the broker's clock is ahead
			require.Equal(w, []string{"inventory-timeout:1 recall", "inventory-timeout:2 waiting"}, w.emitted(theOrder)[1:])
			require.Equal(w, due, w.story(theOrder).DeadlineAt)
			_, ids := w.claim("t", time.Minute)
			require.Equal(w, []string{"order-42:reserve-inventory:1"}, ids, "handed over now, it would come too early again, and again")
			w.db.Pass(time.Minute)
			_, ids = w.claim("u", time.Minute)
			require.Contains(w, ids, "order-42:inventory-timeout:2")
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:2"))
			require.Equal(w, "Cancelled 3", w.stands(theOrder))
		}},
		{"a deadline that is cancelled before anybody took it is closed, which can be told from sent", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(time.Hour)
			w.takes(reserved(theOrder))
			s := w.story(theOrder)
			d := s.Outbox[1]
			require.Equal(w, []any{"closed", 0}, []any{d.State, d.Attempts})
			require.Zero(w, d.SentAt)
			require.Equal(w, s.UpdatedAt, d.ClosedAt)
			require.Zero(w, s.Outbox[2].ClosedAt, "what is wanted is not closed")
			require.Empty(w, w.recalls())
			w.db.Pass(23 * time.Hour)
			_, ids := w.claim("t", time.Minute)
			require.NotContains(w, ids, "order-42:inventory-timeout:1")
		}},
		{"a deadline that is cancelled in a sender's hands is taken back from the broker if it got there, else it stays closed", func(w *world) {
			for n, c := range []struct {
				mark    workflow.Mark
				state   string
				recalls int
			}{
				{workflow.Mark{Sent: true, Sequence: 77}, "recall", 1},
				{workflow.Mark{Sent: true}, "recall", 0}, // the broker gave it no number: it can only be let go
				{workflow.Mark{Error: "down"}, "closed", 0},
				{workflow.Mark{GiveBack: true}, "closed", 0},
			} {
				order := fmt.Sprint("order-", n)
				w.takes(placed(order))
				w.db.Pass(24*time.Hour - 2*time.Minute)
				claimed, err := w.Claim(w.Context(), order, workflow.Want{Deadlines: true}, 100, time.Minute)
				require.NoError(w, err)
				claimed = []workflow.Claimed{of(claimed, order+":inventory-timeout:1")}
				w.takes(reserved(order))
				closed := w.story(order).Outbox[1]
				require.Equal(w, "closed", closed.State)
				w.db.Pass(time.Second)
				w.mark(order, claimed, c.mark)
				d := w.story(order).Outbox[1]
				require.Equal(w, c.state, d.State)
				require.Equal(w, closed.ClosedAt, d.ClosedAt, "since when nobody wants it")
				require.Equal(w, c.mark.Sent, !d.SentAt.IsZero())
				require.Len(w, w.recalls(), c.recalls)
				w.sweeps()
				require.Equal(w, c.recalls > 0, w.story(order).Outbox[1].State == "recall", "what cannot be taken back is let go")
				w.db.Pass(2 * time.Minute) // it is due
				require.NotContains(w, w.wants("next "+order, workflow.Want{Deadlines: true}, 100), claimed[0].ID)
				require.Empty(w, w.recalls(), "there is nothing left to be taken back")
				w.sweeps()
				require.Equal(w, "closed", w.story(order).Outbox[1].State)
			}
		}},
		{"a deadline that is cancelled after it was handed over is listed to be taken back until it is due, by when it is due", func(w *world) {
			for n := range 3 {
				w.takes(placed(fmt.Sprint("order-", n)))
				w.db.Pass(10 * time.Second)
			}
			w.db.Pass(24*time.Hour - 90*time.Second)
			for n := range 3 {
				w.handsOver(fmt.Sprint("order-", n), int64(70+n))
			}
			require.Empty(w, w.recalls(), "they are wanted")
			for n := range 3 {
				order := fmt.Sprint("order-", 2-n)
				w.takes(reserved(order))
				require.Equal(w, "recall", w.story(order).Outbox[1].State)
			}
			all := w.recalls()
			require.Len(w, all, 3)
			for n, c := range all {
				require.Equal(w, workflow.Recall{OrderID: fmt.Sprint("order-", n), Seq: c.Seq, Sequence: int64(70 + n)}, c)
			}
			few, err := w.Recalls(w.Context(), 2)
			require.NoError(w, err)
			require.Equal(w, all[:2], few)

			require.NoError(w, w.Recalled(w.Context(), all[1:2]))
			require.Equal(w, []workflow.Recall{all[0], all[2]}, w.recalls())
			require.Equal(w, "closed", w.story("order-1").Outbox[1].State)
			w.changesNothing(func() { require.NoError(w, w.Recalled(w.Context(), all[1:2])) }) // and again
			w.changesNothing(func() { require.NoError(w, w.Recalled(w.Context(), nil)) })

			w.db.Pass(60 * time.Second) // order-0's is due
			require.Equal(w, []workflow.Recall{all[2]}, w.recalls())
			require.Equal(w, "recall", w.story("order-0").Outbox[1].State)
			w.sweeps()
			require.Equal(w, []string{"closed", "closed", "recall"}, []string{
				w.story("order-0").Outbox[1].State, w.story("order-1").Outbox[1].State, w.story("order-2").Outbox[1].State,
			})
			w.expect(workflow.Stale, expired("order-0", "inventory-timeout:1")) // a late one is harmless
		}},
		{"what is not to be taken back cannot be marked as if it were", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24*time.Hour - time.Minute)
			w.changesNothing(func() {
				for seq := range int64(3) {
					require.NoError(w, w.Recalled(w.Context(), []workflow.Recall{{OrderID: theOrder, Seq: 1000 + seq, Sequence: 7}}))
				}
			})
			w.handsOver(theOrder, 7)
			w.changesNothing(func() {
				require.NoError(w, w.Recalled(w.Context(), []workflow.Recall{{OrderID: theOrder, Seq: 1001, Sequence: 7}}))
			})
		}},
		{"a deadline that is cancelled twice was cancelled the first time, and whoever comes second is told", func(w *world) {
			w.takes(placed(theOrder))
			w.db.Pass(24*time.Hour - time.Minute)
			w.handsOver(theOrder, 7)
			w.takes(reserved(theOrder))
			before, recalls := w.story(theOrder), w.recalls()
			w.db.Pass(time.Second)
			for _, c := range []struct {
				again workflow.Message
				says  string
			}{
				{as(reserved(theOrder), "again"), `goods "reservation-9001" is known already`},                     // what cancelled it
				{expired(theOrder, "inventory-timeout:1"), `deadline "order-42:inventory-timeout:1" is not armed`}, // and itself
			} {
				d := w.expect(workflow.Stale, c.again)
				require.Equal(w, c.says, d.Reason)
				s := w.story(theOrder)
				require.Equal(w, c.says, s.Journal[len(s.Journal)-1].Reason)
				require.Equal(w, before.Outbox, s.Outbox, "since when, and what is to be taken back, stay as they were")
				require.Equal(w, before.Order, s.Order)
				require.Equal(w, recalls, w.recalls())
			}
			w.expect(workflow.Duplicate, reserved(theOrder))
		}},
		{"of a deadline that is cancelled and taken to be sent at once, by two processes, one of the two becomes true", func(w *world) {
			const rounds = 120
			other := w.open(store.Options{})
			for n := range rounds {
				w.takes(placed(fmt.Sprint("order-", n)))
			}
			w.db.Pass(24*time.Hour - time.Minute)
			won := 0
			for n := range rounds {
				order := fmt.Sprint("order-", n)
				var sent bool
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := w.Handle(w.Context(), reserved(order)); err != nil {
						w.Errorf("%s: %v", order, err)
					}
				})
				wg.Go(func() {
					claimed, err := other.Claim(w.Context(), order, workflow.Want{Deadlines: true}, rounds, time.Minute)
					if err != nil {
						w.Errorf("%s: %v", order, err)
					}
					var marks []workflow.Mark
					for _, c := range claimed {
						m := workflow.Mark{OrderID: c.OrderID, Seq: c.Seq, GiveBack: true}
						if c.OrderID == order {
							m.GiveBack, m.Sent, m.Sequence, sent = false, true, int64(n+1), true
						}
						marks = append(marks, m)
					}
					if err := other.Mark(w.Context(), order, marks); err != nil {
						w.Errorf("%s: %v", order, err)
					}
				})
				wg.Wait()
				d := w.story(order).Outbox[1]
				require.NotZero(w, d.ClosedAt)
				if sent {
					won++
					require.Equal(w, []any{"recall", 1}, []any{d.State, d.Attempts}, order)
					require.NotZero(w, d.SentAt)
				} else {
					require.Equal(w, []any{"closed", 0}, []any{d.State, d.Attempts}, order)
					require.Zero(w, d.SentAt)
				}
				require.Equal(w, []string{"capture-payment:1 waiting", "payment-timeout:1 waiting"}, w.emitted(order)[2:])
			}
			require.Len(w, w.recalls(), won)
			require.Zero(w, w.number("SELECT COUNT(*) FROM outbox WHERE token IS NOT NULL"), "nothing is left in anyone's hands")
			w.Logf("dispatch was first %d times of %d", won, rounds)
		}},
		{"deadlines far ahead are no lag and nothing that waits, until they come near", func(w *world) {
			s := w.open(store.Options{Deadlines: map[workflow.Purpose]time.Duration{workflow.InventoryTimeout: 30 * 24 * time.Hour}})
			for n := range 3 {
				_, err := s.Handle(w.Context(), placed(fmt.Sprint("order-", n)))
				require.NoError(w, err)
			}
			quiet := func() {
				w.Helper()
				pending, err := w.Pending(w.Context())
				require.NoError(w, err)
				require.Zero(w, pending)
				require.Equal(w, workflow.Backlog{}, w.backlog())
			}
			claimed, _ := w.claim("commands", time.Minute)
			w.mark("commands", claimed, workflow.Mark{Sent: true})
			quiet()
			w.db.Pass(30*24*time.Hour - 2*time.Minute - time.Microsecond)
			quiet()
			w.db.Pass(time.Microsecond)
			require.Equal(w, workflow.Backlog{Waiting: 3}, w.backlog(), "they wait, and are not late")
			w.db.Pass(7 * time.Minute)
			require.Equal(w, workflow.Backlog{Waiting: 3, Lag: 5 * time.Minute}, w.backlog(), "counted from when they are due")
			pending, err := w.Pending(w.Context())
			require.NoError(w, err)
			require.Equal(w, 3, pending)
		}},
		{"what is not done is counted, each thing as what it is", func(w *world) {
			require.Equal(w, workflow.Backlog{}, w.backlog())
			b := w.broken("blocked/placed")
			w.takes(placed("dead"), placed("overdue"), placed("tired"), placed("claimed"), captured("early"), captured("early"), placed("late"), captured("late"))
			w.dies("dead")
			w.db.Pass(time.Second)
			for _, m := range []workflow.Message{placed("blocked"), reserved("blocked"), captured("blocked")} {
				b.expect(workflow.Blocked, m)
			}
			require.Equal(w, workflow.Backlog{Waiting: 4, Lag: time.Second, Dead: 1, Blocked: 1, Early: 2}, w.backlog())

			claimed, _ := w.claim("t", 9*time.Minute)
			for _, c := range claimed {
				switch c.OrderID {
				case "tired":
					w.mark("t", []workflow.Claimed{c}, workflow.Mark{Error: "down", RetryAfter: 5 * time.Minute})
				case "overdue", "late":
					w.mark("t", []workflow.Claimed{c}, workflow.Mark{Sent: true})
				}
			}
			want := workflow.Backlog{Waiting: 2, Lag: time.Second, Dead: 1, Blocked: 1, Early: 2}
			require.Equal(w, want, w.backlog(), "what is tried again later, or in a sender's hands, still waits")
			w.db.Pass(4 * time.Minute)
			want.Lag += 4 * time.Minute
			require.Equal(w, want, w.backlog())

			w.db.Pass(24*time.Hour - 6*time.Minute)
			for _, order := range []string{"overdue", "tired"} {
				claimed, err := w.Claim(w.Context(), order, workflow.Want{Deadlines: true}, 100, time.Minute)
				require.NoError(w, err)
				for _, c := range claimed {
					m := workflow.Mark{Sent: true}
					if c.OrderID == "tired" {
						m = workflow.Mark{Error: "down", RetryAfter: 5 * time.Minute}
					}
					w.mark(order, []workflow.Claimed{c}, m)
				}
			}
			// Two commands and the deadline that could not be handed over wait.
			w.db.Pass(3*time.Minute - 2*time.Second)
			want = workflow.Backlog{Waiting: 3, Lag: 24*time.Hour + time.Minute - time.Second, Dead: 1, Blocked: 1, Early: 2}
			require.Equal(w, want, w.backlog(), "a deadline is given a minute to come")
			w.db.Pass(time.Second)
			want.Lag, want.Overdue = want.Lag+time.Second, 4
			require.Equal(w, want, w.backlog())
			w.expect(workflow.Applied, expired("overdue", "inventory-timeout:1"))
			want.Overdue, want.Waiting = 3, 4 // its order is cancelled
			require.Equal(w, want, w.backlog())
			b = w.broken("late:inventory-timeout:1")
			b.expect(workflow.Blocked, expired("late", "inventory-timeout:1"))
			want.Overdue, want.Blocked = 2, 2
			require.Equal(w, want, w.backlog(), "one that waits in its order's line did come")
		}},
	}
}

// handsOver has the broker take an order's deadline, under a number.
func (w *world) handsOver(order string, sequence int64) {
	w.Helper()
	token := fmt.Sprint("of ", order, " at ", w.db.Now())
	claimed, err := w.Claim(w.Context(), token, workflow.Want{Deadlines: true}, 100, time.Minute)
	require.NoError(w, err)
	found := false
	for _, c := range claimed {
		m := workflow.Mark{GiveBack: true}
		if c.OrderID == order {
			m, found = workflow.Mark{Sent: true, Sequence: sequence}, true
		}
		w.mark(token, []workflow.Claimed{c}, m)
	}
	require.True(w, found, "no deadline of %s is to be handed over", order)
}

// recalls lists what is to be taken back from the broker.
func (w *world) recalls() []workflow.Recall {
	w.Helper()
	all, err := w.Recalls(w.Context(), 1000)
	require.NoError(w, err)
	return all
}
