package audit

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyText is of order IDs as they should be, of what looks like keys, and of
// anything, short and long.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9._~-]{0,96}`),
		rapid.StringMatching(`[_0-9a-fhH]{0,8}`),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 1000), func(b []byte) string { return string(b) }),
	)
}

func TestEachTextHasAKeyOfItsOwnThatIsSafeAndBounded(t *testing.T) {
	t.Parallel()
	safe := regexp.MustCompile(`^[A-Za-z0-9_-]{1,300}$`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyText().Draw(t, "a"), anyText().Draw(t, "b")
		require.Regexp(t, safe, key(a))
		require.Equal(t, a == b, key(a) == key(b), "%q and %q are %s and %s", a, b, key(a), key(b))
	})
}

func TestKeysThatMightBeTakenForOneAnotherAreNot(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("~", 1000)
	texts := []string{
		"", "_", "__", "___", "_5f", "_5f_5f", "5f", "_h", "-", "a-b", "a_b", "a_2db", "order-1", "Order-1", "order-1 ", "order_1",
		long, long + "~", key(long), strings.Repeat("a", 300), strings.Repeat("a", 301), strings.Repeat("a", 302),
		"O'Brien-1", "%27", "%", "#", "?", "/", "\\", "a/b", "a\\b", "😀", "\x05f", "\x00", "\x7f", "\xff", "\u0085",
	}
	keys := make(map[string]string)
	for _, text := range texts {
		require.NotContains(t, keys, key(text), "%q and %q", text, keys[key(text)])
		keys[key(text)] = text
	}
}

func TestAnOrdinaryOrderIDCanBeReadInItsKey(t *testing.T) {
	t.Parallel()
	require.Equal(t, "order-42", key("order-42"))
	require.Equal(t, "order-42_3acapture-payment_3a1", key("order-42:capture-payment:1"))
	require.Equal(t, "O_27Brien-1", key("O'Brien-1"))
	require.Equal(t, "__", key(""))
	require.Equal(t, strings.Repeat("_7e", 96), key(strings.Repeat("~", 96)), "the longest of an order ID that is one")
	require.Equal(t, strings.Repeat("a", 64)+"_heb22b48c636cd5d31633b58f5fcaf24e8b3750c5b6f1cf07e3061466afe6af90", key(strings.Repeat("a", 301)))
}

func anyTime() *rapid.Generator[time.Time] {
	first, last := time.Time{}.Unix(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	return rapid.Custom(func(t *rapid.T) time.Time {
		near := rapid.Bool().Draw(t, "near")
		seconds := rapid.Int64Range(first, last).Draw(t, "seconds")
		if near {
			seconds = begun.Unix() + seconds%3
		}
		zone := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "zone"))
		return time.Unix(seconds, rapid.Int64Range(0, 9_999_999).Draw(t, "ticks")*100).In(zone)
	})
}

func TestRowKeysAreInTheOrderOfTimeNewestFirst(t *testing.T) {
	t.Parallel()
	safe := regexp.MustCompile(`^[0-9]{19}-[A-Za-z0-9_-]{1,300}$`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyTime().Draw(t, "a"), anyTime().Draw(t, "b")
		one, other := anyText().Draw(t, "one"), anyText().Draw(t, "other")
		keyA, keyB := rowKey(a, one), rowKey(b, other)
		require.Regexp(t, safe, keyA)
		require.LessOrEqual(t, len(keyA), 512)
		require.True(t, continues(keyA))
		if !a.Equal(b) {
			require.Equal(t, a.After(b), keyA < keyB, "%s and %s are %s and %s", a, b, keyA, keyB)
		} else {
			require.Equal(t, one == other, keyA == keyB)
		}
	})
}

func TestTimesThatTheTableHasNotAreTheFirstOrTheLast(t *testing.T) {
	t.Parallel()
	times := []time.Time{
		time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999800, time.UTC),
		begun.Add(100), begun, time.Unix(0, 0), time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC), {}, time.Date(-20000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	keys := make([]string, len(times))
	for i, at := range times {
		keys[i] = rowKey(at, "k")
	}
	require.True(t, slices.IsSorted(keys), "%q", keys)
	require.Equal(t, "0000000000000000000-k", keys[0])
	require.Equal(t, "3155378975999999999-k", keys[len(keys)-1])
	require.Equal(t, "2516288201998765439-k", keys[3], "as .NET's DateTime.MaxValue.Ticks less the time's")
}

func TestOnlyARowKeyContinuesATrail(t *testing.T) {
	t.Parallel()
	require.True(t, continues(""))
	require.True(t, continues(rowKey(begun, "a:b")))
	for _, c := range []string{"x", "' or PartitionKey ne '", rowKey(begun, "a") + "'", rowKey(begun, "a") + "\n", "0000000000000000000-"} {
		require.False(t, continues(c), "%q", c)
	}
}
