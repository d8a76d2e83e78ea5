package workflow_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestTheMatrixOnPaperIsTheOneInCode compares every cell of docs/process.md,
// as written there, with what the table and the rules were seen to do.
func TestTheMatrixOnPaperIsTheOneInCode(t *testing.T) {
	t.Parallel()
	paper := readMatrix(t)
	code := matrix(t)
	require.Len(t, paper, len(statuses)*len(types))
	require.Len(t, code, len(paper))
	for _, status := range statuses {
		for _, on := range types {
			at := place{status, on}
			require.Equal(t, paper[at], code[at], "paper and code on %s in %s", on, status)
		}
	}
}

// TestEveryRefusedCellIsListed makes a forgotten cell a visible difference.
func TestEveryRefusedCellIsListed(t *testing.T) {
	t.Parallel()
	code := matrix(t)
	var b strings.Builder
	for _, status := range statuses {
		for _, on := range types {
			if code[place{status, on}] == "–" {
				fmt.Fprintf(&b, "%s %s\n", status, on)
			}
		}
	}
	const golden = "testdata/refused.golden"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), b.String())
}

// matrix is the code's, in the notation of the paper. A cell that one rule
// decided in every state of the walk is that rule's; the others are the
// table's.
func matrix(t *testing.T) map[place]string {
	t.Helper()
	w, err := theWalk()
	require.NoError(t, err)
	cells := map[place]string{}
	for _, row := range workflow.Table() {
		for _, on := range types {
			at := place{row.Status, on}
			text, known := inTable(row, on)
			if rules := w.rules[at]; !rules[8] {
				require.Len(t, rules, 1, "%s in %s is decided by one rule", on, row.Status)
				require.False(t, known, "%s in %s is in the table, which is never asked", on, row.Status)
				for n := range rules {
					text = fmt.Sprintf("r%d", n)
				}
			}
			cells[at] = text
		}
	}
	return cells
}

func inTable(row workflow.Row, on workflow.MessageType) (text string, known bool) {
	for _, t := range row.On {
		if t.On != on {
			continue
		}
		switch t.To {
		case workflow.BackOut:
			return "B", true
		case workflow.Stay:
			return "=", true
		default:
		}
		if t.Send != "" {
			return fmt.Sprintf("→%s, %s", t.To, t.Send), true
		}
		return "→" + string(t.To), true
	}
	switch {
	case slices.Contains(row.Stale, on):
		return "s", true
	case slices.Contains(row.Early, on):
		return "e", true
	}
	return "–", false
}

// readMatrix reads the matrix of docs/process.md, one text for each status and
// message type.
func readMatrix(t *testing.T) map[place]string {
	t.Helper()
	text, err := os.ReadFile("../docs/process.md")
	require.NoError(t, err)
	cells := map[place]string{}
	put := func(status workflow.Status, on workflow.MessageType, cell string) {
		require.NotContains(t, cells, place{status, on}, "%s in %s stands on paper twice", on, status)
		cells[place{status, on}] = cell
	}
	var head []string
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(columns) != len(statuses)+1 || strings.HasPrefix(columns[0], "-") {
			continue
		}
		for i := range columns {
			columns[i] = strings.TrimSpace(columns[i])
		}
		if head == nil {
			head = columns
			for i, status := range statuses {
				require.Equal(t, string(status), head[i+1])
			}
			continue
		}
		for i, status := range statuses {
			cell := columns[i+1]
			if !strings.HasPrefix(columns[0], "the status's own") {
				for on := range strings.SplitSeq(columns[0], ", ") {
					require.Contains(t, types, workflow.MessageType(on))
					put(status, workflow.MessageType(on), cell)
				}
				continue
			}
			for on, purpose := range expiries { // "Any other deadline is r1."
				if purposes[status] != "" && purposes[status] != purpose {
					put(status, on, "r1")
					continue
				}
				put(status, on, cell)
			}
		}
	}
	return cells
}

func TestTheTableHasEachStatusOnceAndNoMessageTwice(t *testing.T) {
	t.Parallel()
	var seen []workflow.Status
	for _, row := range workflow.Table() {
		seen = append(seen, row.Status)
		var listed []workflow.MessageType
		for _, transition := range row.On {
			listed = append(listed, transition.On)
			require.NotEmpty(t, transition.Why, "%s in %s", transition.On, row.Status)
			require.NotEmpty(t, transition.To)
		}
		listed = append(append(listed, row.Stale...), row.Early...)
		for i, on := range listed {
			require.NotContains(t, listed[:i], on, "%s in %s", on, row.Status)
			require.Contains(t, types, on)
		}
		require.NotEmpty(t, row.Means)
		require.Equal(t, purposes[row.Status], row.Deadline)
	}
	require.Equal(t, statuses, seen)
}
