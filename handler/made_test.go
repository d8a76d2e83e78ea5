package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files anew that are made from the tables")

func TestTheFilesThatAreMadeFromTheTablesAreWhatTheTablesSay(t *testing.T) {
	t.Parallel()
	f, err := facts()
	require.NoError(t, err)
	made, err := f.Made()
	require.NoError(t, err)
	for file, content := range made {
		path := filepath.Join("..", filepath.FromSlash(file))
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, content, 0o644))
		}
		require.Equal(t, string(content), document(t, file), "%s: run `go test ./handler -run MadeFromTheTables -update`", file)
	}
}
