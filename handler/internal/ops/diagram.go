package ops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"orderflow/workflow"
)

// The diagram is drawn from the process: its statuses and arrows are those of
// workflow.Table and workflow.Edges. layout.go says where they are.

type diagram struct {
	Title, Says string
	Width       int
	Height      int
	Nodes       []node
	Arrows      []arrow
	Bar         bar
	Links       bool // its statuses are links
	Taken       bool // it shows the way of an order
}

// node is a status in the drawing.
type node struct {
	Status        workflow.Status
	Means         string
	Link          string
	X, Y          int // its left upper corner
	Width, Height int
	MidX          int
	NameY, CountY int
	Count         string // empty where nothing is counted
	Class         string
}

// bar is BackOut.
type bar struct {
	X, Y, Width, Height int
	MidX, TextY         int
	Class               string
}

// arrow is an edge in the drawing.
type arrow struct {
	From, To workflow.Status
	Kind     string // forward, back, alarm or repair
	Taken    bool
	Path     string
	Says     string // all that stands on it, for the tooltip and for those who cannot see it
	Labels   []label
	LabelX   int
	Anchor   string // start, middle or end
}

// Kinds are the kinds of arrows, of which each has a tip of its own.
func (diagram) Kinds() []string { return []string{"forward", "back", "alarm", "repair"} }

// InWords is every arrow for those who do not see the drawing.
func (diagram) InWords() []workflow.Edge { return workflow.Edges() }

// label is a line of what is written beside an arrow. Taken is a message that led
// along it.
type label struct {
	Text  string
	Y     int
	Taken bool
}

// leg is one arrow that an order took, and the message that led along it; none
// from BackOut.
type leg struct {
	From, To workflow.Status
	On       workflow.MessageType
}

// processDiagram is the process with how many orders have each status.
func processDiagram(counts map[workflow.Status]int) diagram {
	var words []string
	for _, row := range workflow.Table() {
		words = append(words, fmt.Sprintf("%s %d", row.Status, counts[row.Status]))
	}
	d := draw(nil)
	d.Title, d.Says, d.Links = "The process, with how many orders have each status", strings.Join(words, ", "), true
	for i := range d.Nodes {
		n := &d.Nodes[i]
		number := counts[n.Status]
		n.Count, n.NameY, n.CountY = strconv.Itoa(number), n.Y+22, n.Y+45
		if number == 0 {
			n.Class += " none"
		}
	}
	return d
}

// orderDiagram is the process with the place of an order and the way it took.
func orderDiagram(s workflow.Story) diagram {
	way := wayOf(s.Journal)
	status := s.Order.Status
	if status == "" {
		status = workflow.NotStarted
	}
	d := draw(way)
	d.Title, d.Says, d.Taken = "Where the order is and how it got there", "It is "+string(status)+". "+wayInWords(way), true
	been := map[workflow.Status]bool{}
	for _, l := range way {
		been[l.From], been[l.To] = true, true
	}
	for i := range d.Nodes {
		switch n := &d.Nodes[i]; {
		case n.Status == status:
			n.Class += " here"
		case been[n.Status]:
			n.Class += " been"
		}
	}
	if been[workflow.BackOut] {
		d.Bar.Class += " been"
	}
	return d
}

// wayOf is the arrows that an order took, in order: through BackOut where the
// table says so. It may stay where it is by backing out further.
func wayOf(journal []workflow.Entry) []leg {
	var way []leg
	edges := workflow.Edges()
	for _, e := range journal {
		from := e.From
		if from == "" {
			from = workflow.NotStarted
		}
		if e.Outcome != workflow.Applied {
			continue
		}
		through := slices.ContainsFunc(edges, func(edge workflow.Edge) bool {
			return edge.From == from && edge.To == workflow.BackOut && slices.ContainsFunc(edge.On, func(t workflow.Transition) bool { return t.On == e.Type })
		})
		switch {
		case through:
			way = append(way, leg{from, workflow.BackOut, e.Type}, leg{workflow.BackOut, e.To, ""})
		case from != e.To:
			way = append(way, leg{from, e.To, e.Type})
		}
	}
	return way
}

func wayInWords(way []leg) string {
	if len(way) == 0 {
		return "It has not moved yet."
	}
	words := []string{string(way[0].From)}
	for _, l := range way {
		if l.To != workflow.BackOut {
			words = append(words, string(l.To))
		}
	}
	return "Its way: " + strings.Join(words, ", then ") + "."
}

// draw places the statuses and the arrows; those of a way are marked.
func draw(way []leg) diagram {
	d := diagram{Width: drawingWidth, Height: drawingHeight, Bar: bar{
		X: barLeft, Y: barTop, Width: barRight - barLeft, Height: barHeight, MidX: (barLeft + barRight) / 2, TextY: barTop + 22, Class: "bar",
	}}
	at := places()
	for _, row := range workflow.Table() {
		p, placed := at[row.Status]
		if !placed { // a test sees that none is forgotten
			continue
		}
		d.Nodes = append(d.Nodes, node{
			Status: row.Status, Means: row.Means, Link: statusLink(row.Status), Class: "node " + tone(row.Status),
			X: p.x - nodeWidth/2, Y: p.y - nodeHeight/2, Width: nodeWidth, Height: nodeHeight, MidX: p.x, NameY: p.y + 5,
		})
	}
	for _, e := range workflow.Edges() {
		line := lineOf(e.From, e.To)
		a := arrow{
			From: e.From, To: e.To, Kind: kindOf(e), Path: pathOf(line), Says: string(e.From) + " to " + string(e.To) + ": " + strings.Join(e.Labels(), ", "),
		}
		var took []string
		for _, l := range way {
			if l.From == e.From && l.To == e.To {
				a.Taken = true
				if !slices.Contains(took, string(l.On)) {
					took = append(took, string(l.On))
				}
			}
		}
		a.write(e, line, took)
		d.Arrows = append(d.Arrows, a)
	}
	// What was taken is drawn above what was not.
	slices.SortStableFunc(d.Arrows, func(a, b arrow) int {
		switch {
		case a.Taken == b.Taken:
			return 0
		case a.Taken:
			return 1
		}
		return -1
	})
	return d
}

// kindOf tells going forward from turning back, from what calls a person, and
// from what mends an order that had come to rest.
func kindOf(e workflow.Edge) string {
	switch {
	case e.To == workflow.NeedsAttention:
		return "alarm"
	case e.From != workflow.BackOut && e.From.AtRest():
		return "repair"
	case e.From == workflow.BackOut || e.To == workflow.BackOut:
		return "back"
	}
	return "forward"
}

// mostLabels is how many lines are written beside an arrow; of more there is
// only the number.
const mostLabels = 3

// write says beside an arrow what leads along it: of many messages only those
// that did, or how many there are.
func (a *arrow) write(e workflow.Edge, line []point, took []string) {
	const lineHeight, gap = 14, 7
	var lines []string
	for _, t := range e.On {
		lines = append(lines, string(t.On))
	}
	first, last := line[0], line[len(line)-1]
	up, bent := first.y > last.y, len(line) > 2
	if len(lines) > mostLabels && len(took) > 0 && len(took) <= mostLabels {
		lines = took
	} else if len(lines) > mostLabels {
		lines = []string{strconv.Itoa(len(lines)) + " messages"}
	}
	var y int
	switch {
	case bent && e.From == workflow.BackOut: // above it
		lines = wrap(e.When, 24)
		a.LabelX, a.Anchor, y = first.x+40, "start", first.y-8-lineHeight*(len(lines)-1)
	case bent && up: // out to the right and up: above it
		a.LabelX, a.Anchor, y = first.x+16, "start", first.y-6
	case bent: // down and in from the right: below it
		a.LabelX, a.Anchor, y = last.x+16, "start", last.y+16
	case first.y == last.y:
		a.LabelX, a.Anchor, y = (first.x+last.x)/2, "middle", first.y-9
	case e.From == workflow.BackOut:
		lines = wrap(e.When, 11)
		a.LabelX, a.Anchor, y = first.x-gap, "end", (first.y+last.y)/2-lineHeight*(len(lines)-1)/2+2
	case up:
		a.LabelX, a.Anchor, y = first.x-gap, "end", (first.y+last.y)/2-lineHeight*(len(lines)-1)/2+2
	case e.To == workflow.BackOut && first.x > (barLeft+barRight)*2/3: // away from the arrow beside it
		a.LabelX, a.Anchor, y = first.x-gap, "end", first.y+26
	default:
		a.LabelX, a.Anchor, y = first.x+gap, "start", first.y+26
	}
	for i, text := range lines {
		a.Labels = append(a.Labels, label{text, y + i*lineHeight, slices.Contains(took, text) || e.When != "" && a.Taken})
	}
}

// wrap breaks words into lines of about so many characters.
func wrap(text string, most int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= most {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
