package ops

import (
	"fmt"

	"orderflow/workflow"
)

// Where a status stands is said here, and nothing else about the process:
// forward along the top, ends and backing out below, and between them a bar for
// BackOut, into which whatever turns back leads.

// The measures of the drawing, in its own units.
const (
	drawingWidth, drawingHeight = 1280, 380
	nodeWidth, nodeHeight       = 156, 56
	barTop, barHeight           = 172, 34
	barLeft, barRight           = 284, 948
	forwardY, backY             = 36, 344 // the middles of the statuses above and below the bar
	corner                      = 12
)

// point is a place in the drawing.
type point struct{ x, y int }

// places are the middles of the statuses.
func places() map[workflow.Status]point {
	return map[workflow.Status]point{
		workflow.NotStarted:        {82, forwardY},
		workflow.AwaitingInventory: {361, forwardY},
		workflow.AwaitingPayment:   {640, forwardY},
		workflow.AwaitingShipment:  {919, forwardY},
		workflow.Completed:         {1198, forwardY},
		workflow.Cancelled:         {361, backY},
		workflow.Compensating:      {640, backY},
		workflow.NeedsAttention:    {919, backY},
	}
}

// bends are the lines of the arrows that are not straight or not in the middle.
func bends() map[[2]workflow.Status][]point {
	const forward, back = forwardY + nodeHeight/2, backY - nodeHeight/2
	const bar = barTop + barHeight/2
	return map[[2]workflow.Status][]point{
		{workflow.AwaitingShipment, workflow.BackOut}:        {{889, forward}, {889, barTop}},
		{workflow.AwaitingShipment, workflow.NeedsAttention}: {{977, forward}, {977, back}},
		{workflow.BackOut, workflow.Completed}:               {{barRight, bar}, {1160, bar}, {1160, forward}},
		{workflow.NeedsAttention, workflow.Completed}:        {{997, backY - 10}, {1198, backY - 10}, {1198, forward}},
		{workflow.Completed, workflow.NeedsAttention}:        {{1236, forward}, {1236, backY + 12}, {997, backY + 12}},
	}
}

// lineOf is where an arrow runs: as bends says, else straight, and to or from
// the bar a little beside the middle, so that both ways can be seen.
func lineOf(from, to workflow.Status) []point {
	if line, bent := bends()[[2]workflow.Status{from, to}]; bent {
		return line
	}
	at := places()
	const half = nodeHeight / 2
	switch a, b := at[from], at[to]; {
	case to == workflow.BackOut && a.y < barTop:
		return []point{{a.x, a.y + half}, {a.x, barTop}}
	case to == workflow.BackOut:
		return []point{{a.x - 60, a.y - half}, {a.x - 60, barTop + barHeight}}
	case from == workflow.BackOut:
		return []point{{b.x + 25, barTop + barHeight}, {b.x + 25, b.y - half}}
	case a.y == b.y && a.x < b.x:
		return []point{{a.x + nodeWidth/2, a.y}, {b.x - nodeWidth/2, b.y}}
	case a.y == b.y:
		return []point{{a.x - nodeWidth/2, a.y}, {b.x + nodeWidth/2, b.y}}
	case a.y < b.y:
		return []point{{a.x, a.y + half}, {b.x, b.y - half}}
	default:
		return []point{{a.x, a.y - half}, {b.x, b.y + half}}
	}
}

// pathOf is a line as SVG has it, with round corners and short of its end by the
// length of the arrow's head.
func pathOf(line []point) string {
	last := len(line) - 1
	end := toward(line[last], line[last-1], 4)
	b := fmt.Sprintf("M%d %d", line[0].x, line[0].y)
	for i := 1; i < last; i++ {
		before, after := toward(line[i], line[i-1], corner), toward(line[i], line[i+1], corner)
		b += fmt.Sprintf("L%d %dQ%d %d %d %d", before.x, before.y, line[i].x, line[i].y, after.x, after.y)
	}
	return b + fmt.Sprintf("L%d %d", end.x, end.y)
}

// toward is the point so far from one on the way to another. Lines that bend are
// level or upright.
func toward(from, to point, far int) point {
	sign := func(n int) int { return max(-1, min(1, n)) }
	if from.x != to.x && from.y != to.y {
		return from
	}
	return point{from.x + far*sign(to.x-from.x), from.y + far*sign(to.y-from.y)}
}
