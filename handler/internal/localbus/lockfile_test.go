package localbus

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFileBelongsToOneBusAtATime(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	first := openBus(t, path, oneQueue())
	alias := filepath.Join(t.TempDir(), "alias.db")
	require.NoError(t, os.Symlink(path, alias))

	for _, name := range []string{path, alias} {
		start := time.Now()
		_, err := Open(name, oneQueue(), time.Now)
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, name)
		require.Less(t, time.Since(start), 2*time.Second, "it does not wait")
	}

	send(t, first, message("s", "m"))
	require.NoError(t, first.Close())
	second := openBus(t, path, oneQueue())
	require.Equal(t, []string{"m"}, peeked(t, second))
}
