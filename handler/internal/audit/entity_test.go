package audit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/workflow"
)

// full is an event in which no field is zero, whatever fields it has.
func full(t require.TestingT) workflow.Event {
	var e workflow.Event
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i); f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(begun.Add(time.Duration(i) * time.Hour)))
		case []string:
			f.Set(reflect.ValueOf([]string{"order-42:ship-order:1", "order-42:shipment-timeout:1"}))
		default:
			switch f.Kind() { //nolint:exhaustive // what an event is made of
			case reflect.String:
				f.SetString(name + " 'of' <order> & 42, naïve 😀")
			case reflect.Int, reflect.Int64:
				f.SetInt(math.MaxInt64 - int64(i))
			default:
				require.Fail(t, "a field of a new kind", name)
			}
		}
	}
	return e
}

// carried is an entity as it is after it was encoded and decoded.
func carried(t require.TestingT, from entity) (to entity) {
	encoded, err := json.Marshal(from)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &to))
	return to
}

func TestEveryFieldOfAnEventHasItsColumn(t *testing.T) {
	t.Parallel()
	want := full(t)
	made := entityOf(want, kept)
	require.Len(t, made.Properties, reflect.TypeFor[workflow.Event]().NumField())
	require.Equal(t, key(want.OrderID), made.PartitionKey)
	require.Equal(t, rowKey(want.At, want.Key), made.RowKey)
	got, note := eventOf(carried(t, made))
	require.Equal(t, want, got)
	require.Empty(t, note)
}

func TestAnEventOfNothingHasNoColumns(t *testing.T) {
	t.Parallel()
	made := entityOf(workflow.Event{}, kept)
	require.Empty(t, made.Properties)
	got, _ := eventOf(carried(t, made))
	require.Equal(t, workflow.Event{}, got)
}

func TestTimesAreInUTCToTheTenthOfAMicrosecond(t *testing.T) {
	t.Parallel()
	e := workflow.Event{At: time.Date(2026, 3, 14, 9, 30, 0, 123456789, time.FixedZone("", 2*3600)), DueAt: time.Date(1066, 1, 1, 0, 0, 0, 0, time.UTC)}
	encoded, err := json.Marshal(entityOf(e, kept))
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"At":"2026-03-14T07:30:00.1234567Z","At@odata.type":"Edm.DateTime"`)
	require.NotContains(t, string(encoded), "DueAt", "the table has no such time")
}

func TestNumbersAreExactInSixtyFourBits(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(entityOf(workflow.Event{Sequence: math.MaxInt64, Deliveries: 10}, kept))
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"Sequence":"9223372036854775807","Sequence@odata.type":"Edm.Int64"`)
	require.Contains(t, string(encoded), `"Deliveries":"10","Deliveries@odata.type":"Edm.Int64"`)
}

func utf16Units(s string) int { return len(utf16.Encode([]rune(s))) }

func TestATextIsKeptWholeOrItsBeginningWithAMark(t *testing.T) {
	t.Parallel()
	mark := regexp.MustCompile(`^(?s)(.*)… \[cut: (\d+) bytes, SHA-256 ([0-9a-f]{64})\]$`)
	rapid.Check(t, func(t *rapid.T) {
		const most = 120
		text := rapid.OneOf(anyText(), rapid.StringOfN(rapid.SampledFrom([]rune("a😀é\x00")), 50, 130, -1)).Draw(t, "text")
		got := kept(text, most)
		require.LessOrEqual(t, utf16Units(got), most)
		if valid := strings.ToValidUTF8(text, "") == text; valid && utf16Units(text) <= most {
			require.Equal(t, text, got)
			return
		}
		found := mark.FindStringSubmatch(got)
		require.NotNil(t, found, got)
		require.Equal(t, fmt.Sprint(len(text)), found[2])
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(text))), found[3])
		require.True(t, strings.HasPrefix(string([]rune(text)), found[1]), "its beginning")
		if utf16Units(text) > most {
			require.GreaterOrEqual(t, utf16Units(got), most-1, "no more is cut than must be")
		}
	})
}

func TestNoEntityIsTooLarge(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"<", "\x00", "é", "漢", "😀", "\xff"} {
		e := full(t)
		v := reflect.ValueOf(&e).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.String {
				f.SetString(strings.Repeat(unit, 200_000))
			}
		}
		e.Emitted = []string{e.Reason, e.Reason}
		for name, made := range map[string]entity{"whole": entityOf(e, kept), "plain": plain(e, errors.New(e.Reason))} {
			encoded, err := json.Marshal(made)
			require.NoError(t, err)
			require.Less(t, len(encoded), 1<<20, name)
			require.LessOrEqual(t, len(made.PartitionKey), 512)
			require.LessOrEqual(t, len(made.RowKey), 512)
			for column, value := range made.Properties {
				if text, ok := value.(string); ok {
					require.LessOrEqual(t, utf16Units(text), 32_000, column)
				}
			}
		}
	}
}

func TestAListThatWasCutIsReadAsOneText(t *testing.T) {
	t.Parallel()
	e := workflow.Event{Emitted: []string{strings.Repeat("a", 40_000)}}
	got, _ := eventOf(carried(t, entityOf(e, kept)))
	require.Len(t, got.Emitted, 1)
	require.Regexp(t, `^\["aaa.*… \[cut: 40004 bytes, SHA-256 .*\]$`, got.Emitted[0])
}

func TestThePlainFormIsPrintableASCIIAndSaysWhy(t *testing.T) {
	t.Parallel()
	e := full(t)
	e.OrderID, e.Reason = "O'Brien\x00😀", strings.Repeat("😀", 40_000)
	made := plain(e, errors.New("400 InvalidInput: \x07 no"))
	for name, value := range made.Properties {
		if text, ok := value.(string); ok {
			require.Regexp(t, `^[ -~]+$`, text, name)
			require.LessOrEqual(t, len(text), 10*plainText, name)
		}
	}
	got, note := eventOf(carried(t, made))
	require.Equal(t, `its texts are cut and escaped, because as it was: 400 InvalidInput: \a no`, note)
	require.Equal(t, `O'Brien\x00\U0001f600`, got.OrderID)
	require.Contains(t, got.Reason, `[cut: 160000 bytes, SHA-256 `)
	require.Equal(t, e.At, got.At)
	require.Equal(t, e.Sequence, got.Sequence)
	require.Equal(t, entityOf(e, kept).RowKey, made.RowKey, "it is the same entity")
}
