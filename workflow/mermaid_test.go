package workflow_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestTheDiagramShowsEveryTransitionThatLeadsSomewhere(t *testing.T) {
	t.Parallel()
	arrows := map[string]string{} // "A --> B": what stands on it
	for line := range strings.Lines(workflow.Mermaid()) {
		arrow, label, labelled := strings.Cut(strings.TrimSpace(line), ": ")
		if labelled {
			require.NotContains(t, arrows, arrow, "one arrow for each pair")
			arrows[arrow] = label
		}
	}
	drawn := 0
	for _, row := range workflow.Table() {
		for _, transition := range row.On {
			label := string(transition.On)
			if transition.Send != "" {
				label += " / " + string(transition.Send)
			}
			arrow := string(row.Status) + " --> " + string(transition.To)
			shown := slices.Contains(strings.Split(arrows[arrow], ", "), label)
			require.Equal(t, transition.To != workflow.Stay, shown, "%s: %s", arrow, label)
			if shown {
				drawn++
			}
		}
	}
	labels := 0
	for arrow, label := range arrows {
		if !strings.HasPrefix(arrow, "BackOut") {
			labels += len(strings.Split(label, ", "))
		}
	}
	require.Equal(t, drawn, labels, "and nothing else")
}

func TestTheDiagramShowsWhereBackingOutLeads(t *testing.T) {
	t.Parallel()
	w, err := theWalk()
	require.NoError(t, err)
	led := map[workflow.Status]bool{}
	for _, row := range workflow.Table() {
		for _, transition := range row.On {
			if transition.To != workflow.BackOut {
				continue
			}
			for to := range w.taken[place{row.Status, transition.On}] {
				led[to] = true
			}
		}
	}
	for _, status := range statuses {
		require.Equal(t, led[status], strings.Contains(workflow.Mermaid(), "BackOut --> "+string(status)+":"), status)
	}
}

func TestTheDiagramIsAMermaidStateDiagram(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSuffix(workflow.Mermaid(), "\n"), "\n")
	require.Equal(t, "stateDiagram-v2", lines[0])
	for _, line := range lines[1:] {
		require.Regexp(t, `^    (state "[^"]+" as \w+|(\[\*\]|\w+) --> (\[\*\]|\w+)(: [^:;#]+)?)$`, line)
	}
}

func TestTheDiagramOfAnOrderMarksItsPlaceAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, row := range workflow.Table() {
		drawn := workflow.MermaidOf(workflow.Order{ID: theOrder, Status: row.Status, Version: 7, Because: "no luck", Problem: "no luck"})
		marks, extends := strings.CutPrefix(drawn, workflow.Mermaid())
		require.True(t, extends)
		require.Equal(t, "    classDef here fill:#ffd54f,stroke:#e65100,stroke-width:3px,color:#000\n"+
			"    class "+string(row.Status)+" here\n"+
			"    note right of "+string(row.Status)+"\n"+
			"        order-42 is here, at version 7\n"+
			"    end note\n", marks)
	}
	require.Contains(t, workflow.MermaidOf(workflow.Order{ID: theOrder}), "class NotStarted here")
	require.Equal(t, workflow.Mermaid(), workflow.MermaidOf(workflow.Order{ID: theOrder, Status: "Newer"}), "a status that is not known has no place")
}
