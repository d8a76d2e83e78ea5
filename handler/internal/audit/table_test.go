package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestEveryFieldComesBackFromTheTable(t *testing.T) {
	t.Parallel()
	one, other := full(t), full(t)
	other.Key = "another, so that both go in a batch"
	for name, all := range map[string][]workflow.Event{"by itself": {one}, "in a batch": {one, other}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &source{waiting: all}
			w, said := writer(t, inAzurite(t), s)
			begun := time.Now()
			require.Equal(t, len(all), passes(t, w))
			got := trail(t, w, one.OrderID)
			require.ElementsMatch(t, all, story(got))
			require.Empty(t, got[0].Note)
			require.WithinDuration(t, begun, got[0].Written, 10*time.Second)
			require.Zero(t, s.left())
			require.Empty(t, said.read())
		})
	}
}

func TestATrailIsNewestFirstPageByPage(t *testing.T) {
	t.Parallel()
	want := events("order-42", 250)
	mixed := slices.Concat(want, events("order-421", 3), events("order-4", 3), events("Order-42", 3))
	w, _ := writer(t, inAzurite(t), &source{waiting: mixed})
	passes(t, w)
	slices.Reverse(want)

	var got []workflow.Event
	next, sizes := "", []int{}
	for {
		page, after, err := w.Trail(t.Context(), "order-42", 120, next)
		require.NoError(t, err)
		sizes = append(sizes, len(page))
		for _, e := range page {
			got = append(got, e.Event)
		}
		if next = after; next == "" {
			break
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, []int{120, 120, 10}, sizes)

	page, next, err := w.Trail(t.Context(), "order-42", 250, "")
	require.NoError(t, err)
	require.Len(t, page, 250)
	require.Empty(t, next, "there is no more, and it says so")
	page, _, err = w.Trail(t.Context(), "order-42", 0, "")
	require.NoError(t, err)
	require.Len(t, page, 100)
	_, _, err = w.Trail(t.Context(), "order-42", 0, "' or PartitionKey ne '")
	require.ErrorIs(t, err, ErrContinuation)
}

func TestATrailThatWasNeverWrittenIsEmpty(t *testing.T) {
	t.Parallel()
	w, _ := writer(t, inAzurite(t), &source{})
	require.Empty(t, trail(t, w, "order-42"), "there is no table")
	w.source.(*source).add(events("order-1", 1)...)
	passes(t, w)
	require.Empty(t, trail(t, w, "order-42"))
}

// hostile are order IDs of rejected messages, which may be anything.
func hostile() []string {
	var every strings.Builder
	for r := range rune(0x180) {
		every.WriteRune(r)
	}
	return []string{
		"", " ", "O'Brien-1", "O''Brien-1", "%", "%27", "%2f", "#", "?", "/", "\\", "a/b\\c#d?e", "order-1", "Order-1", "😀", "👩‍👩‍👧",
		"\x00", "a\x00b", "\r\n", "--changeset_x--\r\n\r\nHTTP/1.1 500 no\r\n", "{\"odata.error\":{\"code\":\"x\"}}", "\u2028", "\ufeff", "\ufffd", "\uffff",
		strings.Repeat("x", 1000), strings.Repeat("x", 1001), strings.Repeat("'", 1000), strings.Repeat("😀", 1000), every.String(),
		"漢字", "עברית", "_", "__", "-", ".", "..", "~", "PartitionKey", "' or 'a' eq 'a",
	}
}

func TestOrderIDsThatAreAnythingAreWrittenAndFound(t *testing.T) {
	t.Parallel()
	s := &source{}
	for _, id := range hostile() {
		both := events(id, 2) // a batch
		both[0].Kind, both[0].Reason, both[0].Outcome = workflow.EventRejected, "its order ID is "+id, workflow.Rejected
		s.add(both...)
	}
	alone := events("alone\x00'%", 1)
	s.add(alone...)
	want := slices.Clone(s.waiting)
	w, said := writer(t, inAzurite(t), s)
	require.Equal(t, len(want), passes(t, w))
	require.Empty(t, said.read(), "nothing was refused")
	for i, id := range hostile() {
		require.Equal(t, want[2*i:2*i+2], story(trail(t, w, id)), "%q", id)
	}
	require.Equal(t, alone, story(trail(t, w, "alone\x00'%")))
}

func TestATextThatIsTooLongIsCutAndSaysSo(t *testing.T) {
	t.Parallel()
	e := events("order-42", 1)[0]
	e.Reason = strings.Repeat("😀", 40_000)
	broken := events("\xff\xfe", 1)[0]
	w, said := writer(t, inAzurite(t), &source{waiting: []workflow.Event{e, broken}})
	require.Equal(t, 2, passes(t, w))
	got := trail(t, w, "order-42")
	require.Len(t, got, 1)
	begin, mark, _ := strings.Cut(got[0].Reason, "… ")
	require.Empty(t, strings.Trim(begin, "😀"))
	require.Equal(t, "[cut: 160000 bytes, SHA-256 f348918fa07c28b14c783cf22c23eadfafee86f27c0f40e7d24cb3e7bdf8fb04]", mark)
	require.LessOrEqual(t, utf16Units(got[0].Reason), 32_000)
	require.Regexp(t, "^\ufffd\ufffd… \\[cut: 2 bytes, SHA-256 ", trail(t, w, "\xff\xfe")[0].OrderID)
	require.Empty(t, said.read())
}

func TestEventsOfThreeOrdersWithARepeatedOneAreEachThereOnce(t *testing.T) {
	t.Parallel()
	want := map[string][]workflow.Event{"order-1": events("order-1", 150), "order-2": events("order-2", 70), "order-3": events("order-3", 30)}
	s := &source{}
	for i := range 150 { // they take turns
		for _, id := range []string{"order-1", "order-2", "order-3"} {
			if i < len(want[id]) {
				s.add(want[id][i])
			}
		}
	}
	s.waiting[249] = want["order-1"][7] // instead of the last, which comes later
	last := want["order-1"][149]
	w, said := writer(t, inAzurite(t), s)
	written, more, err := w.Write(t.Context())
	require.NoError(t, err)
	require.Equal(t, 250, written)
	require.False(t, more)
	require.Zero(t, s.left())
	s.add(last)
	passes(t, w)
	for id, all := range want {
		require.Equal(t, all, story(trail(t, w, id)))
	}
	require.Empty(t, said.read())
}

func TestAHundredLargeEventsGoInSeveralBatches(t *testing.T) {
	t.Parallel()
	want := events("order-42", 100)
	for i := range want {
		want[i].Reason = strings.Repeat("é", 30<<10) // 60 KiB
	}
	require.Greater(t, len(lines(want)[0].batches()), 1)
	w, said := writer(t, inAzurite(t), &source{waiting: slices.Clone(want)})
	require.Equal(t, 100, passes(t, w))
	require.Equal(t, want, story(trail(t, w, "order-42")))
	require.Empty(t, said.read(), "no batch was refused")
}

func TestNumbersAndTimesAreExact(t *testing.T) {
	t.Parallel()
	e := events("order-42", 1)[0]
	e.Sequence, e.Version, e.Size = math.MaxInt64, math.MaxInt64-1, math.MinInt64
	e.Deliveries, e.Attempts = math.MaxInt32+1, 9_007_199_254_740_993
	e.At = time.Date(2026, 3, 14, 9, 30, 0, 123456000, time.FixedZone("CEST", 2*3600))
	e.DueAt = time.Date(2026, 12, 31, 23, 59, 59, 999999000, time.FixedZone("", -5*3600))
	c := inAzurite(t)
	w, _ := writer(t, c, &source{waiting: []workflow.Event{e}})
	passes(t, w)
	got := trail(t, w, "order-42")[0].Event
	require.Equal(t, e.At.UTC(), got.At)
	require.Equal(t, e.DueAt.UTC(), got.DueAt)
	e.At, e.DueAt = got.At, got.DueAt
	require.Equal(t, e, got)

	// A service compares them as what they are.
	client, err := aztables.NewServiceClientFromConnectionString(c.String, nil)
	require.NoError(t, err)
	filter := "Sequence eq 9223372036854775807L and At eq datetime'2026-03-14T07:30:00.123456Z' and DueAt gt datetime'2027-01-01T04:59:59.99Z'"
	page, err := client.NewClient(c.Table).NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}).NextPage(t.Context())
	require.NoError(t, err)
	require.Len(t, page.Entities, 1)
}

func TestACrashBeforeTheConfirmationDoublesNothing(t *testing.T) {
	t.Parallel()
	want := events("order-42", 130)
	s := &source{waiting: slices.Clone(want)}
	s.lost = func() error { return errors.New("the process died") }
	c := inAzurite(t)
	w, _ := writer(t, c, s)
	for range 2 {
		written, _, err := w.Write(t.Context())
		require.ErrorIs(t, err, errSource)
		require.Zero(t, written)
	}
	require.Equal(t, want, story(trail(t, w, "order-42")), "they are there though nobody knows")
	s.lost = nil
	other, _ := writer(t, c, s)
	require.Equal(t, 130, passes(t, other))
	require.Equal(t, want, story(trail(t, w, "order-42")))
	require.Zero(t, s.left())
}

func TestAnAuditIsWrittenAnewFromTheSource(t *testing.T) {
	t.Parallel()
	want := events("order-42", 5)
	c := inAzurite(t)
	w, _ := writer(t, c, &source{waiting: slices.Clone(want)})
	passes(t, w)
	client, err := aztables.NewServiceClientFromConnectionString(c.String, nil)
	require.NoError(t, err)
	_, err = client.DeleteTable(t.Context(), c.Table, nil)
	require.NoError(t, err)
	require.Empty(t, trail(t, w, "order-42"))
	w.source.(*source).add(want...)
	passes(t, w)
	require.Equal(t, want, story(trail(t, w, "order-42")))
}

func TestSeveralWritersAtOnceCreateOneTableAndDoubleNothing(t *testing.T) {
	t.Parallel()
	want := map[string][]workflow.Event{}
	s := &source{}
	for n := range 40 {
		id := fmt.Sprintf("order-%d", n)
		want[id] = events(id, 30)
		s.add(want[id]...)
	}
	c := inAzurite(t)
	var wg sync.WaitGroup
	for range 3 {
		w, said := writer(t, c, s)
		wg.Go(func() {
			for more := true; more; {
				var err error
				if _, more, err = w.Write(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
			if lines := said.read(); len(lines) > 0 {
				t.Error(lines)
			}
		})
	}
	wg.Wait()
	require.Zero(t, s.left())
	w, _ := writer(t, c, s)
	for id, all := range want {
		require.Equal(t, all, story(trail(t, w, id)))
	}
}

func TestWhatTheTableRefusesInABatchIsKnownByItsKindAndItsWords(t *testing.T) {
	t.Parallel()
	c := inAzurite(t)
	w, _ := writer(t, c, &source{})
	all := lines(events("order-42", 3))[0].entities()
	require.NoError(t, w.table.put(t.Context(), all))
	all[1].Properties["Reason"] = strings.Repeat("x", 40_000)
	for name, refused := range map[string][]entity{"in a batch": all, "by itself": all[1:2]} {
		err := w.table.put(t.Context(), refused)
		require.ErrorIs(t, err, errRefused, name)
		require.ErrorContains(t, err, "AuditStorage: the table takes no such entity: 400 PropertyValueTooLarge: ", name)
		require.NotContains(t, err.Error(), "\n", name)
	}
	for i := range all {
		all[i].Properties = map[string]any{}
		for n := range 100 {
			all[i].Properties[fmt.Sprint("Text", n)] = strings.Repeat("x", 32_000)
		}
	}
	err := w.table.put(t.Context(), all)
	require.ErrorIs(t, err, errRefused)
	require.ErrorContains(t, err, "413 ")
	encoded, err := json.Marshal(all)
	require.NoError(t, err)
	require.Greater(t, len(encoded), 4<<20)
}
