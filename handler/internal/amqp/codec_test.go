package amqp

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestEveryEncodingIsDecoded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		encoding string
		value    any
	}{
		{"40", nil},
		{"41", true},
		{"42", false},
		{"56 01", true},
		{"56 00", false},
		{"50 ff", uint8(255)},
		{"60 0102", uint16(258)},
		{"43", uint32(0)},
		{"52 ff", uint32(255)},
		{"70 ffffffff", uint32(math.MaxUint32)},
		{"44", uint64(0)},
		{"53 10", uint64(16)},
		{"80 ffffffffffffffff", uint64(math.MaxUint64)},
		{"51 80", int8(-128)},
		{"61 8000", int16(math.MinInt16)},
		{"54 ff", int32(-1)},
		{"71 80000000", int32(math.MinInt32)},
		{"55 80", int64(-128)},
		{"81 8000000000000000", int64(math.MinInt64)},
		{"72 3f800000", float32(1)},
		{"82 3ff0000000000000", float64(1)},
		{"73 0001f600", Char('😀')},
		{"74 01020304", Decimal32{1, 2, 3, 4}},
		{"84 0102030405060708", Decimal64{1, 2, 3, 4, 5, 6, 7, 8}},
		{"94 0102030405060708090a0b0c0d0e0f10", Decimal128{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
		{"83 00000000000003e8", time.UnixMilli(1000).UTC()},
		{"83 ffffffffffffffff", time.UnixMilli(-1).UTC()},
		{"98 0102030405060708090a0b0c0d0e0f10", UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
		{"a0 02 0102", []byte{1, 2}},
		{"b0 00000002 0102", []byte{1, 2}},
		{"a1 02 c3a9", "é"},
		{"b1 00000100" + hex.EncodeToString([]byte(long)), long},
		{"a3 02 6162", Symbol("ab")},
		{"b3 00000002 6162", Symbol("ab")},
		{"45", []any{}},
		{"c0 04 02 41 52 07", []any{true, uint32(7)}},
		{"d0 00000005 00000001 40", []any{nil}},
		{"c1 05 02 a3 01 6b 40", Map{{Key: Symbol("k")}}},
		{"d1 00000007 00000002 52 01 41", Map{{Key: uint32(1), Value: true}}},
		// An array writes its type once and its items without (1.6.24).
		{"e0 08 03 a3 01 61 01 62 01 63", Array{Of: codeSymbol32, Items: []any{Symbol("a"), Symbol("b"), Symbol("c")}}},
		{"f0 0000000d 00000001 81 000000000000002a", Array{Of: codeLong, Items: []any{int64(42)}}},
		{"e0 02 00 40", Array{Of: codeNull, Items: []any{}}},
		{"e0 02 02 41", Array{Of: codeBoolean, Items: []any{true, true}}},
		{"e0 06 01 00 53 75 a0 00", Array{Of: codeBinary32, Descriptor: uint64(0x75), Items: []any{[]byte{}}}},
		// 1.2: the standard's example of a described type, a URL in a string.
		{"00 a1 03 55524c a1 1e " + hex.EncodeToString([]byte("http://example.org/hello-world")),
			Described{Descriptor: "URL", Value: "http://example.org/hello-world"}},
	} {
		v, rest, err := Decode(append(unhex(t, c.encoding), 0xAA))
		require.NoError(t, err, c.encoding)
		require.Equal(t, c.value, v, c.encoding)
		require.Equal(t, []byte{0xAA}, rest, c.encoding)

		again, rest, err := Decode(Append(nil, v))
		require.NoError(t, err, c.encoding)
		require.Empty(t, rest)
		require.Equal(t, c.value, again, "encoded again")
	}
}

func TestTheShortestEncodingOfAScalarIsWritten(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		"43": uint32(0), "5201": uint32(1), "7000000100": uint32(256),
		"44": uint64(0), "5301": uint64(1), "800000000000000100": uint64(256),
		"54ff": int32(-1), "7100000080": int32(128),
		"55ff": int64(-1), "810000000000000080": int64(128),
		"41": true, "a000": []byte{}, "a10161": "a", "a30161": Symbol("a"), "45": []any{},
	} {
		require.Equal(t, want, hex.EncodeToString(Append(nil, v)))
	}
}

func TestMalformedEncodingsAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for encoding, reason := range map[string]string{
		"":                           "byte 0: 1 bytes needed, 0 left",
		"3f":                         "byte 1: format code 0x3f is not defined",
		"70 0001":                    "byte 1: 4 bytes needed, 2 left",
		"56 02":                      "boolean 0x02 is neither 0 nor 1",
		"73 0000d800":                "char U+D800 is not a Unicode character",
		"73 00110000":                "char U+110000 is not a Unicode character",
		"a1 01 ff":                   "string is not UTF-8",
		"a3 01 ff":                   "symbol is not ASCII",
		"b0 ffffffff":                "byte 5: 4294967295 bytes needed, 0 left",
		"c0 05 02 41":                "5 bytes needed, 2 left",
		"c0 03 01 41 41":             "1 bytes left after the last item",
		"c0 02 02 41":                "1 bytes needed, 0 left",
		"d0 00000004 ffffffff":       "1 bytes needed, 0 left",
		"d0 00000002 0001":           "4 bytes needed, 2 left",
		"c1 03 01 52 01":             "map of 1 items has a key without a value",
		"c1 07 04 52 01 41 52 01 41": "map has a key twice",
		"c1 03 02 45 41":             "map key is not a scalar",
		"e0 03 01 00 40":             "array has a null descriptor",
		"e0 05 01 00 41 00 41":       "array items are described twice",
		"f0 00000005 7fffffff 40":    "more than 256 array items without a width",
		"f0 00000005 7fffffff 70":    "4 bytes needed, 0 left",
		"00 40":                      "1 bytes needed, 0 left",
		strings.Repeat("00", 40):     "values nest deeper than 32",
	} {
		_, _, err := Decode(unhex(t, encoding))
		var e *DecodeError
		require.ErrorAs(t, err, &e, encoding)
		require.Contains(t, err.Error(), reason, encoding)
	}
}

func TestWhatIsNotAnAMQPTypeIsTheProgramsFault(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { Append(nil, struct{}{}) })
	require.Panics(t, func() { Append(nil, Array{Of: codeUint, Items: []any{"a"}}) })
}

func TestAMapIsAskedForSymbolsAndStrings(t *testing.T) {
	t.Parallel()
	m := Map{{Key: Symbol("a"), Value: 1}, {Key: "b", Value: nil}, {Key: uint32(1), Value: 2}}
	require.Equal(t, 1, m.Get("a"))
	require.Nil(t, m.Get("c"))
	_, ok := m.Lookup("b")
	require.True(t, ok, "a null value is there")
	_, ok = m.Lookup("c")
	require.False(t, ok)
}

// values draws anything that can be encoded.
func values(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Uint8().AsAny(), rapid.Uint16().AsAny(), rapid.Uint32().AsAny(),
		rapid.Uint64().AsAny(), rapid.Int8().AsAny(), rapid.Int16().AsAny(), rapid.Int32().AsAny(), rapid.Int64().AsAny(),
		rapid.Float64().AsAny(), rapid.String().AsAny(), rapid.SliceOf(rapid.Byte()).AsAny(),
		rapid.Map(rapid.Int64Range(-1<<40, 1<<40), func(ms int64) any { return time.UnixMilli(ms).UTC() }),
		rapid.Map(rapid.StringMatching(`[a-z:-]{0,300}`), func(s string) any { return Symbol(s) }),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	inner := values(depth - 1)
	return rapid.OneOf(append(scalars,
		rapid.Map(rapid.SliceOfN(inner, 0, 5), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 5), func(m map[string]any) any {
			entries := Map{}
			for k, v := range m {
				entries = append(entries, Entry{Key: k, Value: v})
			}
			return entries
		}),
		rapid.Map(rapid.SliceOfN(rapid.Int64(), 0, 5), func(l []int64) any { return ArrayOf(l) }),
		rapid.Custom(func(t *rapid.T) any {
			return Described{Descriptor: rapid.Uint64().Draw(t, "descriptor"), Value: inner.Draw(t, "value")}
		}),
	)...)
}

func TestWhatIsEncodedIsDecodedTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "value")
		got, rest, err := Decode(Append(nil, v))
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, v, got)
	})
}

// FuzzDecode sees that no input panics, and that what is accepted comes out the
// same when it is encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []any{
		nil, uint32(7), "text", Symbol("s"), []any{true, int64(-1), 1.5}, Map{{Key: "k", Value: []byte{1}}},
		ArrayOf([]string{"a", "b"}), Described{Descriptor: uint64(0x24), Value: []any{}}, UUID{1}, time.UnixMilli(1),
	} {
		f.Add(Append(nil, seed))
	}
	f.Add([]byte{0xe0, 0x06, 0x01, 0x00, 0x53, 0x75, 0xa0, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, rest, err := Decode(b)
		if err != nil {
			return
		}
		if len(rest) >= len(b) {
			t.Fatal("a value took no byte")
		}
		once := Append(nil, v)
		again, rest, err := Decode(once)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%x was accepted, its encoding %x is not: %v", b, once, err)
		}
		if twice := Append(nil, again); !bytes.Equal(once, twice) {
			t.Fatalf("%x becomes %x", once, twice)
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	subject := "Placed"
	whole := Message{
		Header: &Header{DeliveryCount: 1}, DeliveryAnnotations: Map{}, Annotations: Map{{Key: Symbol("a"), Value: int64(1)}},
		Properties: &Properties{MessageID: "m", Subject: &subject}, ApplicationProperties: Map{{Key: "k", Value: true}},
		Data: [][]byte{{1}, {2}}, Footer: Map{},
	}
	f.Add(whole.Append(nil))
	f.Add((&Message{Value: "v", HasValue: true}).Append(nil))
	f.Add((&Message{Sequences: [][]any{{uint32(1)}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMessage(b)
		if err != nil {
			return
		}
		once := m.Append(nil)
		again, err := DecodeMessage(once)
		if err != nil {
			t.Fatalf("%x was accepted, its encoding %x is not: %v", b, once, err)
		}
		if twice := again.Append(nil); !bytes.Equal(once, twice) {
			t.Fatalf("%x becomes %x", once, twice)
		}
	})
}

func FuzzDecodePerformative(f *testing.F) {
	one, tag := uint32(1), []byte{1}
	for _, p := range []performative{
		open{ContainerID: "c", MaxFrameSize: 512}, begin{IncomingWindow: 1},
		Attach{Name: "l", Role: RoleReceiver, Source: &Source{Address: "q", Filter: Map{{Key: Symbol("f"), Value: nil}}}, Target: &Target{}},
		flow{Handle: &one, LinkCredit: &one, Drain: true}, transfer{Handle: 1, DeliveryID: &one, DeliveryTag: tag},
		disposition{Role: RoleReceiver, First: 1, Settled: true, State: Rejected{Error: Errorf(NotFound, "no")}},
		disposition{State: Modified{DeliveryFailed: true}}, detach{Closed: true}, end{}, closing{Error: Errorf(InternalError, "x")},
	} {
		f.Add(Append(nil, p.composite()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, _, err := decodePerformative(b)
		if err != nil {
			return
		}
		once := Append(nil, p.composite())
		again, _, err := decodePerformative(once)
		if err != nil {
			t.Fatalf("%x was accepted, its encoding %x is not: %v", b, once, err)
		}
		if twice := Append(nil, again.composite()); !bytes.Equal(once, twice) {
			t.Fatalf("%x becomes %x", once, twice)
		}
	})
}
