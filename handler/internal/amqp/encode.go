package amqp

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Append appends the encoding of v to b. It panics when v, or something in it,
// is not of one of the package's types: that is a fault of the program.
func Append(b []byte, v any) []byte {
	switch v := v.(type) {
	case Described:
		return Append(Append(append(b, codeDescribed), v.Descriptor), v.Value)
	case bool:
		if v {
			return append(b, codeTrue)
		}
		return append(b, codeFalse)
	case uint32:
		switch {
		case v == 0:
			return append(b, codeUint0)
		case v <= math.MaxUint8:
			return append(b, codeSmallUint, byte(v))
		}
	case uint64:
		switch {
		case v == 0:
			return append(b, codeUlong0)
		case v <= math.MaxUint8:
			return append(b, codeSmallUlong, byte(v))
		}
	case int32:
		if v == int32(int8(v)) {
			return append(b, codeSmallInt, byte(v))
		}
	case int64:
		if v == int64(int8(v)) {
			return append(b, codeSmallLong, byte(v))
		}
	case []byte:
		if len(v) <= math.MaxUint8 {
			return append(append(b, codeBinary8, byte(len(v))), v...)
		}
	case string:
		if len(v) <= math.MaxUint8 {
			return append(append(b, codeString8, byte(len(v))), v...)
		}
	case Symbol:
		if len(v) <= math.MaxUint8 {
			return append(append(b, codeSymbol8, byte(len(v))), v...)
		}
	case []any:
		if len(v) == 0 {
			return append(b, codeList0)
		}
	}
	code := widest(v)
	return appendBody(append(b, code), code, v)
}

// appendBody appends what follows the code of v's widest encoding.
func appendBody(b []byte, code byte, v any) []byte {
	if widest(v) != code {
		panic(fmt.Sprintf("amqp: %T in an array of type 0x%02x", v, code))
	}
	switch v := v.(type) {
	case nil:
		return b
	case bool:
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case uint8:
		return append(b, v)
	case uint16:
		return binary.BigEndian.AppendUint16(b, v)
	case uint32:
		return binary.BigEndian.AppendUint32(b, v)
	case uint64:
		return binary.BigEndian.AppendUint64(b, v)
	case int8:
		return append(b, byte(v))
	case int16:
		return binary.BigEndian.AppendUint16(b, uint16(v))
	case int32:
		return binary.BigEndian.AppendUint32(b, uint32(v))
	case int64:
		return binary.BigEndian.AppendUint64(b, uint64(v))
	case float32:
		return binary.BigEndian.AppendUint32(b, math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	case Char:
		return binary.BigEndian.AppendUint32(b, uint32(v))
	case time.Time:
		return binary.BigEndian.AppendUint64(b, uint64(v.UnixMilli()))
	case UUID:
		return append(b, v[:]...)
	case Decimal32:
		return append(b, v[:]...)
	case Decimal64:
		return append(b, v[:]...)
	case Decimal128:
		return append(b, v[:]...)
	case []byte:
		return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	case string:
		return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	case Symbol:
		return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	case []any:
		return appendCompound(b, len(v), func(b []byte) []byte {
			for _, item := range v {
				b = Append(b, item)
			}
			return b
		})
	case Map:
		return appendCompound(b, 2*len(v), func(b []byte) []byte {
			for _, e := range v {
				b = Append(Append(b, e.Key), e.Value)
			}
			return b
		})
	case Array:
		return appendCompound(b, len(v.Items), func(b []byte) []byte {
			if v.Descriptor != nil {
				b = Append(append(b, codeDescribed), v.Descriptor)
			}
			b = append(b, v.Of)
			for _, item := range v.Items {
				b = appendBody(b, v.Of, item)
			}
			return b
		})
	}
	panic(fmt.Sprintf("amqp: %T is not an AMQP type", v)) // widest has panicked already
}

// appendCompound appends size, count and items; the size counts what follows
// it (1.6.22).
func appendCompound(b []byte, count int, items func([]byte) []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	b = items(b)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}
