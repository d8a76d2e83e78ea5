package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// luck is what a program has with messages: those named fail whenever they would
// be decided about.
type luck struct {
	mu  sync.Mutex
	bad map[string]bool
}

// bad is no luck with these messages.
func bad(ids ...string) *luck {
	l := &luck{bad: make(map[string]bool)}
	for _, id := range ids {
		l.bad[id] = true
	}
	return l
}

// apply is workflow.Apply, which panics as soon as a message without luck would
// be decided about.
func (l *luck) apply(o workflow.Order, m workflow.Message, held []workflow.Message) workflow.Result {
	r := workflow.Apply(o, m, held)
	for _, d := range r.Decisions {
		if d.Outcome != workflow.Held && l.with(d.Message.ID) {
			panic("no luck with " + d.Message.ID)
		}
	}
	return r
}

func (l *luck) with(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad[id]
}

func (l *luck) turn(id string, isBad bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad[id] = isBad
}

// broken is the same database in the hands of a program that fails at messages.
func (w *world) broken(ids ...string) *world {
	w.Helper()
	return &world{T: w.T, db: w.db, Store: w.open(store.Options{Apply: bad(ids...).apply})}
}

// line lists what waits in an order's line, its name left out.
func (w *world) line() []string { return w.lineOf(theOrder) }

func (w *world) lineOf(order string) (ids []string) {
	w.Helper()
	for _, e := range w.story(order).Line {
		ids = append(ids, strings.TrimPrefix(e.ID, order+"/"))
	}
	return ids
}

// early lists what waits to become acceptable.
func (w *world) early() (ids []string) {
	w.Helper()
	for _, e := range w.story(theOrder).Held {
		ids = append(ids, strings.TrimPrefix(e.ID, theOrder+"/"))
	}
	return ids
}

// swept has the sweep run until nothing is left to do, and returns how many
// messages it handled.
func (w *world) swept() (replayed int) {
	w.Helper()
	for {
		done, err := w.Sweep(w.Context())
		require.NoError(w, err)
		replayed += done.Replayed
		if !done.More {
			return replayed
		}
	}
}

// told is all that came of an order, but not when and in how many revisions: the
// order, what was decided, and what was sent. What operators did beside the
// process is left out.
func (w *world) told(order string) (all []string) {
	w.Helper()
	s := w.story(order)
	state, err := json.Marshal(s.Order)
	require.NoError(w, err)
	all = append(all, fmt.Sprint(s.Order.Status, s.Order.Version, string(state)))
	for _, e := range s.Journal {
		byHand := workflow.ActionKind(e.Type).Known() || e.Outcome == workflow.Skipped
		waits := e.Outcome == workflow.Held || e.Outcome == workflow.Blocked
		if !byHand && !waits && e.Outcome != workflow.Rejected { // which stays in the journal if it had waited
			all = append(all, fmt.Sprint(e.MessageID, e.Type, e.ParentID, e.Outcome, e.Reason, e.From, e.To, e.Version, e.Emitted))
		}
	}
	for _, d := range s.Outbox {
		if d.Purpose != "" {
			if d.State == workflow.DispatchClosed {
				continue // one that was replaced within its commit has no row
			}
			d.Body = nil // it says when it is due
		}
		all = append(all, fmt.Sprint(d.ID, d.Type, d.ParentID, d.Conversation, d.OriginID, d.TraceParent, d.Purpose, string(d.Body), d.State))
	}
	for _, e := range slices.Concat(s.Held, s.Line) {
		all = append(all, fmt.Sprint("waits ", e.ID))
	}
	for _, r := range s.Rejected {
		all = append(all, fmt.Sprint("refused ", r.MessageID, r.Type, r.Reason, r.Times))
	}
	for n, line := range all { // the same of every order
		all[n] = strings.ReplaceAll(line, order, "ORDER")
	}
	return all
}

// empty forgets all orders.
func (w *world) empty() {
	w.Helper()
	for _, table := range []string{"orders", "journal", "outbox", "rejected"} {
		w.tamper("DELETE FROM " + table)
	}
}

// straight is what comes of messages when all goes well. Nothing else is left in
// the database.
func (w *world) straight(messages ...workflow.Message) []string {
	w.Helper()
	w.empty()
	w.takes(messages...)
	told := w.told(theOrder)
	w.empty()
	return told
}

// awkward is a story in which messages come early, late, twice and in vain.
func awkward() []workflow.Message {
	return []workflow.Message{
		captured(theOrder), placed(theOrder), as(placed(theOrder), "order-42/again"), shipped(theOrder), unasked(theOrder), reserved(theOrder),
		said(theOrder, "order-42/reserved-otherwise", workflow.InventoryReserved, `"reservationId":"reservation-9002"`),
		expired(theOrder, "payment-timeout:1"), as(sorry(theOrder, workflow.ShipmentFailed), "order-42/not"),
	}
}

func lines() []scenario {
	return []scenario{
		{"a message that fails for good blocks its order, what comes after waits behind it, and other orders go on", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder))
			outbox := w.rows("outbox")
			d := b.expect(workflow.Blocked, reserved(theOrder))
			require.Equal(w, "panic: no luck with order-42/reserved", d.Reason)
			require.Contains(w, d.Trouble, "goroutine")
			require.Equal(w, []workflow.Status{workflow.AwaitingInventory, workflow.AwaitingInventory}, []workflow.Status{d.From, d.To})
			require.EqualValues(w, 1, d.Version)
			d = b.expect(workflow.Blocked, captured(theOrder))
			require.Equal(w, "it waits behind order-42/reserved, which blocks the order", d.Reason)
			require.Empty(w, d.Trouble)
			w.expect(workflow.Blocked, shipped(theOrder)) // a sound program leaves it to a person too
			require.Equal(w, []string{"reserved", "captured", "shipped"}, w.line())
			s := w.story(theOrder)
			require.Equal(w, "order-42/reserved", s.BlockedBy)
			require.EqualValues(w, 4, s.Revision)
			require.Equal(w, []string{
				"panic: no luck with order-42/reserved",
				"it waits behind order-42/reserved, which blocks the order", "it waits behind order-42/reserved, which blocks the order",
			}, []string{s.Journal[1].Reason, s.Journal[2].Reason, s.Journal[3].Reason})
			require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
			require.Equal(w, outbox, w.rows("outbox"))
			backlog, err := w.Backlog(w.Context())
			require.NoError(w, err)
			require.Equal(w, 1, backlog.Blocked)
			require.Zero(w, backlog.Early)
			b.takes(placed("order-43"), as(reserved("order-43"), "m"))
			require.Equal(w, "AwaitingPayment 2", w.stands("order-43"))
			require.Zero(w, w.swept(), "the sweep does not go on with it")

			before := w.everything()
			for _, m := range []workflow.Message{reserved(theOrder), captured(theOrder), shipped(theOrder)} {
				d := w.expect(workflow.Duplicate, m)
				require.Equal(w, "it was handled before: Blocked", d.Reason)
			}
			require.Equal(w, before, w.everything())
			other := said(theOrder, "order-42/captured", workflow.PaymentCaptured, `"paymentId":"payment-2"`)
			require.Contains(w, w.expect(workflow.Rejected, other).Reason, "conflict")

			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Empty(w, w.line())
			require.Empty(w, w.story(theOrder).BlockedBy)
			require.Equal(w, "Completed 4", w.stands(theOrder))
			w.expect(workflow.Stale, as(shipped(theOrder), "order-42/newer"))
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42:retry-message:4 Applied",
				"order-42/reserved Applied", "order-42/captured Applied", "order-42/shipped Applied", "order-42/newer Stale",
			}, w.journal(theOrder))
			w.expect(workflow.Duplicate, captured(theOrder))
			backlog, err = w.Backlog(w.Context())
			require.NoError(w, err)
			require.Zero(w, backlog.Blocked)
			w.replays(theOrder)
		}},
		{"whichever message fails, once it is retried the order is as if it had not", func(w *world) {
			messages := awkward()
			straight := w.straight(messages...)
			for at, m := range messages {
				for _, until := range []int{at + 1, at + 2, len(messages)} { // what comes while it is blocked
					w.empty()
					b := w.broken(m.ID)
					retried := false
					for n, next := range messages {
						if n == until && b.blocked() {
							w.acts(workflow.Applied, workflow.RetryMessage, m.ID)
							retried = true
						}
						b.takes(next)
						if retried {
							b = w
						}
					}
					if b.blocked() {
						w.acts(workflow.Applied, workflow.RetryMessage, w.story(theOrder).BlockedBy)
					}
					require.Equal(w, straight, w.told(theOrder), "%s fails until %d", m.ID, until)
					w.replays(theOrder)
				}
			}
		}},
		{"what comes while others wait waits behind them", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			w.reopen()
			w.expect(workflow.Blocked, sorry(theOrder, workflow.CancellationRequested))
			w.expect(workflow.Blocked, shipped(theOrder))
			require.Equal(w, []string{"reserved", "captured", "CancellationRequested", "shipped"}, w.line())
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42:retry-message:5 Applied", "order-42/reserved Applied", "order-42/captured Applied",
				"order-42/CancellationRequested Rejected", "order-42/shipped Applied",
			}, w.journal(theOrder), "it came too late to cancel")
			require.Len(w, w.story(theOrder).Rejected, 1)
			require.Equal(w, workflow.Rejected, w.takes(sorry(theOrder, workflow.CancellationRequested)).Outcome, "and does not occupy its ID")
		}},
		{"a line that was left when it was unblocked is gone on with by whatever comes next", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			w.tamper("UPDATE orders SET blocked_by = NULL")
			require.Equal(w, []string{"reserved", "captured"}, w.line())
			d := w.expect(workflow.Blocked, shipped(theOrder))
			require.Equal(w, "it waits behind messages that are handled first", d.Reason)
			require.Empty(w, w.line())
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42/reserved Applied", "order-42/captured Applied", "order-42/shipped Applied",
			}, w.journal(theOrder))
			w.replays(theOrder)
		}},
		{"what comes to a line that was left does not hang on how the line goes on", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			w.tamper("UPDATE orders SET blocked_by = NULL")
			b.expect(workflow.Blocked, shipped(theOrder))
			require.Equal(w, []string{"reserved", "captured", "shipped"}, w.line())
			require.Equal(w, "order-42/reserved", w.story(theOrder).BlockedBy, "it fails again")
			w.tamper("UPDATE orders SET blocked_by = NULL")
			allow := w.db.Refuse("UPDATE", "journal") // nothing of the line can be decided, nor blamed
			w.expect(workflow.Blocked, as(shipped(theOrder), "order-42/last"))
			allow()
			require.Equal(w, []string{"reserved", "captured", "shipped", "last"}, w.line())
			require.Equal(w, 4, w.swept())
			require.Equal(w, "Completed 4", w.stands(theOrder))
		}},
		{"a process that ends between unblocking and the line leaves it to the sweep", func(w *world) {
			for _, kind := range []workflow.ActionKind{workflow.RetryMessage, workflow.SkipMessage} {
				w.empty()
				b := w.broken("order-42/again")
				b.takes(placed(theOrder), as(placed(theOrder), "order-42/again"), reserved(theOrder), captured(theOrder))
				ctx, end := context.WithCancel(w.Context())
				ending := w.open(store.Options{Apply: func(o workflow.Order, m workflow.Message, held []workflow.Message) workflow.Result {
					end() // as the first of the line is decided about
					return workflow.Apply(o, m, held)
				}})
				d, err := ending.Act(ctx, workflow.Action{Kind: kind, OrderID: theOrder, Target: "order-42/again", Reason: "as agreed"})
				require.NoError(w, err)
				require.Equal(w, workflow.Applied, d.Outcome)
				require.Empty(w, w.story(theOrder).BlockedBy)
				require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
				require.NotEmpty(w, w.line())
				require.Equal(w, map[workflow.ActionKind]int{workflow.RetryMessage: 3, workflow.SkipMessage: 2}[kind], w.swept())
				require.Empty(w, w.line())
				require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
				require.Zero(w, w.swept(), "and there is no more")
			}
		}},
		{"what fails in the sweep blocks its order alone, and the sweep goes on with the others", func(w *world) {
			b := w.broken("order-1/reserved", "order-2/reserved", "order-3/reserved")
			for _, order := range []string{"order-1", "order-2", "order-3"} {
				b.takes(placed(order), reserved(order), captured(order))
			}
			w.tamper("UPDATE orders SET blocked_by = NULL")
			require.Equal(w, 4, w.broken("order-2/reserved").swept())
			for order, stands := range map[string]string{
				"order-1": "AwaitingShipment 3", "order-2": "AwaitingInventory 1", "order-3": "AwaitingShipment 3",
			} {
				require.Equal(w, stands, w.stands(order))
			}
			require.Equal(w, "order-2/reserved", w.story("order-2").BlockedBy)
		}},
		{"orders that are blocked do not hide from the sweep one whose line was left", func(w *world) {
			for n := range 100 {
				w.holds(workflow.Blocked, placed(fmt.Sprintf("order-%03d", n)), "it failed")
			}
			w.holds(workflow.Blocked, placed("order-left"), "it failed")
			w.tamper("UPDATE orders SET blocked_by = NULL WHERE order_id = 'order-left'")
			done, err := w.Sweep(w.Context())
			require.NoError(w, err)
			require.Equal(w, 1, done.Replayed)
			require.False(w, done.More)
			require.Equal(w, "AwaitingInventory 1", w.stands("order-left"))
			require.Equal(w, 100, w.count("orders WHERE blocked_by IS NOT NULL"))
		}},
		{"a skipped message is never run, and the others follow", func(w *world) {
			b := w.broken("order-42/CancellationRequested")
			cancel := sorry(theOrder, workflow.CancellationRequested)
			b.takes(placed(theOrder), cancel, reserved(theOrder), captured(theOrder))
			w.db.Pass(time.Minute)
			d := w.acts(workflow.Applied, workflow.SkipMessage, cancel.ID)
			require.Equal(w, "skipped by ada: as agreed", d.Reason)
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			require.Empty(w, w.line())
			s := w.story(theOrder)
			require.Empty(w, s.BlockedBy)
			require.Empty(w, s.Rejected)
			require.Equal(w, []string{
				"order-42/placed Applied", "order-42:skip-message:4 Applied", "order-42/CancellationRequested Skipped",
				"order-42/reserved Applied", "order-42/captured Applied",
			}, w.journal(theOrder))
			skipped := s.Journal[2]
			require.Equal(w, workflow.Entry{
				At: w.db.Now().Truncate(time.Microsecond), MessageID: cancel.ID, Type: cancel.Type, ParentID: cancel.ParentID,
				Outcome: workflow.Skipped, Reason: "skipped by ada: as agreed",
				From: workflow.AwaitingInventory, To: workflow.AwaitingInventory, Version: 1, Emitted: []string{}, Said: "no luck",
			}, skipped)
			before := w.everything()
			w.expect(workflow.Duplicate, cancel)
			require.Equal(w, before, w.everything())
			w.acts(workflow.Rejected, workflow.SkipMessage, cancel.ID)
			w.acts(workflow.Rejected, workflow.RetryMessage, cancel.ID)
			require.Equal(w, before, w.everything())
			w.expect(workflow.Rejected, said(theOrder, cancel.ID, workflow.CancellationRequested, `"reason":"another"`))
			w.replays(theOrder)
		}},
		{"the armed deadline is skipped, and the next one bounds the wait anew", func(w *world) {
			const armed, next = "order-42:inventory-timeout:1", "order-42:inventory-timeout:2"
			w.takes(placed(theOrder))
			w.db.Pass(25 * time.Hour)
			var bus broker
			w.drain(&bus)
			b := w.broken(armed)
			b.expect(workflow.Blocked, expired(theOrder, "inventory-timeout:1"))
			d := w.acts(workflow.Applied, workflow.SkipMessage, armed)
			require.Equal(w, next, d.Deadline.ID)
			s := w.story(theOrder)
			require.Equal(w, next, s.Order.Armed)
			require.Equal(w, w.db.Now().Add(24*time.Hour).Truncate(time.Microsecond), s.DeadlineAt)
			require.Equal(w, []string{"reserve-inventory:1 sent", "inventory-timeout:1 closed", "inventory-timeout:2 waiting"}, w.emitted(theOrder))
			require.Equal(w, "AwaitingInventory 1", w.stands(theOrder))
			w.expect(workflow.Duplicate, expired(theOrder, "inventory-timeout:1"))
			w.db.Pass(time.Hour)
			swept, err := w.Sweep(w.Context())
			require.NoError(w, err)
			require.Zero(w, swept.Resent)
			w.db.Pass(24 * time.Hour)
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:2"))
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
		}},
		{"a deadline that is skipped while nobody can read which is armed is heard when it comes again", func(w *world) {
			w.takes(placed(theOrder))
			sound := w.text("SELECT state FROM orders")
			w.db.Pass(25 * time.Hour)
			w.drain(&broker{})
			w.tamper("UPDATE orders SET state = '{}'")
			w.expect(workflow.Blocked, expired(theOrder, "inventory-timeout:1"))
			w.acts(workflow.Applied, workflow.SkipMessage, "order-42:inventory-timeout:1")
			w.tamper("UPDATE orders SET state = '" + sound + "'")
			w.expect(workflow.Applied, expired(theOrder, "inventory-timeout:1"))
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
		}},
		{"a hundred lines that cannot be handled hide no other from the sweep", func(w *world) {
			ids := make([]string, 101)
			for n := range ids {
				order := fmt.Sprintf("order-%03d", n)
				ids[n] = order + "/reserved"
				w.takes(placed(order))
			}
			b := w.broken(ids...)
			for n := range ids {
				b.expect(workflow.Blocked, reserved(fmt.Sprintf("order-%03d", n)))
			}
			w.tamper("UPDATE orders SET blocked_by = NULL")
			w.tamper(`UPDATE orders SET state = REPLACE(state, '"schema":1', '"schema":2') WHERE order_id <> 'order-100'`)
			swept, err := w.Sweep(w.Context())
			require.ErrorContains(w, err, "; and 99 more")
			require.Equal(w, 1, swept.Replayed)
			require.Equal(w, "AwaitingPayment 2", w.stands("order-100"))
		}},
		{"a command of a blocked order is sent again once the order goes on: its answer may wait in the line", func(w *world) {
			w.takes(placed(theOrder))
			w.drain(&broker{})
			w.db.Pass(time.Hour)
			w.broken("order-42/reserved").expect(workflow.Blocked, reserved(theOrder))
			before := w.everything()
			d := w.acts(workflow.Rejected, workflow.SendAgain, "order-42:reserve-inventory:1")
			require.Contains(w, d.Reason, "blocked by order-42/reserved")
			require.Equal(w, before, w.everything())
		}},
		{"the last of a line is skipped, and the next message is handled as ever", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder))
			w.acts(workflow.Applied, workflow.SkipMessage, "order-42/reserved")
			require.Empty(w, w.line())
			w.expect(workflow.Applied, as(reserved(theOrder), "order-42/other"))
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
		}},
		{"one that fails as the line is handled blocks the order anew, once, with those behind it", func(w *world) {
			b := w.broken("order-42/placed")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder), shipped(theOrder), sorry(theOrder, workflow.ShipmentFailed))
			tries := 0
			next := &world{T: w.T, db: w.db, Store: w.open(store.Options{
				Apply: func(o workflow.Order, m workflow.Message, held []workflow.Message) workflow.Result {
					if m.ID == "order-42/captured" {
						tries++
						panic("no more luck")
					}
					return workflow.Apply(o, m, held)
				},
			})}
			next.acts(workflow.Applied, workflow.RetryMessage, "order-42/placed")
			require.Equal(w, 1, tries, "there is no loop")
			s := w.story(theOrder)
			require.Equal(w, "order-42/captured", s.BlockedBy)
			require.Equal(w, []string{"captured", "shipped", "ShipmentFailed"}, w.line())
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
			require.Equal(w, []string{
				"order-42/captured Blocked", "order-42/shipped Blocked", "order-42/ShipmentFailed Blocked",
				"order-42:retry-message:5 Applied", "order-42/placed Applied", "order-42/reserved Applied",
			}, w.journal(theOrder), "who waits keeps his place")
			require.Equal(w, "panic: no more luck", s.Journal[0].Reason)
			require.EqualValues(w, 9, s.Revision)
			require.Zero(w, next.swept())
			require.Equal(w, 1, tries)

			w.acts(workflow.Rejected, workflow.RetryMessage, "order-42/placed")
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
			require.Equal(w, "Completed 4", w.stands(theOrder))
			require.Equal(w, []string{"order-42/captured Applied", "order-42/shipped Applied", "order-42/ShipmentFailed Rejected"}, w.journal(theOrder)[4:])
		}},
		{"a message that is retried and fails again blocks the order again, with the new reason", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			for n := range 3 {
				again := &world{T: w.T, db: w.db, Store: w.open(store.Options{
					Apply: func(workflow.Order, workflow.Message, []workflow.Message) workflow.Result { panic(n) },
				})}
				again.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
				s := w.story(theOrder)
				require.Equal(w, "order-42/reserved", s.BlockedBy)
				require.Equal(w, []string{"reserved", "captured"}, w.line())
				require.Equal(w, fmt.Sprint("panic: ", n), s.Journal[1].Reason)
				require.Equal(w, "it waits behind order-42/reserved, which blocks the order", s.Journal[2].Reason)
			}
			w.acts(workflow.Applied, workflow.SkipMessage, "order-42/reserved")
			require.Equal(w, []string{"captured"}, w.early(), "it waits for what was skipped to come otherwise")
			require.Empty(w, w.line())
			w.expect(workflow.Applied, as(reserved(theOrder), "order-42/by-hand"))
			require.Equal(w, "AwaitingShipment 3", w.stands(theOrder))
			w.replays(theOrder)
		}},
		{"250 messages wait and are handled in order, as they came", func(w *world) {
			b := w.broken("order-42/placed")
			came := []workflow.Message{placed(theOrder)}
			for n := range 250 {
				m := as(placed(theOrder), fmt.Sprintf("order-42/m-%03d", n))
				m.Conversation, m.ParentID, m.OriginID = fmt.Sprint("c-", n), fmt.Sprint("p-", n), fmt.Sprint("o-", n)
				m.TraceParent = fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", n+1)
				m.Body = []byte(strings.Replace(string(m.Body), "{", fmt.Sprintf(`{ "note" : "%d ü",  `, n), 1))
				m, err := m.Decode()
				require.NoError(w, err)
				came = append(came, m)
			}
			for _, m := range came {
				b.expect(workflow.Blocked, m)
			}
			kept := w.story(theOrder).Line
			require.Len(w, kept, 251)
			for n := range kept {
				require.Equal(w, came[n].Envelope, kept[n])
			}
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/placed")
			require.Len(w, w.line(), 151, "so many at a time")
			swept, err := w.Sweep(w.Context())
			require.NoError(w, err)
			require.Equal(w, 151, swept.Replayed)
			require.False(w, swept.More)
			require.Empty(w, w.line())
			s := w.story(theOrder)
			require.Len(w, s.Journal, 252)
			for n := range 250 {
				require.Equal(w, fmt.Sprintf("order-42/m-%03d", n), s.Journal[2+n].MessageID)
				require.Equal(w, fmt.Sprint("p-", n), s.Journal[2+n].ParentID)
				require.Equal(w, workflow.Stale, s.Journal[2+n].Outcome)
			}
			require.Equal(w, 250, w.count("journal WHERE outcome = 'Stale' AND traceparent LIKE '00-0af7651916cd43dd8448eb211c80319c-%'"))
		}},
		{"a message that waited causes what it would have caused, with its lineage", func(w *world) {
			m := reserved(theOrder)
			straight := w.straight(placed(theOrder), m)
			b := w.broken(m.ID)
			b.takes(placed(theOrder), m)
			w.acts(workflow.Applied, workflow.RetryMessage, m.ID)
			require.Equal(w, straight, w.told(theOrder))
			sent := w.story(theOrder).Outbox[2]
			require.Equal(w, []string{"order-42:capture-payment:1", m.ID, "conv-7", "orders:order-placed:42", m.TraceParent},
				[]string{sent.ID, sent.ParentID, sent.Conversation, sent.OriginID, sent.TraceParent})
		}},
		{"two processes that go on with a line at once handle each message once, in order", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			b := w.broken("order-42/placed")
			b.takes(placed(theOrder))
			for n := range 250 {
				b.takes(as(placed(theOrder), fmt.Sprintf("m-%03d", n)))
			}
			w.tamper("UPDATE orders SET blocked_by = NULL")
			for round := 0; w.count("journal WHERE outcome = 'Blocked'") > 0; round++ {
				require.Less(w, round, 10)
				var wg sync.WaitGroup
				for _, s := range processes {
					wg.Go(func() { _, _ = s.Sweep(w.Context()) })
				}
				wg.Wait()
			}
			s := w.story(theOrder)
			require.Len(w, s.Journal, 251)
			require.EqualValues(w, 2*251, s.Revision, "each was decided once")
			for n := range 250 {
				require.Equal(w, fmt.Sprintf("m-%03d Stale", n), w.says(s.Journal[1+n]))
			}
			require.Equal(w, []string{"reserve-inventory:1 waiting", "inventory-timeout:1 waiting"}, w.emitted(theOrder))
		}},
		{"what comes in another process while the line is handled comes after it", func(w *world) {
			other := w.open(store.Options{})
			for round := range 25 {
				order := fmt.Sprint("order-", round)
				b := w.broken(order + "/placed")
				b.takes(placed(order))
				var want []string
				for n := range 6 {
					want = append(want, fmt.Sprint("m-", n))
					if n < 3 {
						b.takes(as(placed(order), want[n]))
					}
				}
				var wg sync.WaitGroup
				wg.Go(func() {
					d, err := w.Act(w.Context(), workflow.Action{Kind: workflow.RetryMessage, OrderID: order, Target: order + "/placed", Reason: "again"})
					if err != nil || d.Outcome != workflow.Applied {
						w.Errorf("%v: %s", err, d.Reason)
					}
				})
				wg.Go(func() { // its session, one at a time
					for _, id := range want[3:] {
						if d, err := other.Handle(w.Context(), as(placed(order), id)); err != nil || d.Outcome != workflow.Stale && d.Outcome != workflow.Blocked {
							w.Errorf("%v: %s: %s", err, d.Outcome, d.Reason)
						}
					}
				})
				if round%2 == 1 {
					wg.Go(func() { _, _ = other.Sweep(w.Context()) })
				}
				wg.Wait()
				w.swept()
				require.Empty(w, w.lineOf(order))
				var got []string
				for _, e := range w.story(order).Journal {
					if strings.HasPrefix(e.MessageID, "m-") {
						require.Equal(w, workflow.Stale, e.Outcome)
						got = append(got, e.MessageID)
					}
				}
				require.Equal(w, want, got)
			}
		}},
		{"a message that fails and one that comes at once: neither is lost nor run out of turn", func(w *world) {
			for round := range 20 {
				order := fmt.Sprint("order-", round)
				w.takes(placed(order))
				b := w.broken(order + "/reserved")
				w.atOnce(2, func(n int) (*store.Store, workflow.Message) {
					return []*store.Store{b.Store, w.Store}[n], []workflow.Message{reserved(order), as(placed(order), "copy")}[n]
				})
				require.Equal(w, order+"/reserved", w.story(order).BlockedBy)
				require.Contains(w, [][]string{{"reserved"}, {"reserved", "copy"}}, w.lineOf(order))
				require.Len(w, w.story(order).Journal, 3)
			}
		}},
		{"what an operator decides about a blocked order is refused, with what to do", func(w *world) {
			b := w.broken("order-42/ShipmentConfirmed")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder), as(shipped(theOrder), "order-42/ShipmentConfirmed"))
			before := w.rows("orders", "journal", "outbox")
			for _, kind := range []workflow.MessageType{workflow.Retry, workflow.ResolveCancelled, workflow.ResolveCompleted} {
				m := said(theOrder, workflow.ActionID(theOrder, kind, 3), kind, `"version":3,"reason":"as agreed"`)
				d := w.expect(workflow.Rejected, m)
				require.Equal(w, "the order is blocked by order-42/ShipmentConfirmed: retry or skip that message first", d.Reason)
			}
			require.Equal(w, before, w.rows("orders", "journal", "outbox"))
			require.Len(w, w.story(theOrder).Rejected, 3)
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/ShipmentConfirmed")
			require.Equal(w, "Completed 4", w.stands(theOrder))
		}},
		{"what an operator decides while a line is left waits its turn, and is held against the version that was seen", func(w *world) {
			b := w.broken("order-42/again")
			b.takes(placed(theOrder), as(placed(theOrder), "order-42/again"), reserved(theOrder))
			w.tamper("UPDATE orders SET blocked_by = NULL")
			m := said(theOrder, workflow.ActionID(theOrder, workflow.Retry, 1), workflow.Retry, `"version":1,"reason":"as agreed"`)
			w.expect(workflow.Blocked, m)
			require.Empty(w, w.line())
			require.Contains(w, w.story(theOrder).Rejected[0].Reason, "is at version 2 now")
		}},
		{"a cancellation waits in the line like any other", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder), sorry(theOrder, workflow.CancellationRequested))
			require.Equal(w, []string{"reserved", "CancellationRequested"}, w.line())
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, "Compensating 3", w.stands(theOrder))
			require.Equal(w, []string{"capture-payment:1 closed", "payment-timeout:1 closed", "release-inventory:1 waiting", "compensation-timeout:1 waiting"},
				w.emitted(theOrder)[2:])
		}},
		{"a deadline in the line is decided by the time at which its turn comes", func(w *world) {
			for _, c := range []struct {
				says    string
				wait    time.Duration // until its turn
				first   workflow.Message
				stands  string
				outcome workflow.Outcome
				armed   string
			}{
				{"not due", 0, as(placed(theOrder), "order-42/first"), "AwaitingInventory 2", workflow.Applied, "order-42:inventory-timeout:2"},
				{"due", 24 * time.Hour, as(placed(theOrder), "order-42/first"), "Cancelled 2", workflow.Applied, ""},
				{"no longer armed", 24 * time.Hour, as(reserved(theOrder), "order-42/first"), "AwaitingPayment 2", workflow.Stale, "order-42:payment-timeout:1"},
			} {
				w.empty()
				b := w.broken("order-42/first")
				b.takes(placed(theOrder), c.first)
				due := w.story(theOrder).DeadlineAt
				b.expect(workflow.Blocked, expired(theOrder, "inventory-timeout:1"))
				w.db.Pass(c.wait)
				w.acts(workflow.Applied, workflow.RetryMessage, "order-42/first")
				require.Equal(w, c.stands, w.stands(theOrder), c.says)
				s := w.story(theOrder)
				require.Equal(w, c.outcome, s.Journal[len(s.Journal)-1].Outcome, c.says)
				require.Equal(w, "order-42:inventory-timeout:1", s.Journal[len(s.Journal)-1].MessageID)
				require.Equal(w, c.armed, s.Order.Armed, c.says)
				if c.wait == 0 {
					require.Equal(w, due, s.DeadlineAt, "armed again for the same time")
				}
				w.replays(theOrder)
			}
		}},
		{"a deadline that waits in the line does not count as lost, and is not sent again", func(w *world) {
			b := w.broken("order-42/again")
			b.takes(placed(theOrder), as(placed(theOrder), "order-42/again"))
			w.db.Pass(24 * time.Hour)
			w.drain(&broker{})
			b.expect(workflow.Blocked, expired(theOrder, "inventory-timeout:1"))
			w.db.Pass(24 * time.Hour)
			done, err := w.Sweep(w.Context())
			require.NoError(w, err)
			require.Zero(w, done.Resent)
			backlog, err := w.Backlog(w.Context())
			require.NoError(w, err)
			require.Zero(w, backlog.Overdue)
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/again")
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
		}},
		{"a deadline that fails blocks its order, and is as due when it is retried", func(w *world) {
			b := w.broken("order-42:inventory-timeout:1")
			b.takes(placed(theOrder))
			w.db.Pass(24 * time.Hour)
			b.expect(workflow.Blocked, expired(theOrder, "inventory-timeout:1"))
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42:inventory-timeout:1")
			require.Equal(w, "Cancelled 2", w.stands(theOrder))
		}},
		{"a deadline that was heard of before it was armed waits in the line as the armed one, and may block", func(w *world) {
			for _, blocked := range []bool{true, false} {
				w.empty()
				w.expect(workflow.Stale, expired(theOrder, "inventory-timeout:1")) // as after the database was put back
				b := w.broken("order-42/again", "order-42:inventory-timeout:1")
				b.takes(placed(theOrder))
				armed := expired(theOrder, "inventory-timeout:1").Envelope // as its row says it
				armed.Body = workflow.DeadlineBody(theOrder, armed.ID, w.story(theOrder).DeadlineAt)
				real, err := armed.Decode()
				require.NoError(w, err)
				w.db.Pass(24 * time.Hour)
				if blocked {
					b.expect(workflow.Blocked, as(placed(theOrder), "order-42/again"))
				}
				b.expect(workflow.Blocked, real)
				w.expect(workflow.Duplicate, real)
				w.acts(workflow.Applied, workflow.RetryMessage, w.story(theOrder).BlockedBy)
				require.Empty(w, w.line())
				require.Equal(w, "Cancelled 2", w.stands(theOrder))
				w.expect(workflow.Duplicate, real)
			}
		}},
		{"a command that dies while its order is blocked is dead, and the order hears of it in its turn", func(w *world) {
			b := w.broken("order-42/again")
			b.takes(placed(theOrder), as(placed(theOrder), "order-42/again"))
			claimed, _ := w.claim("t", time.Minute)
			require.NoError(w, w.Bury(w.Context(), "t", claimed[0], "too large"))
			require.Equal(w, "reserve-inventory:1 dead", w.emitted(theOrder)[0])
			require.Equal(w, []string{"again", "order-42:reserve-inventory:1:dead:1"}, w.line())
			require.Empty(w, w.story(theOrder).Order.Problem)
			before := w.everything()
			require.NoError(w, w.Bury(w.Context(), "t", claimed[0], "too large"))
			require.Equal(w, before, w.everything(), "it died once")
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/again")
			require.Equal(w, "order-42:reserve-inventory:1 could not be sent: too large", w.story(theOrder).Order.Problem)
			require.Equal(w, "AwaitingInventory 2", w.stands(theOrder))
			w.replays(theOrder)
		}},
		{"the news of a command's death may itself fail: the command is dead, and the order blocked", func(w *world) {
			b := w.broken("order-42:reserve-inventory:1:dead:1")
			b.takes(placed(theOrder))
			claimed, _ := b.claim("t", time.Minute)
			require.NoError(w, b.Bury(w.Context(), "t", claimed[0], "too large"))
			require.Equal(w, "reserve-inventory:1 dead", w.emitted(theOrder)[0])
			require.Equal(w, "order-42:reserve-inventory:1:dead:1", w.story(theOrder).BlockedBy)
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42:reserve-inventory:1:dead:1")
			require.Contains(w, w.story(theOrder).Order.Problem, "could not be sent: too large")
		}},
		{"state that a newer program wrote blocks nothing by itself, nor does the line go on over it", func(w *world) {
			b := w.broken("order-42/reserved")
			b.takes(placed(theOrder), reserved(theOrder), captured(theOrder))
			w.tamper(`UPDATE orders SET blocked_by = NULL, state = REPLACE(state, '"schema":1', '"schema":2')`)
			before := w.everything()
			_, err := w.Sweep(w.Context())
			require.ErrorIs(w, err, workflow.ErrTransient)
			require.Equal(w, before, w.everything())
			state := w.text("SELECT state FROM orders")
			w.expect(workflow.Blocked, shipped(theOrder)) // what comes can wait all the same
			require.Equal(w, state, w.text("SELECT state FROM orders"))

			w.takes(placed("order-43"))
			w.broken("order-43/reserved").takes(reserved("order-43"))
			w.tamper("UPDATE orders SET blocked_by = NULL")
			done, err := w.Sweep(w.Context())
			require.ErrorIs(w, err, workflow.ErrTransient)
			require.Equal(w, 1, done.Replayed, "the other order's goes on")
			require.True(w, done.More)
			w.tamper(`UPDATE orders SET state = REPLACE(state, '"schema":2', '"schema":1')`)
			require.Equal(w, 3, w.swept())
			require.Equal(w, "Completed 4", w.stands(theOrder))
		}},
		{"a message to an order that a newer program wrote can be held, and is handled once that program is back", func(w *world) {
			w.takes(placed(theOrder))
			w.tamper(`UPDATE orders SET state = REPLACE(state, '"schema":1', '"schema":2')`)
			_, err := w.Handle(w.Context(), reserved(theOrder))
			require.ErrorIs(w, err, workflow.ErrTransient)
			d, err := w.Hold(w.Context(), reserved(theOrder), "delivery 8 failed")
			require.NoError(w, err)
			require.Equal(w, workflow.Blocked, d.Outcome)
			w.tamper(`UPDATE orders SET state = REPLACE(state, '"schema":2', '"schema":1')`)
			w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
			require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
		}},
		{"a kept message that cannot be read any more blocks its order when its turn comes", func(w *world) {
			for _, action := range []workflow.ActionKind{workflow.RetryMessage, workflow.SkipMessage} {
				w.empty()
				b := w.broken("order-42/reserved")
				b.takes(placed(theOrder), reserved(theOrder), captured(theOrder), shipped(theOrder))
				w.takes(placed("order-43"), captured("order-43"))
				sound := "UPDATE journal SET schema_version = '1' WHERE message_id = 'order-42/captured'"
				w.tamper(`UPDATE journal SET schema_version = '9' WHERE message_id = 'order-42/captured'`)
				w.acts(workflow.Applied, workflow.RetryMessage, "order-42/reserved")
				require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy)
				require.Equal(w, []string{"captured", "shipped"}, w.line())
				require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
				require.Contains(w, w.story(theOrder).Journal[1].Reason, `what was kept of it cannot be read: malformed message: SchemaVersion "9"`)
				w.acts(workflow.Applied, workflow.RetryMessage, "order-42/captured")
				require.Equal(w, "order-42/captured", w.story(theOrder).BlockedBy, "it fails again")
				if action == workflow.RetryMessage {
					w.tamper(sound)
				}
				w.acts(workflow.Applied, action, "order-42/captured")
				require.Empty(w, w.line())
				if action == workflow.RetryMessage {
					require.Equal(w, "Completed 4", w.stands(theOrder))
				} else {
					require.Equal(w, "AwaitingPayment 2", w.stands(theOrder))
					require.Equal(w, []string{"shipped"}, w.early())
				}
			}
		}},
	}
}

// says is a journal line as journal tells it.
func (w *world) says(e workflow.Entry) string { return e.MessageID + " " + string(e.Outcome) }

// blocked reports whether a message blocks the order; an order that is not known
// is not blocked.
func (w *world) blocked() bool {
	w.Helper()
	return w.count("orders WHERE order_id = '"+theOrder+"' AND blocked_by IS NOT NULL") > 0
}
