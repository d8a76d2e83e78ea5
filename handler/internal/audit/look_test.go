package audit

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALookSaysWhetherTheTableIsThereAndDoesNotMakeIt(t *testing.T) {
	t.Parallel()
	c := inAzurite(t)
	for range 2 {
		there, err := Look(t.Context(), c)
		require.NoError(t, err)
		require.False(t, there)
	}
	w, _ := writer(t, c, &source{waiting: events("order-42", 3)})
	require.Equal(t, 3, passes(t, w))
	there, err := Look(t.Context(), c)
	require.NoError(t, err)
	require.True(t, there)

	c.String = strings.Replace(c.String, "AccountKey=Eby8", "AccountKey=Abcd", 1)
	_, err = Look(t.Context(), c)
	require.ErrorIs(t, err, ErrForbidden)
	require.ErrorContains(t, err, "AuditStorage: ")
}

func TestALookAtWhatIsAwayEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Look(ctx, at("http://127.0.0.1:9"))
	require.ErrorContains(t, err, "AuditStorage: ")
	require.NotErrorIs(t, err, ErrForbidden)
	_, err = Look(ctx, Connection{ServiceURI: "contoso"})
	require.ErrorContains(t, err, "AuditStorage__tableServiceUri must be the address")
}
