package workflow_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowed is all that the package may import, and why.
var allowed = map[string]string{
	"bytes":         "bodies are bytes",
	"crypto/sha256": "fingerprints",
	"encoding/hex":  "fingerprints",
	"encoding/json": "bodies",
	"errors":        "sentinels",
	"fmt":           "reasons, in words",
	"maps":          "copies of orders",
	"slices":        "copies of orders",
	"strconv":       "counts in IDs",
	"strings":       "names in IDs",
	"time":          "due times, which are given; see below",
	"unicode":       "what can be printed",
	"unicode/utf16": "lengths as the broker counts them",
	"unicode/utf8":  "what is text",
}

// outside are the functions of allowed packages that look at the world or write
// to it.
var outside = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker", "LoadLocation", "Local"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

func TestTheProcessIsPure(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range files {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, imported := range file.Imports {
			path, err := strconv.Unquote(imported.Path.Value)
			require.NoError(t, err)
			require.Contains(t, allowed, path, "%s imports it", name)
			require.Nil(t, imported.Name, "%s renames %s", name, path)
			used[path] = true
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s starts or waits for something", name)
			case *ast.FuncDecl:
				require.False(t, n.Recv == nil && n.Name.Name == "init", "%s has an init", name)
			case *ast.CallExpr:
				if ident, is := n.Fun.(*ast.Ident); is {
					require.NotContains(t, []string{"print", "println"}, ident.Name, name)
				}
			case *ast.SelectorExpr:
				if ident, is := n.X.(*ast.Ident); is {
					require.NotContains(t, outside[ident.Name], n.Sel.Name, "%s uses %s.%s", name, ident.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
	require.Len(t, used, len(allowed), "the list is as short as it can be")
}
