package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// nonsense is a rejected message.
func nonsense(id string) workflow.Rejection {
	return workflow.Rejection{
		Envelope: workflow.Envelope{ID: id, Type: "Nonsense", OrderID: theOrder, Conversation: "c", ParentID: "p", OriginID: "o", Schema: "9", TraceParent: "t", Body: []byte("{] " + id)},
		Delivery: workflow.Delivery{Function: "order-placed", Count: 3}, Reason: "malformed message", Fingerprint: "f",
	}
}

// rejects keeps messages, each a second after the one before.
func (w *world) rejects(ids ...string) {
	w.Helper()
	for _, id := range ids {
		require.NoError(w, w.Reject(w.Context(), nonsense(id)))
		w.db.Pass(time.Second)
	}
}

// openRejections lists the rejected messages that are open.
func (w *world) openRejections() (all []workflow.Refused) {
	w.Helper()
	return walks(w, func(after string) (workflow.Page[workflow.Refused], error) {
		return w.Rejections(w.Context(), 2, after)
	})
}

func (w *world) stillOpen() (ids []string) {
	w.Helper()
	for _, m := range w.openRejections() {
		ids = append(ids, m.Envelope.ID)
	}
	return ids
}

// theRefused is the ID under which a rejected message that is open is kept.
func (w *world) theRefused(messageID string) string {
	w.Helper()
	all := w.openRejections()
	i := slices.IndexFunc(all, func(m workflow.Refused) bool { return m.Envelope.ID == messageID })
	require.GreaterOrEqual(w, i, 0, messageID)
	return all[i].ID
}

func settling() []scenario {
	return []scenario{
		{"rejected messages are listed newest first, with all that is known of them but their bytes, which come one at a time", func(w *world) {
			w.rejects("m-1", "m-2", "m-3", "m-4", "m-5")
			again := w.db.Now().Truncate(time.Microsecond)
			w.rejects("m-2")
			require.Equal(w, []string{"m-5", "m-4", "m-3", "m-2", "m-1"}, w.stillOpen(), "by when it first came, which does not move")
			m := w.openRejections()[3]
			want := nonsense("m-2")
			want.Body = nil
			require.Equal(w, workflow.Refused{
				ID: m.ID, Rejection: want, Size: int64(len("{] m-2")), FirstAt: again.Add(-4 * time.Second), LastAt: again, Times: 2, Open: true,
			}, m)
			whole, err := w.Rejection(w.Context(), m.ID)
			require.NoError(w, err)
			m.Body = []byte("{] m-2")
			require.Equal(w, m, whole)
		}},
		{"whoever reads the pages misses none and sees none twice while others come", func(w *world) {
			for n := range 20 {
				w.rejects(fmt.Sprint("m-", n))
			}
			seen := make(map[string]int)
			after := ""
			for n := 0; ; n++ {
				p, err := w.Rejections(w.Context(), 3, after)
				require.NoError(w, err)
				for _, m := range p.Items {
					seen[m.Envelope.ID]++
				}
				w.rejects(fmt.Sprint("new-", n), fmt.Sprint("m-", n))
				if after = p.Next; after == "" {
					break
				}
			}
			require.Len(w, seen, 20)
			for id, times := range seen {
				require.Equal(w, 1, times, id)
			}
		}},
		{"a message under an unknown ID is no message, whatever the ID", func(w *world) {
			w.rejects("m-1")
			for _, id := range []string{"", "m-1", "%", "' OR 1=1 --", strings.Repeat("a", 64), strings.Repeat("a", 10_000), "\x00", "\xff"} {
				_, err := w.Rejection(w.Context(), id)
				require.ErrorIs(w, err, workflow.ErrNoMessage, "%.40q", id)
				require.ErrorIs(w, w.Discard(w.Context(), id, "ada", "why"), workflow.ErrNoMessage)
				require.ErrorIs(w, w.Resubmitted(w.Context(), id, "ada", "why"), workflow.ErrNoMessage)
			}
			require.Len(w, w.openRejections(), 1)
		}},
		{"a discarded message is not listed any more, and says who discarded it, when and why", func(w *world) {
			w.rejects("m-1", "m-2")
			id := w.theRefused("m-1")
			require.ErrorIs(w, w.Discard(w.Context(), id, "ada", ""), workflow.ErrBadInput, "without a reason nothing is done")
			require.NoError(w, w.Discard(w.Context(), id, "ada", "a test of the warehouse's"))
			require.Equal(w, []string{"m-2"}, w.stillOpen())
			m, err := w.Rejection(w.Context(), id)
			require.NoError(w, err)
			require.False(w, m.Open)
			require.Equal(w, workflow.Settlement{
				How: workflow.SettledByDiscard, At: w.db.Now().Truncate(time.Microsecond), By: "ada", Reason: "a test of the warehouse's",
			}, m.Settled)
			require.Equal(w, "{] m-1", string(m.Body), "it is still kept")
			require.Len(w, w.story(theOrderKnown(w)).Rejected, 2, "and is part of its order's story")
		}},
		{"to settle a message twice is to settle it once: the first is who did it", func(w *world) {
			w.rejects("m-1", "m-2")
			for n, settle := range []func(id, actor string) error{
				func(id, actor string) error { return w.Discard(w.Context(), id, actor, "why") },
				func(id, actor string) error { return w.Resubmitted(w.Context(), id, actor, "why") },
			} {
				id := w.theRefused(fmt.Sprint("m-", n+1))
				require.NoError(w, settle(id, "ada"))
				w.db.Pass(time.Minute)
				w.changesNothing(func() {
					require.NoError(w, settle(id, "bob"))
					require.NoError(w, settle(id, "ada"))
				})
				m, err := w.Rejection(w.Context(), id)
				require.NoError(w, err)
				require.Equal(w, "ada", m.Settled.By)
			}
			require.Empty(w, w.openRejections())
		}},
		{"what was resubmitted cannot be discarded, nor the other way round, and the error says who did what", func(w *world) {
			w.rejects("m-1", "m-2")
			one, two := w.theRefused("m-1"), w.theRefused("m-2")
			require.NoError(w, w.Discard(w.Context(), one, "ada", "of no use"))
			require.NoError(w, w.Resubmitted(w.Context(), two, "bob", "mended"))
			w.changesNothing(func() {
				err := w.Resubmitted(w.Context(), one, "eve", "why")
				require.ErrorIs(w, err, workflow.ErrSettled)
				require.ErrorContains(w, err, "it was discarded by ada: of no use")
				err = w.Discard(w.Context(), two, "eve", "why")
				require.ErrorIs(w, err, workflow.ErrSettled)
				require.ErrorContains(w, err, "it was resubmitted by bob: mended")
			})
		}},
		{"a message that comes again after it was settled is open again, and tells what was done before", func(w *world) {
			w.rejects("m-1")
			id := w.theRefused("m-1")
			require.NoError(w, w.Discard(w.Context(), id, "ada", "why"))
			w.rejects("m-1")
			m := w.openRejections()[0]
			require.Equal(w, []any{id, 2, true, "ada"}, []any{m.ID, m.Times, m.Open, m.Settled.By})
			require.NoError(w, w.Resubmitted(w.Context(), id, "bob", "mended"))
			require.Empty(w, w.openRejections())
			m, err := w.Rejection(w.Context(), id)
			require.NoError(w, err)
			require.Equal(w, []string{workflow.SettledByResubmit, "bob"}, []string{m.Settled.How, m.Settled.By})
		}},
		{"a message that is refused again when it is resubmitted stays open", func(w *world) {
			w.takes(placed(theOrder))
			w.expect(workflow.Rejected, refunded(theOrder))
			kept, err := w.Rejection(w.Context(), w.theRefused("order-42/refunded"))
			require.NoError(w, err)
			m, err := kept.Decode()
			require.NoError(w, err, "what was kept of it can be handled")
			w.expect(workflow.Rejected, m)
			again := w.openRejections()
			require.Len(w, again, 1)
			require.Equal(w, []any{kept.ID, 2, true}, []any{again[0].ID, again[0].Times, again[0].Open})
		}},
		{"settled by several at once, in two processes, a message is settled by one, and told apart from the other way", func(w *world) {
			processes := []*store.Store{w.Store, w.open(store.Options{})}
			for n := range 20 {
				w.rejects(fmt.Sprint("m-", n))
				id := w.theRefused(fmt.Sprint("m-", n))
				var wg sync.WaitGroup
				errs := make([]error, 8)
				for i := range errs {
					wg.Go(func() {
						s, actor := processes[i%2], fmt.Sprint("actor-", i)
						if i < 4 {
							errs[i] = s.Discard(w.Context(), id, actor, "why")
						} else {
							errs[i] = s.Resubmitted(w.Context(), id, actor, "why")
						}
					})
				}
				wg.Wait()
				m, err := w.Rejection(w.Context(), id)
				require.NoError(w, err)
				for i, err := range errs {
					if (m.Settled.How == workflow.SettledByDiscard) == (i < 4) {
						require.NoError(w, err)
					} else {
						require.ErrorIs(w, err, workflow.ErrSettled)
					}
				}
			}
			require.Empty(w, w.openRejections())
		}},
		{"a sweep deletes what was settled long ago, and nothing that is open or was settled since", func(w *world) {
			w.rejects("open", "discarded", "resubmitted", "late", "again")
			for _, id := range []string{"discarded", "again"} {
				require.NoError(w, w.Discard(w.Context(), w.theRefused(id), "ada", "why"))
			}
			require.NoError(w, w.Resubmitted(w.Context(), w.theRefused("resubmitted"), "ada", "why"))
			w.rejects("again")
			w.db.Pass(month - 1*time.Second - time.Microsecond)
			require.NoError(w, w.Discard(w.Context(), w.theRefused("late"), "ada", "why"))
			w.changesNothing(func() { require.Equal(w, workflow.Swept{}, w.sweeps()) })
			w.db.Pass(time.Microsecond)
			require.Equal(w, workflow.Swept{Settled: 2}, w.sweeps())
			require.Equal(w, []string{"again", "open"}, sorted(w.stillOpen()))
			require.Equal(w, 3, w.count("rejected"))
			w.db.Pass(100 * month)
			require.Equal(w, workflow.Swept{Settled: 1}, w.sweeps())
			require.Equal(w, 2, w.count("rejected"), "what is open stays, however old")
		}},
		{"how long settled messages are kept can be set, and more than one sweep deletes is for the next", func(w *world) {
			s := w.open(store.Options{Retention: time.Hour})
			for n := range 501 {
				require.NoError(w, w.Reject(w.Context(), nonsense(fmt.Sprint("m-", n))))
			}
			w.tamper("UPDATE rejected SET settled = 1, settlement = 'discarded', settled_at = last_at")
			w.db.Pass(time.Hour)
			for _, want := range []workflow.Swept{{Settled: 500, More: true}, {Settled: 1}, {}} {
				done, err := s.Sweep(w.Context())
				require.NoError(w, err)
				require.Equal(w, want, done)
			}
		}},
	}
}

// theOrderKnown makes sure that the order is known, and names it.
func theOrderKnown(w *world) string {
	w.takes(placed(theOrder))
	return theOrder
}
