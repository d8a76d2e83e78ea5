package ops

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestEveryStatusHasAPlaceAndEveryArrowReachesBoth(t *testing.T) {
	t.Parallel()
	rects := map[workflow.Status][4]int{workflow.BackOut: {barLeft, barTop, barRight, barTop + barHeight}}
	for _, row := range workflow.Table() {
		p, placed := places()[row.Status]
		require.True(t, placed, "%s needs a place in the drawing", row.Status)
		rects[row.Status] = [4]int{p.x - nodeWidth/2, p.y - nodeHeight/2, p.x + nodeWidth/2, p.y + nodeHeight/2}
	}
	require.Len(t, places(), len(workflow.Table()), "and nothing else has one")
	for status, r := range rects {
		require.True(t, r[0] >= 0 && r[1] >= 0 && r[2] <= drawingWidth && r[3] <= drawingHeight, "%s is in the drawing", status)
		for other, o := range rects {
			apart := r[2] < o[0] || o[2] < r[0] || r[3] < o[1] || o[3] < r[1]
			require.True(t, apart || status == other, "%s and %s are apart", status, other)
		}
	}
	onBorder := func(p point, r [4]int) bool {
		beside := (p.x == r[0] || p.x == r[2]) && p.y >= r[1] && p.y <= r[3]
		above := (p.y == r[1] || p.y == r[3]) && p.x >= r[0] && p.x <= r[2]
		return beside || above
	}
	bent := bends()
	lines := map[string]bool{}
	for _, e := range workflow.Edges() {
		line := lineOf(e.From, e.To)
		require.True(t, onBorder(line[0], rects[e.From]), "%s to %s begins at %v", e.From, e.To, line[0])
		require.True(t, onBorder(line[len(line)-1], rects[e.To]), "%s to %s ends at %v", e.From, e.To, line)
		for i := 1; i < len(line); i++ {
			require.True(t, line[i].x == line[i-1].x || line[i].y == line[i-1].y, "%s to %s is level or upright", e.From, e.To)
		}
		require.False(t, lines[pathOf(line)], "no two arrows lie on each other")
		lines[pathOf(line)] = true
		delete(bent, [2]workflow.Status{e.From, e.To})
	}
	require.Empty(t, bent, "lines of arrows that the process does not have")
}

func TestTheDrawingHasEveryStatusWithItsCountAndEveryArrowWithItsMessages(t *testing.T) {
	t.Parallel()
	counts := map[workflow.Status]int{}
	for i, row := range workflow.Table() {
		counts[row.Status] = i * 11
	}
	html := string(New(false).Overview(workflow.Summary{ByStatus: counts}, workflow.Page[workflow.Flagged]{}, workflow.Page[workflow.Refused]{}, nil, 0))
	for _, row := range workflow.Table() {
		require.Regexp(t, `(?s)<a href="#/orders\?status=`+string(row.Status)+`" aria-label="`+string(row.Status)+`: `+strconv.Itoa(counts[row.Status])+`">`+
			`<g class="node[^"]*" data-status="`+string(row.Status)+`"><title>`+string(row.Status)+`: [^<]+</title>.{0,300}<text class="count"[^>]*>`+strconv.Itoa(counts[row.Status])+`</text>`, html)
	}
	for _, e := range workflow.Edges() {
		says := regexp.MustCompile(fmt.Sprintf(`data-from="%s" data-to="%s"><title>([^<]*)</title>`, e.From, e.To)).FindAllStringSubmatch(html, -1)
		require.Len(t, says, 1)
		for _, l := range e.Labels() {
			require.Contains(t, says[0][1], l)
		}
	}
	require.Contains(t, html, `class="node  none" data-status="NotStarted"`)
	require.Contains(t, html, `class="node wait" data-status="AwaitingInventory"`)
	require.Contains(t, html, `role="group"`)
	require.Contains(t, html, "NotStarted 0, AwaitingInventory 11")
}

func TestArrowsTellForwardFromBackFromAPersonAndFromRepair(t *testing.T) {
	t.Parallel()
	kinds := map[string][]string{}
	for _, a := range draw(nil).Arrows {
		kinds[a.Kind] = append(kinds[a.Kind], string(a.From)+">"+string(a.To))
		require.False(t, a.Taken)
	}
	require.Equal(t, map[string][]string{
		"forward": {"NotStarted>AwaitingInventory", "AwaitingInventory>AwaitingPayment", "AwaitingPayment>AwaitingShipment", "AwaitingShipment>Completed"},
		"back":    {"AwaitingInventory>BackOut", "AwaitingPayment>BackOut", "AwaitingShipment>BackOut", "Compensating>BackOut", "BackOut>Compensating", "BackOut>Cancelled", "BackOut>Completed"},
		"alarm":   {"AwaitingShipment>NeedsAttention", "Completed>NeedsAttention", "BackOut>NeedsAttention"},
		"repair":  {"NeedsAttention>BackOut", "NeedsAttention>Completed", "Cancelled>BackOut"},
	}, kinds)
	require.Equal(t, []string{"forward", "back", "alarm", "repair"}, diagram{}.Kinds())
}

// applied is an entry of a journal.
func applied(on workflow.MessageType, from, to workflow.Status) workflow.Entry {
	return workflow.Entry{At: noon, MessageID: "m-" + string(on), Type: on, Outcome: workflow.Applied, From: from, To: to}
}

func TestTheWayOfAnOrderIsItsJournal(t *testing.T) {
	t.Parallel()
	journal := []workflow.Entry{
		applied(workflow.OrderPlaced, workflow.NotStarted, workflow.AwaitingInventory),
		applied(workflow.InventoryReserved, workflow.AwaitingInventory, workflow.AwaitingPayment),
		{Type: workflow.PaymentFailed, Outcome: workflow.Stale, From: workflow.AwaitingPayment, To: workflow.AwaitingPayment},
		applied(workflow.DispatchFailed, workflow.AwaitingPayment, workflow.AwaitingPayment),
		applied(workflow.PaymentDeadlineExpired, workflow.AwaitingPayment, workflow.Compensating),
		applied(workflow.PaymentCaptured, workflow.Compensating, workflow.Compensating),
	}
	require.Equal(t, []leg{
		{workflow.NotStarted, workflow.AwaitingInventory, workflow.OrderPlaced},
		{workflow.AwaitingInventory, workflow.AwaitingPayment, workflow.InventoryReserved},
		{workflow.AwaitingPayment, workflow.BackOut, workflow.PaymentDeadlineExpired},
		{workflow.BackOut, workflow.Compensating, ""},
		{workflow.Compensating, workflow.BackOut, workflow.PaymentCaptured},
		{workflow.BackOut, workflow.Compensating, ""},
	}, wayOf(journal))

	d := orderDiagram(workflow.Story{Order: workflow.Order{Status: workflow.Compensating}, Journal: journal})
	classes := map[workflow.Status]string{}
	for _, n := range d.Nodes {
		classes[n.Status] = n.Class
		require.Empty(t, n.Count)
	}
	require.Equal(t, "node back here", classes[workflow.Compensating])
	require.Equal(t, "node wait been", classes[workflow.AwaitingPayment])
	require.Equal(t, "node good", classes[workflow.Completed])
	require.Equal(t, "bar been", d.Bar.Class)
	require.Equal(t, "It is Compensating. Its way: NotStarted, then AwaitingInventory, then AwaitingPayment, then Compensating, then Compensating.", d.Says)
	var took []string
	for i, a := range d.Arrows {
		if a.Taken {
			took = append(took, string(a.From)+">"+string(a.To))
			require.GreaterOrEqual(t, i, len(d.Arrows)-5, "what was taken is drawn last, above the others")
		}
		for _, l := range a.Labels {
			switch l.Text {
			case "OrderPlaced", "PaymentDeadlineExpired":
				require.True(t, l.Taken)
			case "PaymentFailed", "InventoryRejected":
				require.False(t, l.Taken)
			}
		}
	}
	require.Len(t, took, 5)
	require.False(t, d.Links)
}

func TestAnOrderThatHasNotMovedAndOneOfANewerProgramAreDrawnToo(t *testing.T) {
	t.Parallel()
	d := orderDiagram(workflow.Story{})
	require.Equal(t, "node  here", d.Nodes[0].Class)
	require.Equal(t, "It is NotStarted. It has not moved yet.", d.Says)
	d = orderDiagram(workflow.Story{Order: workflow.Order{Status: "Newer"}, Journal: []workflow.Entry{applied("New", workflow.AwaitingPayment, "Newer")}})
	for _, n := range d.Nodes {
		require.NotContains(t, n.Class, "here")
	}
}
