package storetest

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// lists walks through all pages of a search and names the orders, as they come.
func (w *world) lists(q workflow.Search) (ids []string) {
	w.Helper()
	for pages := 0; ; pages++ {
		p, err := w.Orders(w.Context(), q)
		require.NoError(w, err)
		for _, l := range p.Items {
			ids = append(ids, l.Order.ID)
		}
		if q.After = p.Next; p.Next == "" {
			return ids
		}
		require.NotEmpty(w, p.Items)
		require.Less(w, pages, 10_000)
	}
}

// walks walks through all pages of any list.
func walks[T any](w *world, page func(after string) (workflow.Page[T], error)) (all []T) {
	w.Helper()
	for after := ""; ; {
		p, err := page(after)
		require.NoError(w, err)
		all = append(all, p.Items...)
		if after = p.Next; after == "" {
			return all
		}
	}
}

func (w *world) dispatches(state string, deadlines bool, top int) (ids []string) {
	w.Helper()
	for _, d := range walks(w, func(after string) (workflow.Page[workflow.DispatchAt], error) {
		return w.Dispatches(w.Context(), state, deadlines, top, after)
	}) {
		require.Equal(w, d.OrderID, d.Outgoing.OrderID)
		ids = append(ids, d.ID)
	}
	return ids
}

func (w *world) keptMessages(outcome workflow.Outcome, top int) (ids []string) {
	w.Helper()
	for _, k := range walks(w, func(after string) (workflow.Page[workflow.Kept], error) {
		return w.Kept(w.Context(), outcome, top, after)
	}) {
		require.Equal(w, outcome, k.Outcome)
		ids = append(ids, k.ID)
	}
	return ids
}

func searching() []scenario {
	return []scenario{
		{"an order in a list says how it stands, and what keeps it", func(w *world) {
			begun := w.db.Now()
			w.takes(placed(theOrder))
			w.dies(theOrder)
			w.db.Pass(time.Hour)
			w.takes(captured(theOrder), shipped(theOrder))
			w.db.Pass(time.Minute)
			w.broken("bad").expect(workflow.Blocked, as(reserved(theOrder), "bad"))
			p, err := w.Orders(w.Context(), workflow.Search{})
			require.NoError(w, err)
			s := w.story(theOrder)
			require.Equal(w, workflow.Page[workflow.Listed]{Items: []workflow.Listed{{
				Order: s.Order, Revision: s.Revision, CreatedAt: s.CreatedAt, Since: s.Since, UpdatedAt: s.UpdatedAt, BlockedBy: "bad",
				DeadlineAt: s.DeadlineAt, Dead: 1, Held: 2, HeldSince: begun.Add(time.Hour).Truncate(time.Microsecond),
			}}}, p)
			require.Equal(w, p.Items[0], s.Listed(), "its story says the same")
			w.acts(workflow.Applied, workflow.SkipMessage, "bad")
			w.acts(workflow.Applied, workflow.SendAgain, "order-42:reserve-inventory:1")
			p, err = w.Orders(w.Context(), workflow.Search{})
			require.NoError(w, err)
			require.Equal(w, []any{0, "", w.db.Now().Truncate(time.Microsecond)}, []any{p.Items[0].Dead, p.Items[0].BlockedBy, p.Items[0].Waiting})
			s = w.story(theOrder)
			require.Equal(w, p.Items[0], s.Listed(), "since it was sent again")
		}},
		{"without orders every list is empty, and so is the summary", func(w *world) {
			require.Empty(w, w.lists(workflow.Search{}))
			sum, err := w.Summary(w.Context())
			require.NoError(w, err)
			require.Empty(w, sum.ByStatus)
			require.WithinDuration(w, w.db.Now(), sum.ReadAt, time.Microsecond)
			for _, state := range []string{workflow.DispatchWaiting, workflow.DispatchSent, workflow.DispatchRecall, workflow.DispatchDead} {
				require.Empty(w, w.dispatches(state, false, 0))
				require.Empty(w, w.dispatches(state, true, 0))
			}
			require.Empty(w, w.dispatches("", true, 0))
			require.Empty(w, w.keptMessages(workflow.Held, 0))
			require.Empty(w, w.keptMessages(workflow.Blocked, 0))
		}},
		{"those last decided about come first, whatever their status, on pages of any length", func(w *world) {
			var want []string
			for n, order := range orders(30) {
				w.takes(placed(order))
				if n%3 == 1 {
					w.takes(sorry(order, workflow.CancellationRequested))
				}
				if n%3 == 2 {
					w.takes(reserved(order))
				}
				want = append(want, order)
				if n%4 == 0 { // else several of the same moment
					w.db.Pass(time.Microsecond)
				}
			}
			for _, top := range []int{1, 2, 7, 29, 30, 31, 1000} {
				ids := w.lists(workflow.Search{Top: top})
				require.ElementsMatch(w, want, ids, "%d", top)
				require.Equal(w, w.lists(workflow.Search{}), ids)
				oldest := w.lists(workflow.Search{Top: top, Oldest: true})
				slices.Reverse(oldest)
				require.Equal(w, ids, oldest)
				at := func(id string) time.Time { return w.story(id).UpdatedAt }
				if top == 7 {
					require.True(w, slices.IsSortedFunc(ids, func(a, b string) int { return at(b).Compare(at(a)) }))
				}
			}
			w.db.Pass(time.Microsecond)
			w.takes(captured("order-17"))
			require.Equal(w, "order-17", w.lists(workflow.Search{Top: 3})[0])
		}},
		{"an order is listed exactly if all is true of it that is asked for", func(w *world) {
			begun := w.db.Now().Truncate(time.Microsecond)
			b := w.broken("order-3/reserved", "order-13/reserved")
			for n, order := range orders(24) {
				w.takes(placed(order))
				w.db.Pass(time.Duration(n%5) * time.Second)
				switch n % 4 {
				case 1:
					w.takes(reserved(order))
				case 2:
					w.takes(sorry(order, workflow.CancellationRequested))
				case 3:
					b.takes(reserved(order))
				}
				w.db.Pass(time.Duration(n%2) * time.Second)
			}
			w.broken("order-13/x").expect(workflow.Blocked, as(reserved("order-13"), "order-13/x"))
			all, err := w.Orders(w.Context(), workflow.Search{Top: 1000})
			require.NoError(w, err)
			require.Len(w, all.Items, 24)
			blocked := w.lists(workflow.Search{Blocked: true, Top: 1})
			require.Len(w, blocked, 2)
			slices.Reverse(blocked)
			require.Equal(w, blocked, w.lists(workflow.Search{Blocked: true, Oldest: true, Top: 1}))
			late := workflow.Search{UpdatedFrom: all.Items[12].UpdatedAt}
			ofAll := late
			ofAll.Prefix = "order-"
			require.Equal(w, w.lists(late), w.lists(ofAll))
			require.Less(w, len(w.lists(late)), 24)
			rapid.Check(w.T, func(t *rapid.T) {
				moment := func(name string) (at time.Time) {
					if rapid.Bool().Draw(t, name) {
						at = begun.Add(time.Duration(rapid.IntRange(-1, 70).Draw(t, name+" at")) * time.Second)
					}
					return at
				}
				q := workflow.Search{
					Statuses: rapid.SliceOfN(rapid.SampledFrom([]workflow.Status{
						workflow.AwaitingInventory, workflow.AwaitingPayment, workflow.Cancelled, workflow.Completed,
					}), 0, 3).Draw(t, "statuses"),
					Prefix:      rapid.SampledFrom([]string{"", "", "", "", "", "", "", "", "", "", "o", "order-", "order-1", "order-13", "order-2", "order-9", "orders", "O", "order-%", "order_1"}).Draw(t, "prefix"),
					CreatedFrom: moment("created from"), CreatedTo: moment("created to"), UpdatedFrom: moment("updated from"), UpdatedTo: moment("updated to"),
					Blocked: rapid.IntRange(0, 3).Draw(t, "blocked") == 0, Oldest: rapid.Bool().Draw(t, "oldest"),
					Top: rapid.SampledFrom([]int{0, 1, 3, 1000}).Draw(t, "top"),
				}
				var want []string
				for _, l := range all.Items {
					within := func(at, from, to time.Time) bool {
						return (from.IsZero() || !at.Before(from)) && (to.IsZero() || at.Before(to))
					}
					if (len(q.Statuses) == 0 || slices.Contains(q.Statuses, l.Order.Status)) && strings.HasPrefix(l.Order.ID, q.Prefix) &&
						within(l.CreatedAt, q.CreatedFrom, q.CreatedTo) && within(l.UpdatedAt, q.UpdatedFrom, q.UpdatedTo) &&
						(!q.Blocked || l.BlockedBy != "") {
						want = append(want, l.Order.ID)
					}
				}
				if q.Oldest {
					slices.Reverse(want)
				}
				require.Equal(t, want, w.lists(q), "%+v", q)
			})
		}},
		{"at the ends of time nothing is found, and everything between them", func(w *world) {
			w.takes(placed(theOrder))
			last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
			for _, late := range []time.Time{last, last.Add(time.Hour), last.In(time.FixedZone("", -14*3600))} {
				require.Empty(w, w.lists(workflow.Search{CreatedFrom: late}), late)
				require.Empty(w, w.lists(workflow.Search{UpdatedFrom: late}), late)
				require.Len(w, w.lists(workflow.Search{CreatedTo: late, UpdatedTo: late}), 1, late)
			}
			early := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
			require.Len(w, w.lists(workflow.Search{CreatedFrom: early, UpdatedFrom: early}), 1)
			require.Empty(w, w.lists(workflow.Search{CreatedTo: early}))
			require.Empty(w, w.lists(workflow.Search{UpdatedTo: early}))
		}},
		{"a prefix is letters and no pattern: of hostile ones nothing is found, and nothing else happens", func(w *world) {
			w.takes(placed("order-1"), placed("order_1"), placed("Order-1"), placed("orderX1"), placed("~"), placed("o"))
			for prefix, want := range map[string][]string{
				"order-": {"order-1"}, "order_": {"order_1"}, "Order": {"Order-1"}, "~": {"~"}, "o": {"orderX1", "order_1", "order-1", "o"},
				"_": nil, "order-1": {"order-1"}, "order-10": nil,
				"%": nil, "order%": nil, "order[-_]": nil, "[": nil, "o?": nil, "*": nil, "' OR 1=1 --": nil, "order-1 ": nil, " ": nil,
				"é": nil, "\x00": nil, "\xff": nil, "\n": nil, strings.Repeat("o", 97): nil, strings.Repeat("x", 100_000): nil, "😀": nil,
			} {
				require.ElementsMatch(w, want, w.lists(workflow.Search{Prefix: prefix, Top: 1}), "%.40q", prefix)
			}
			require.Equal(w, 6, w.count("orders"))
		}},
		{"a prefix that very many orders have is found as well as one that few have", func(w *world) {
			w.takes(placed("or_er"), placed("order"))
			w.db.Pass(time.Second)
			w.multiply("orders", "order_id, revision, version, status, created_at, since, updated_at, state", 11)
			w.db.Pass(time.Second)
			w.takes(reserved("or_er"), reserved("order"))
			require.Len(w, w.lists(workflow.Search{Prefix: "order", Top: 1000}), 2048)
			require.Len(w, w.lists(workflow.Search{Prefix: "or_er", Top: 1000}), 2048, "its letters stand for themselves")
			require.Len(w, w.lists(workflow.Search{Prefix: "o", Top: 1000}), 4096)
			require.Len(w, w.lists(workflow.Search{Prefix: "o", Top: 1000, Oldest: true}), 4096)
			require.Equal(w, "order", w.lists(workflow.Search{Prefix: "order", Top: 1000})[0], "which was decided about last")
			require.Len(w, w.lists(workflow.Search{Prefix: "orderab", Top: 3}), 512, "few enough to look at each")
			require.Equal(w, []string{"order"}, w.lists(workflow.Search{Prefix: "order", Statuses: []workflow.Status{workflow.AwaitingPayment}}))
		}},
		{"while orders move, whoever reads the pages sees each that does not exactly once", func(w *world) {
			names := orders(60)
			for n, order := range names {
				w.takes(placed(order))
				if n%7 == 0 {
					w.db.Pass(time.Microsecond)
				}
			}
			moving, still := names[:30], names[30:]
			other := w.open(store.Options{})
			ctx, stop := context.WithCancel(w.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				for round := 0; ctx.Err() == nil; round++ {
					for _, order := range moving {
						w.db.Pass(time.Microsecond)
						if _, err := other.Handle(context.WithoutCancel(ctx), as(placed(order), fmt.Sprint("again-", round))); err != nil {
							w.Errorf("%s: %v", order, err)
						}
					}
				}
			})
			for _, top := range []int{1, 4, 9, 50, 1, 4} {
				times := make(map[string]int)
				for _, id := range w.lists(workflow.Search{Top: top}) {
					times[id]++
				}
				for _, order := range still {
					require.Equal(w, 1, times[order], "%s on pages of %d", order, top)
				}
			}
			stop()
			wg.Wait()
		}},
		{"a continuation is one of its list as it was given, or an error", func(w *world) {
			for _, order := range orders(3) {
				w.takes(placed(order), captured(order))
			}
			p, err := w.Orders(w.Context(), workflow.Search{Top: 1})
			require.NoError(w, err)
			require.NotEmpty(w, p.Next)
			require.NotContains(w, p.Next, "order-")
			k, err := w.Kept(w.Context(), workflow.Held, 1, "")
			require.NoError(w, err)
			d, err := w.Dispatches(w.Context(), workflow.DispatchWaiting, false, 1, "")
			require.NoError(w, err)
			raw, err := base64.RawURLEncoding.DecodeString(p.Next)
			require.NoError(w, err)
			changed := []string{
				"x", "%", " ", p.Next[1:], p.Next + "A", strings.ToUpper(p.Next), p.Next[:len(p.Next)-1], k.Next, d.Next, strings.Repeat("A", 100_000), "=" + p.Next,
				base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(raw), "order-", "order_", 1))),
				base64.RawURLEncoding.EncodeToString(raw[:12]), base64.RawURLEncoding.EncodeToString([]byte(`{"id":"order-1"}`)),
			}
			for _, after := range changed {
				_, err := w.Orders(w.Context(), workflow.Search{Top: 1, After: after})
				require.ErrorIs(w, err, workflow.ErrBadInput, "%.60q", after)
				_, err = w.Rejections(w.Context(), 1, after)
				require.ErrorIs(w, err, workflow.ErrBadInput)
			}
			for _, q := range []workflow.Search{
				{Prefix: "o"}, {Blocked: true}, {Oldest: true}, {Statuses: []workflow.Status{workflow.Completed}}, {UpdatedTo: w.db.Now()}, {CreatedFrom: w.db.Now()},
			} {
				q.After = p.Next
				_, err := w.Orders(w.Context(), q)
				require.ErrorIs(w, err, workflow.ErrBadInput, "it continues another search")
			}
			_, err = w.Orders(w.Context(), workflow.Search{Top: 2, After: p.Next})
			require.NoError(w, err, "the length of a page is no part of the search")
			_, err = w.Kept(w.Context(), workflow.Blocked, 1, k.Next)
			require.ErrorIs(w, err, workflow.ErrBadInput)
			_, err = w.Dispatches(w.Context(), workflow.DispatchWaiting, true, 1, d.Next)
			require.ErrorIs(w, err, workflow.ErrBadInput)
		}},
		{"what makes no sense is refused with the reason: a page too long, a state, an outcome, a status", func(w *world) {
			for _, top := range []int{-1, 1001} {
				_, err := w.Orders(w.Context(), workflow.Search{Top: top})
				require.ErrorIs(w, err, workflow.ErrBadInput)
				_, err = w.Dispatches(w.Context(), workflow.DispatchDead, false, top, "")
				require.ErrorIs(w, err, workflow.ErrBadInput)
				_, err = w.Kept(w.Context(), workflow.Held, top, "")
				require.ErrorIs(w, err, workflow.ErrBadInput)
				_, err = w.Rejections(w.Context(), top, "")
				require.ErrorIs(w, err, workflow.ErrBadInput)
				require.ErrorContains(w, err, "1 to 1000")
			}
			for _, state := range []string{"", "closed", "Waiting", "' OR 1=1"} {
				_, err := w.Dispatches(w.Context(), state, false, 0, "")
				require.ErrorIs(w, err, workflow.ErrBadInput, state)
			}
			for _, outcome := range []workflow.Outcome{"", workflow.Applied, "held"} {
				_, err := w.Kept(w.Context(), outcome, 0, "")
				require.ErrorIs(w, err, workflow.ErrBadInput, outcome)
			}
			for _, status := range []workflow.Status{"", " ", "a\x00b", workflow.Status(strings.Repeat("x", 65))} {
				_, err := w.Orders(w.Context(), workflow.Search{Statuses: []workflow.Status{status}})
				require.ErrorIs(w, err, workflow.ErrBadInput, "%q", status)
			}
		}},
		{"orders whose state cannot be read, or that a newer program wrote, are listed all the same", func(w *world) {
			w.takes(placed("order-1"), placed("order-2"))
			w.tamper(`UPDATE orders SET state = '{}' WHERE order_id = 'order-1'`)
			w.tamper(`UPDATE orders SET status = 'AwaitingGift' WHERE order_id = 'order-2'`)
			p, err := w.Orders(w.Context(), workflow.Search{})
			require.NoError(w, err)
			require.Len(w, p.Items, 1, "a status that is not known has to be asked for by name")
			require.Contains(w, p.Items[0].Order.Problem, "there is no order in it")
			p, err = w.Orders(w.Context(), workflow.Search{Statuses: []workflow.Status{"AwaitingGift"}})
			require.NoError(w, err)
			require.Contains(w, p.Items[0].Order.Problem, "a newer program")
			sum, err := w.Summary(w.Context())
			require.NoError(w, err)
			require.Equal(w, map[workflow.Status]int{"AwaitingInventory": 1, "AwaitingGift": 1}, sum.ByStatus)
		}},
		{"the summary counts the orders of every status, and what is not done", func(w *world) {
			for n, order := range orders(12) {
				w.takes(placed(order))
				if n < 5 {
					w.takes(sorry(order, workflow.CancellationRequested))
				}
			}
			w.takes(captured("early"))
			w.dies("order-11")
			w.ends(w.Store, "ended")
			for range 2 {
				sum, err := w.Summary(w.Context())
				require.NoError(w, err)
				require.Equal(w, map[workflow.Status]int{
					workflow.NotStarted: 1, workflow.AwaitingInventory: 7, workflow.Cancelled: 5, workflow.Completed: 1,
				}, sum.ByStatus)
				require.Equal(w, w.backlog(), sum.Backlog)
				require.Equal(w, 1, sum.Backlog.Dead)
				require.WithinDuration(w, w.db.Now(), sum.ReadAt, time.Microsecond)
			}
			w.takes(sorry("order-10", workflow.CancellationRequested))
			sum, err := w.Summary(w.Context())
			require.NoError(w, err)
			require.Equal(w, []int{6, 6}, []int{sum.ByStatus[workflow.AwaitingInventory], sum.ByStatus[workflow.Cancelled]})
		}},
		{"the rows of the outbox are listed by state across orders, on pages", func(w *world) {
			const command, deadline = "%s:reserve-inventory:1", "%s:inventory-timeout:1"
			var commands, deadlines []string
			for _, order := range orders(5) {
				w.takes(placed(order))
				w.db.Pass(time.Second)
				commands, deadlines = append(commands, fmt.Sprintf(command, order)), append(deadlines, fmt.Sprintf(deadline, order))
			}
			for _, top := range []int{1, 2, 5, 1000} {
				require.Equal(w, commands, w.dispatches(workflow.DispatchWaiting, false, top))
				require.Equal(w, deadlines, w.dispatches(workflow.DispatchWaiting, true, top))
				require.Equal(w, deadlines, w.dispatches("", true, top), "all are armed")
			}
			p, err := w.Dispatches(w.Context(), workflow.DispatchWaiting, true, 1, "")
			require.NoError(w, err)
			require.Equal(w, w.story("order-0").Outbox[1], p.Items[0].Dispatch)
			p, err = w.Dispatches(w.Context(), workflow.DispatchWaiting, false, 1, "")
			require.NoError(w, err)
			require.Empty(w, p.Items[0].Body, "there may be a thousand on a page")

			w.dies("order-3")
			w.dies("order-1")
			require.Equal(w, []string{commands[1], commands[3]}, w.dispatches(workflow.DispatchDead, false, 1))
			require.Empty(w, w.dispatches(workflow.DispatchDead, true, 1), "a deadline never dies")
			w.sends()
			require.Equal(w, []string{commands[0], commands[2], commands[4]}, w.dispatches(workflow.DispatchSent, false, 2))

			w.db.Pass(24*time.Hour - 2*time.Minute)
			w.handsOver("order-2", 7) // before those of the others
			w.handsOver("order-4", 7)
			require.Equal(w, []string{deadlines[2], deadlines[4]}, w.dispatches(workflow.DispatchSent, true, 1))
			for _, top := range []int{1, 2, 3, 4, 1000} {
				require.Equal(w, []string{deadlines[2], deadlines[4], deadlines[0], deadlines[1], deadlines[3]}, w.dispatches("", true, top), "those at the broker come first")
			}
			w.takes(sorry("order-2", workflow.CancellationRequested))
			for _, either := range []bool{true, false} {
				require.Equal(w, []string{deadlines[2]}, w.dispatches(workflow.DispatchRecall, either, 1))
			}
			require.Equal(w, []string{deadlines[4], deadlines[0], deadlines[1], deadlines[3]}, w.dispatches("", true, 3))
		}},
		{"messages that wait are listed across orders, as they are to be handled, with all that was kept but their bytes", func(w *world) {
			var early, line []string
			b := w.broken("order-1/placed", "order-4/placed")
			for _, order := range orders(6) {
				m := captured(order)
				m.Delivery = workflow.Delivery{Function: "payment-result", Count: 2}
				w.takes(m, shipped(order))
				early = append(early, m.ID, shipped(order).ID)
				if order == "order-1" || order == "order-4" {
					b.expect(workflow.Blocked, placed(order))
					b.expect(workflow.Blocked, reserved(order))
					line = append(line, placed(order).ID, reserved(order).ID)
				}
			}
			for _, top := range []int{1, 2, 3, 1000} {
				require.Equal(w, early, w.keptMessages(workflow.Held, top))
				require.Equal(w, line, w.keptMessages(workflow.Blocked, top))
			}
			p, err := w.Kept(w.Context(), workflow.Held, 1, "")
			require.NoError(w, err)
			without := captured("order-0").Envelope
			without.Body = nil
			require.Equal(w, workflow.Kept{
				OrderID: "order-0", Envelope: without, Size: int64(len(captured("order-0").Body)), Outcome: workflow.Held, Reason: "too early while the order is NotStarted",
				ReceivedAt: w.db.Now().Truncate(time.Microsecond), Delivery: workflow.Delivery{Function: "payment-result", Count: 2},
			}, p.Items[0])
			p, err = w.Kept(w.Context(), workflow.Blocked, 1, "")
			require.NoError(w, err)
			require.Contains(w, p.Items[0].Reason, "no luck")
		}},
	}
}
