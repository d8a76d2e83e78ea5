package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALookAtAFileSaysWhatItIsAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "or?ders.db")
	found, err := Look(t.Context(), path)
	require.NoError(t, err)
	require.Positive(t, found.Needed)
	require.Equal(t, Looked{Missing: true, Needed: found.Needed}, found)
	require.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	empty, err := Look(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, Looked{Needed: found.Needed}, empty)
	require.Zero(t, size(t, path), "it is not migrated")

	s, err := Open(t.Context(), path, Options{Now: time.Now})
	require.NoError(t, err)
	defer s.Close()
	open, err := Look(t.Context(), path)
	require.NoError(t, err, "also while it is in use")
	require.Equal(t, Looked{Version: found.Needed, Needed: found.Needed}, open)

	killed := filepath.Join(t.TempDir(), "orders.db") // as a process leaves it that is killed
	for _, part := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + part)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(killed+part, content, 0o600))
	}
	before := size(t, killed+"-wal")
	left, err := Look(t.Context(), killed)
	require.NoError(t, err)
	require.Equal(t, open, left)
	require.Equal(t, before, size(t, killed+"-wal"), "what waits in the log stays there")

	_, err = Look(t.Context(), filepath.Join(dir, "nowhere", "orders.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Look(t.Context(), dir)
	require.ErrorContains(t, err, "is a directory")
	other := filepath.Join(dir, "letter.txt")
	require.NoError(t, os.WriteFile(other, []byte(strings.Repeat("Dear customer, ", 500)), 0o600))
	_, err = Look(t.Context(), other)
	require.ErrorContains(t, err, "not a database")
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

func TestALookAtAServerIsOneRequestThatTellsTheVersionAndWhatTheLoginMayNot(t *testing.T) {
	t.Parallel()
	rights := noRows(2)
	server := startTDS(t, func(tdsRequest) tdsAnswer { return tdsAnswer{sets: []tdsRows{rowsOf([]any{int64(7)}), rights}} })
	found, err := Look(t.Context(), server.address(""))
	require.NoError(t, err)
	require.Equal(t, Looked{Server: true, Version: 7, Needed: found.Needed}, found)
	require.Positive(t, found.Needed)

	rights = rowsOf([]any{"dbo.journal", "INSERT"}, []any{"dbo.orders", "SELECT"})
	_, requests := server.during(func() { found, err = Look(t.Context(), server.address("")) })
	require.NoError(t, err)
	require.Equal(t, []string{"INSERT on dbo.journal", "SELECT on dbo.orders"}, found.Lacking)
	require.Len(t, requests, 1)
	require.NotRegexp(t, `\b(INTO|UPDATE dbo|CREATE|EXEC)\b`, requests[0].text)

	_, err = Look(t.Context(), "sqlserver://u:secret@h:notaport")
	require.ErrorContains(t, err, "the address of the SQL Server")
}
