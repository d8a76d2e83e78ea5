package functions_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
)

func TestTheOperatorsGuideNamesEveryPathAndEveryParameter(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operators.md")
	require.NoError(t, err)
	guide := string(text)
	for _, e := range functions.Endpoints() {
		require.Contains(t, guide, "\n| `"+e.Method+" /api/"+e.Path+"` | `"+e.Function+"`", "a row of the table")
		for _, name := range e.Query {
			require.Contains(t, guide, "`"+name)
		}
	}
}
