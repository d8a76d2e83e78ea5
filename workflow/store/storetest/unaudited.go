package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// withAudit has the process tell the audit what happens from now on.
func (w *world) withAudit() {
	w.Helper()
	w.Store = w.open(store.Options{Audit: true})
}

func (w *world) unaudited() []workflow.Event {
	w.Helper()
	events, err := w.Unaudited(w.Context(), 1000)
	require.NoError(w, err)
	return events
}

// audits takes what the audit lacks, in words, and confirms it.
func (w *world) audits() (told []string) {
	w.Helper()
	events := w.unaudited()
	require.NoError(w, w.Audited(w.Context(), events))
	return keysOf(events)
}

// keysOf is the events in words, order-42's name left out: "message:2:0:1
// order-42/reserved Applied".
func keysOf(events []workflow.Event) (told []string) {
	for _, e := range events {
		what := e.Key
		if e.Kind == workflow.EventMessage {
			what += " " + e.MessageID + " " + string(e.Outcome)
		}
		told = append(told, strings.ReplaceAll(what, theOrder+":", ""))
	}
	return told
}

func auditing() []scenario {
	return []scenario{
		{"what was handled is told once with all that was recorded of it, and not again when it is confirmed", func(w *world) {
			w.withAudit()
			m := reserved(theOrder)
			m.Delivery = workflow.Delivery{Function: "inventory-reserved", Count: 2}
			w.takes(placed(theOrder))
			w.db.Pass(time.Second)
			w.takes(m)
			s := w.story(theOrder)
			events := w.unaudited()
			require.Equal(w, []string{
				"message:1:0:1 order-42/placed Applied", "message:2:0:1 order-42/reserved Applied",
				"closed:reserve-inventory:1:1", "closed:inventory-timeout:1:1",
			}, keysOf(events))
			require.Equal(w, workflow.Event{
				OrderID: theOrder, Key: "message:2:0:1", At: s.Journal[1].At, Kind: workflow.EventMessage,
				MessageID: m.ID, Type: m.Type, Conversation: "conv-7", ParentID: m.ParentID, OriginID: m.OriginID, TraceParent: m.TraceParent,
				Outcome: workflow.Applied, Reason: "the goods are reserved", From: workflow.AwaitingInventory, To: workflow.AwaitingPayment,
				Version: 2, Revision: 2, Emitted: []string{"order-42:capture-payment:1", "order-42:payment-timeout:1"},
				Function: "inventory-reserved", Deliveries: 2, Size: int64(len(m.Body)),
			}, events[1])
			require.Equal(w, events, w.unaudited(), "the same until it is confirmed")
			require.NoError(w, w.Audited(w.Context(), events[:2]))
			require.Equal(w, events[2:], w.unaudited())
			require.NoError(w, w.Audited(w.Context(), events), "some of it for the second time")
			require.Empty(w, w.unaudited())
			w.changesNothing(func() {
				w.expect(workflow.Duplicate, m)
				require.NoError(w, w.Audited(w.Context(), events))
				require.NoError(w, w.Audited(w.Context(), nil))
			})
			require.Empty(w, w.unaudited(), "what is not recorded is not told")
		}},
		{"what is sent, given up and closed is told with its numbers", func(w *world) {
			w.withAudit()
			w.takes(placed(theOrder), placed("order-43"))
			w.audits()
			w.dies("order-43")
			w.db.Pass(time.Second)
			w.sends()
			w.db.Pass(24*time.Hour - time.Minute)
			w.handsOver(theOrder, 7)
			w.db.Pass(30 * time.Second)
			w.takes(sorry(theOrder, workflow.CancellationRequested))
			events := w.unaudited()
			require.Equal(w, []string{
				"message:2:0:1 order-43:reserve-inventory:1:dead:1 Applied", "dead:order-43:reserve-inventory:1:1",
				"sent:reserve-inventory:1:1", "sent:inventory-timeout:1:1",
				"message:2:0:1 order-42/CancellationRequested Applied", "closed:inventory-timeout:1:1",
			}, keysOf(events))
			outbox, other := w.story(theOrder).Outbox, w.story("order-43").Outbox
			dead, sent, deadline, closed := events[1], events[2], events[3], events[5]
			require.Equal(w, workflow.Event{
				OrderID: "order-43", Key: "dead:order-43:reserve-inventory:1:1", At: w.story("order-43").Journal[1].At, Kind: workflow.EventDead,
				MessageID: "order-43:reserve-inventory:1", Type: workflow.ReserveInventory, Conversation: "conv-7", ParentID: "order-43/placed",
				OriginID: "orders:order-placed:42", TraceParent: placed("order-43").TraceParent,
				Reason: "it is too large", Attempts: 1, Size: int64(len(other[0].Body)),
			}, dead)
			require.Equal(w, []any{outbox[0].SentAt, workflow.EventSent, int64(0), ""}, []any{sent.At, sent.Kind, sent.Sequence, sent.Reason})
			require.Equal(w, []any{outbox[1].SentAt, int64(7), outbox[1].DueAt, int64(len(outbox[1].Body)), 1},
				[]any{deadline.At, deadline.Sequence, deadline.DueAt, deadline.Size, deadline.Attempts})
			require.Equal(w, []any{outbox[1].ClosedAt, workflow.EventClosed}, []any{closed.At, closed.Kind})
			require.Len(w, w.audits(), 6)
			w.expect(workflow.Duplicate, placed(theOrder))
			require.Empty(w, w.unaudited())
		}},
		{"a command that is closed in the commit that decided it is told as closed, and one that got through all the same as sent", func(w *world) {
			w.withAudit()
			w.takes(placed(theOrder), reserved(theOrder), shipped(theOrder))
			claimed, _ := w.claim("sender", time.Minute)
			w.audits()
			w.db.Pass(time.Second)
			w.takes(captured(theOrder)) // and what was early ends it
			w.mark("sender", claimed, workflow.Mark{Sent: true})
			require.Equal(w, []string{
				"message:4:0:1 order-42/captured Applied", "message:4:1:2 order-42/shipped Applied",
				"sent:capture-payment:1:1",
				"closed:capture-payment:1:1", "closed:payment-timeout:1:1", "closed:ship-order:1:1",
			}, w.audits())
			require.Equal(w, w.story(theOrder).UpdatedAt, w.story(theOrder).Outbox[4].ClosedAt)
		}},
		{"what persons do is told: actions, what they send again or discard, and what they settle", func(w *world) {
			w.withAudit()
			w.takes(placed(theOrder))
			w.dies(theOrder)
			w.audits()
			const command = "order-42:reserve-inventory:1"
			w.acts(workflow.Applied, workflow.SendAgain, command)
			require.Equal(w, []string{"message:3:0:1 order-42:send-again:2 Applied"}, unshortened(w.unaudited()))
			w.audits()
			w.dies(theOrder)
			require.Contains(w, w.audits(), "dead:reserve-inventory:1:2", "it is another death")
			w.acts(workflow.Applied, workflow.DiscardCommand, command)
			require.Equal(w, []string{"message:5:0:1 discard-command:4 Applied", "closed:reserve-inventory:1:1"}, w.audits())
			w.fires(workflow.Applied, theOrder, "inventory-timeout:1")
			events := w.unaudited()
			require.Equal(w, []string{
				"message:6:0:1 fire-deadline:5 Applied", "message:6:1:1 inventory-timeout:1 Applied", "closed:inventory-timeout:1:1",
			}, keysOf(events))
			require.Equal(w, "fired by ada: they closed", events[0].Reason)
			w.audits()

			w.rejects("m-1")
			events = w.unaudited()
			require.Len(w, events, 1)
			id := w.theRefused("m-1")
			require.Equal(w, workflow.Event{
				OrderID: theOrder, Key: "rejected:" + id + ":1", At: w.db.Now().Add(-time.Second).Truncate(time.Microsecond), Kind: workflow.EventRejected,
				MessageID: "m-1", Type: "Nonsense", Conversation: "c", ParentID: "p", OriginID: "o", TraceParent: "t", Outcome: workflow.Rejected,
				Reason: "malformed message", Function: "order-placed", Deliveries: 3, Size: 6,
			}, events[0])
			require.NoError(w, w.Discard(w.Context(), id, "ada", "of no use"))
			events = w.unaudited()
			require.Equal(w, []string{"rejected:" + id + ":1", "settled:" + id + ":1"}, keysOf(events), "and why it was rejected is told first")
			require.Equal(w, []any{"discarded by ada: of no use", workflow.EventSettled}, []any{events[1].Reason, events[1].Kind})
			w.audits()
			require.NoError(w, w.Discard(w.Context(), id, "bob", "of no use"))
			require.Empty(w, w.unaudited(), "it was done before")
			w.rejects("m-1")
			require.Equal(w, []string{"rejected:" + id + ":2"}, w.audits())
		}},
		{"a message that is held, put in line, retried in vain and taken up is told each time it is read in between", func(w *world) {
			w.withAudit()
			w.takes(captured(theOrder))
			require.Equal(w, []string{"message:1:0:1 order-42/captured Held"}, w.audits())
			w.takes(placed(theOrder))
			w.audits()
			w.db.Pass(time.Second)
			failing := &world{T: w.T, db: w.db, Store: w.open(store.Options{Audit: true, Apply: bad("order-42/captured").apply})}
			failing.takes(reserved(theOrder))
			events := w.unaudited()
			require.Contains(w, keysOf(events), "message:1:0:3 order-42/captured Blocked")
			for _, e := range events {
				require.Equal(w, w.db.Now().Truncate(time.Microsecond), e.At, e.Key)
			}
			w.audits()
			w.db.Pass(time.Second)
			_, err := failing.Act(w.Context(), workflow.Action{Kind: workflow.RetryMessage, OrderID: theOrder, Target: "order-42/captured", Reason: "again", Actor: "ada"})
			require.NoError(w, err)
			require.ElementsMatch(w, []string{"message:4:0:1 retry-message:3 Applied", "message:1:0:4 order-42/captured Blocked"}, w.audits())
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Contains(w, w.audits(), "message:7:0:5 order-42/captured Applied")
		}},
		{"what is not read in between is told as it is in the end, once", func(w *world) {
			w.withAudit()
			w.takes(captured(theOrder), placed(theOrder), reserved(theOrder))
			require.Equal(w, []string{
				"message:2:0:1 order-42/placed Applied", "message:3:0:1 order-42/reserved Applied", "message:3:1:2 order-42/captured Applied",
			}, w.audits()[:3])
			require.Empty(w, w.unaudited())
		}},
		{"what changes between the reading and the confirming is told again, as it is then", func(w *world) {
			w.withAudit()
			w.takes(captured(theOrder), placed(theOrder))
			w.rejects("m-1")
			before := w.unaudited()
			w.db.Pass(time.Second)
			w.takes(reserved(theOrder)) // takes up what was held
			w.rejects("m-1")
			w.sends()
			require.NoError(w, w.Audited(w.Context(), before))
			told := keysOf(w.unaudited())
			require.Contains(w, told, "message:3:1:2 order-42/captured Applied")
			require.Contains(w, told, "rejected:"+w.theRefused("m-1")+":2")
			require.NotContains(w, told, "message:2:0:1 order-42/placed Applied")
			require.Len(w, told, len(w.audits()))
			require.Empty(w, w.unaudited())
		}},
		{"what happens to a row for the second time is another event, which the confirming of the first leaves", func(w *world) {
			w.withAudit()
			twice := func(first, second string, again func()) {
				w.Helper()
				before := w.unaudited()
				require.Contains(w, keysOf(before), first)
				w.db.Pass(time.Second)
				again()
				require.NoError(w, w.Audited(w.Context(), before))
				require.Equal(w, []string{second}, slices.DeleteFunc(keysOf(w.unaudited()), func(told string) bool { return told != second && told != first }))
				w.audits()
			}
			w.takes(captured("early"))
			twice("message:1:0:1 early/captured Held", "message:1:0:2 early/captured Rejected", func() {
				w.db.Pass(24 * time.Hour)
				require.Equal(w, 1, w.sweeps().TooEarly) // where it was
			})
			w.takes(placed(theOrder))
			w.dies(theOrder)
			const command = "order-42:reserve-inventory:1"
			twice("dead:reserve-inventory:1:1", "dead:reserve-inventory:1:2", func() {
				w.acts(workflow.Applied, workflow.SendAgain, command)
				w.dies(theOrder)
			})
			w.acts(workflow.Applied, workflow.SendAgain, command)
			w.sends()
			twice("sent:reserve-inventory:1:1", "sent:reserve-inventory:1:2", func() {
				w.db.Pass(time.Hour)
				w.acts(workflow.Applied, workflow.SendAgain, command)
				w.sends()
			})
			w.takes(placed("order-43"))
			claimed, err := w.Claim(w.Context(), "sender", workflow.Want{Commands: true}, 10, time.Minute)
			require.NoError(w, err)
			w.takes(sorry("order-43", workflow.CancellationRequested))
			twice("closed:order-43:reserve-inventory:1:1", "closed:order-43:reserve-inventory:1:2", func() {
				w.mark("sender", claimed, workflow.Mark{Sent: true}) // it got through all the same, and a person discards it
				_, err := w.Act(w.Context(), workflow.Action{Kind: workflow.DiscardCommand, OrderID: "order-43", Target: "order-43:reserve-inventory:1", Reason: "why"})
				require.NoError(w, err)
			})
			w.rejects("m-1")
			id := w.theRefused("m-1")
			require.NoError(w, w.Discard(w.Context(), id, "ada", "why"))
			twice("settled:"+id+":1", "settled:"+id+":2", func() {
				w.rejects("m-1")
				require.NoError(w, w.Discard(w.Context(), id, "bob", "why"))
			})
		}},
		{"who dies between the reading and the confirming leaves all of it to the next, under the same names", func(w *world) {
			w.withAudit()
			for _, order := range orders(5) {
				w.takes(placed(order), reserved(order))
			}
			w.sends()
			before := w.unaudited()
			require.Len(w, before, 25)
			w.reopen() // in which the audit is off
			w.withAudit()
			w.takes(placed("another"))
			after := w.unaudited()
			require.Subset(w, keysOf(after), keysOf(before))
			require.Len(w, after, 26)
			for _, e := range before {
				require.Contains(w, after, e)
			}
		}},
		{"at most so much is told at once, the oldest first, and all of it in the end", func(w *world) {
			w.withAudit()
			for _, order := range orders(7) {
				w.takes(placed(order))
				w.db.Pass(time.Second)
				w.takes(sorry(order, workflow.CancellationRequested))
				w.sends()
				w.db.Pass(time.Second)
				w.rejects(order)
			}
			all := w.unaudited()
			require.Len(w, all, 7*6) // two messages, two rows closed, one sent, one rejected
			require.True(w, slices.IsSortedFunc(all, func(a, b workflow.Event) int { return a.At.Compare(b.At) }))
			var told []workflow.Event
			for {
				part, err := w.Unaudited(w.Context(), 4)
				require.NoError(w, err)
				if len(part) == 0 {
					break
				}
				require.LessOrEqual(w, len(part), 4)
				require.NoError(w, w.Audited(w.Context(), part))
				told = append(told, part...)
			}
			require.ElementsMatch(w, all, told)
			require.True(w, slices.IsSortedFunc(told, func(a, b workflow.Event) int { return a.At.Compare(b.At) }))
		}},
		{"what is committed late, or when the clock was put back, is not overlooked", func(w *world) {
			w.withAudit()
			w.takes(placed(theOrder))
			w.audits()
			w.db.Pass(-time.Hour)
			w.takes(placed("order-43"))
			require.Equal(w, []string{"message:1:0:1 order-43/placed Applied"}, w.audits())
		}},
		{"while the audit is off nothing is marked, and when it is on only what is new is told", func(w *world) {
			w.takes(placed(theOrder), captured(theOrder))
			w.sends()
			w.rejects("m-1")
			require.NoError(w, w.Discard(w.Context(), w.theRefused("m-1"), "ada", "why"))
			require.Empty(w, w.unaudited())
			w.withAudit()
			require.Empty(w, w.unaudited())
			w.takes(reserved(theOrder))
			told := w.audits()
			require.Equal(w, []string{"message:3:0:1 order-42/reserved Applied", "message:3:1:2 order-42/captured Applied"}, told[:2])
			require.NotContains(w, strings.Join(told, " "), "placed")
			w.takes(shipped(theOrder))
			w.reopen()
			w.expect(workflow.Stale, as(shipped(theOrder), "late"))
			w.withAudit()
			require.ElementsMatch(w, []string{"message:4:0:1 order-42/shipped Applied", "closed:shipment-timeout:1:1", "closed:ship-order:1:1"}, w.audits(),
				"what was marked before stays marked")
		}},
		{"nothing is deleted before the audit has it", func(w *world) {
			w.withAudit()
			w.cancels(theOrder)
			w.rejects("m-1")
			require.NoError(w, w.Discard(w.Context(), w.theRefused("m-1"), "ada", "why"))
			w.db.Pass(100 * month)
			w.changesNothing(func() { require.Equal(w, workflow.Swept{}, w.sweeps()) })
			events := w.unaudited()
			require.Equal(w, workflow.EventSettled, events[len(events)-1].Kind)
			for _, one := range []workflow.EventKind{workflow.EventMessage, workflow.EventSent, workflow.EventClosed} {
				for _, e := range events[:len(events)-1] { // all but one
					if e.Kind != one {
						require.NoError(w, w.Audited(w.Context(), []workflow.Event{e}))
					}
				}
				w.changesNothing(func() { require.Equal(w, workflow.Swept{}, w.sweeps(), one) })
				w.tamper("UPDATE journal SET audit = ABS(audit)")
				w.tamper("UPDATE outbox SET audit_sent = ABS(audit_sent), audit_closed = ABS(audit_closed)")
			}
			require.NoError(w, w.Audited(w.Context(), events[:len(events)-1]))
			require.Equal(w, workflow.Swept{Purged: 1}, w.sweeps())
			require.NoError(w, w.Audited(w.Context(), events))
			require.Equal(w, workflow.Swept{Settled: 1}, w.sweeps())
			require.NoError(w, w.Audited(w.Context(), events), "what is gone is confirmed too")
			require.Zero(w, w.count("journal")+w.count("outbox")+w.count("rejected"))
		}},
		{"without an audit nothing waits for one", func(w *world) {
			w.withAudit()
			w.ends(w.Store, theOrder)
			w.rejects("m-1")
			require.NoError(w, w.Discard(w.Context(), w.theRefused("m-1"), "ada", "why"))
			w.reopen()
			w.db.Pass(month)
			require.Equal(w, workflow.Swept{Purged: 1, Settled: 1}, w.sweeps())
			require.Empty(w, w.unaudited())
		}},
		{"an event that cannot be one is refused, and none of its kind is confirmed by it", func(w *world) {
			w.withAudit()
			w.takes(placed(theOrder))
			for _, e := range []workflow.Event{
				{}, {Kind: "message"}, {Kind: "message", Key: "message:1:0"}, {Kind: "message", Key: "message:x:0:1"}, {Kind: "sent", Key: "1"}, {Kind: "other", Key: "other:m:1"},
			} {
				require.ErrorIs(w, w.Audited(w.Context(), []workflow.Event{e}), workflow.ErrBadInput, "%+v", e)
			}
			require.Len(w, w.unaudited(), 1)
		}},
		{"read and confirmed by several at once, in two processes, while everything happens, all of it is told", func(w *world) {
			w.withAudit()
			other := w.open(store.Options{Audit: true})
			var over atomic.Bool
			var mu sync.Mutex
			told := make(map[string]workflow.Event)
			var readers, writers sync.WaitGroup
			for n, s := range []*store.Store{w.Store, other, w.Store} {
				readers.Go(func() {
					for !over.Load() {
						events, err := s.Unaudited(w.Context(), 7+n*20)
						if err != nil {
							w.Errorf("read: %v", err)
							return
						}
						mu.Lock()
						for _, e := range events {
							name := e.OrderID + " " + e.Key
							if before, again := told[name]; again && before.At != e.At {
								w.Errorf("%s was told at %s and at %s", name, before.At, e.At)
							}
							told[name] = e
						}
						mu.Unlock()
						if err := s.Audited(w.Context(), events[:len(events)-len(events)/3]); err != nil { // it does not always get all
							w.Errorf("confirm: %v", err)
							return
						}
					}
				})
			}
			names := orders(24)
			for part, s := range []*store.Store{w.Store, other} {
				writers.Go(func() {
					for n, order := range names {
						if n%2 != part {
							continue
						}
						for _, m := range []workflow.Message{captured(order), placed(order), as(placed(order), "late"), reserved(order), unasked(order), sorry(order, workflow.ShipmentFailed)} {
							if _, err := s.Handle(w.Context(), m); err != nil {
								w.Errorf("%s: %v", order, err)
							}
						}
						token := "sender of " + order
						claimed, err := s.Claim(w.Context(), token, everyKind, 100, time.Minute)
						if err != nil {
							w.Errorf("claim: %v", err)
						}
						var marks []workflow.Mark
						for _, c := range claimed {
							marks = append(marks, workflow.Mark{OrderID: c.OrderID, Seq: c.Seq, Sent: true})
						}
						if err := s.Mark(w.Context(), token, marks); err != nil {
							w.Errorf("mark: %v", err)
						}
						w.db.Pass(time.Microsecond)
					}
				})
			}
			writers.Wait()
			over.Store(true)
			readers.Wait()
			for events := w.unaudited(); len(events) > 0; events = w.unaudited() {
				for _, e := range events {
					told[e.OrderID+" "+e.Key] = e
				}
				require.NoError(w, w.Audited(w.Context(), events))
			}
			for _, column := range []string{"journal WHERE audit", "outbox WHERE audit_sent", "outbox WHERE audit_dead", "outbox WHERE audit_closed", "rejected WHERE audit", "rejected WHERE audit_settled"} {
				require.Zero(w, w.count(column+" > 0"), column)
			}
			tellsAll(w, told)
		}},
	}
}

// tellsAll holds what was told against what the database holds now: the last
// state of every row is among it.
func tellsAll(w *world, told map[string]workflow.Event) {
	w.Helper()
	r, err := Read(w.Context(), w.db.SQL)
	require.NoError(w, err)
	counts := make(map[workflow.EventKind]int)
	last := make(map[string]workflow.Outcome) // of each message that keeps its ID
	for _, e := range told {
		counts[e.Kind]++
		last[fmt.Sprint(e.OrderID, " ", e.MessageID, " ", e.Revision, " ", e.Outcome)] = e.Outcome
	}
	rows, sent := 0, 0
	for _, o := range r.orders {
		for _, h := range o.journal {
			rows++
			require.Contains(w, last, fmt.Sprint(o.id, " ", h.ID, " ", h.revision, " ", h.outcome))
		}
		for _, q := range o.outbox {
			name := o.id + " %s:" + q.ID + ":1"
			if !q.sentAt.IsZero() {
				sent++
				require.Contains(w, told, fmt.Sprintf(name, "sent"))
			}
			if q.state == workflow.DispatchClosed {
				require.Contains(w, told, fmt.Sprintf(name, "closed"))
			}
		}
		require.GreaterOrEqual(w, counts[workflow.EventRejected], 1)
	}
	require.GreaterOrEqual(w, counts[workflow.EventMessage], rows)
	require.Equal(w, sent, counts[workflow.EventSent])
	w.Logf("told %v", counts)
}

// unshortened is the events in words, with their order's name.
func unshortened(events []workflow.Event) (told []string) {
	for _, e := range events {
		told = append(told, e.Key+" "+e.MessageID+" "+string(e.Outcome))
	}
	return told
}
