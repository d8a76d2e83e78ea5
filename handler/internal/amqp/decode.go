package amqp

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

const (
	// maxDepth is how deep values may nest.
	maxDepth = 32
	// maxWidthless is how many items without a width, such as null, the arrays
	// of one value may hold. They take no bytes (1.6.24), so that without a
	// bound a few bytes could ask for billions of them.
	maxWidthless = 256
)

// DecodeError says what is wrong with an encoding and where.
type DecodeError struct {
	Offset int // in bytes from the start of what was decoded
	Reason string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("amqp: decode: byte %d: %s", e.Offset, e.Reason)
}

// Decode decodes the value at the start of b and returns what follows it. What
// the value holds is copied out of b. An error is a *DecodeError. Memory taken
// is bounded by a multiple of len(b), whatever sizes and counts b claims.
func Decode(b []byte) (v any, rest []byte, err error) {
	d := decoder{buf: b, end: len(b), widthless: maxWidthless}
	v = d.value()
	if d.err != nil {
		return nil, nil, d.err
	}
	return v, b[d.pos:], nil
}

// decoder reads one value. Its first failure sticks; everything read after it
// is zero.
type decoder struct {
	buf       []byte
	pos       int
	end       int // of the innermost compound value
	depth     int
	widthless int // items without a width that may still be read
	err       error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = &DecodeError{Offset: d.pos, Reason: fmt.Sprintf(format, args...)}
	}
}

// take reads the next n bytes. They belong to the input.
func (d *decoder) take(n uint32) []byte {
	if left := d.end - d.pos; d.err == nil && uint64(n) > uint64(left) {
		d.fail("%d bytes needed, %d left", n, left)
	}
	if d.err != nil {
		return nil
	}
	b := d.buf[d.pos : d.pos+int(n)]
	d.pos += int(n)
	return b
}

func (d *decoder) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// length reads a size or count: one byte wide for the narrow codes, four for
// the wide ones, which have an odd high nibble.
func (d *decoder) length(code byte) uint32 {
	if code&0x10 == 0 {
		return uint32(d.u8())
	}
	return d.u32()
}

func (d *decoder) value() any {
	code := d.u8()
	if d.err != nil || code != codeDescribed {
		return d.body(code)
	}
	if !d.enter() {
		return nil
	}
	defer d.leave()
	descriptor := d.value()
	return Described{Descriptor: descriptor, Value: d.value()}
}

func (d *decoder) enter() bool {
	if d.depth++; d.depth > maxDepth {
		d.fail("values nest deeper than %d", maxDepth)
	}
	return d.err == nil
}

func (d *decoder) leave() { d.depth-- }

// body reads what follows a format code.
func (d *decoder) body(code byte) any {
	if d.err != nil {
		return nil
	}
	switch code {
	case codeNull:
		return nil
	case codeTrue:
		return true
	case codeFalse:
		return false
	case codeBoolean:
		b := d.u8()
		if b > 1 {
			d.fail("boolean 0x%02x is neither 0 nor 1", b)
		}
		return b == 1
	case codeUbyte:
		return d.u8()
	case codeUshort:
		return d.u16()
	case codeUint0:
		return uint32(0)
	case codeSmallUint:
		return uint32(d.u8())
	case codeUint:
		return d.u32()
	case codeUlong0:
		return uint64(0)
	case codeSmallUlong:
		return uint64(d.u8())
	case codeUlong:
		return d.u64()
	case codeByte:
		return int8(d.u8())
	case codeShort:
		return int16(d.u16())
	case codeSmallInt:
		return int32(int8(d.u8()))
	case codeInt:
		return int32(d.u32())
	case codeSmallLong:
		return int64(int8(d.u8()))
	case codeLong:
		return int64(d.u64())
	case codeFloat:
		return math.Float32frombits(d.u32())
	case codeDouble:
		return math.Float64frombits(d.u64())
	case codeChar:
		return d.char()
	case codeTimestamp:
		return time.UnixMilli(int64(d.u64())).UTC()
	case codeUUID:
		return UUID(d.fixed(16))
	case codeDecimal32:
		return Decimal32(d.fixed(4))
	case codeDecimal64:
		return Decimal64(d.fixed(8))
	case codeDecimal128:
		return Decimal128(d.fixed(16))
	case codeBinary8, codeBinary32:
		return append([]byte{}, d.take(d.length(code))...)
	case codeString8, codeString32:
		return d.text(code)
	case codeSymbol8, codeSymbol32:
		return d.symbol(code)
	case codeList0:
		return []any{}
	case codeList8, codeList32:
		return d.list(code)
	case codeMap8, codeMap32:
		return d.mapping(code)
	case codeArray8, codeArray32:
		return d.array(code)
	}
	d.fail("format code 0x%02x is not defined", code)
	return nil
}

// fixed reads n bytes, zeros after a failure.
func (d *decoder) fixed(n uint32) []byte {
	if b := d.take(n); b != nil {
		return b
	}
	return make([]byte, n)
}

func (d *decoder) char() Char {
	c := d.u32()
	if c > utf8.MaxRune || c >= 0xd800 && c < 0xe000 {
		d.fail("char U+%X is not a Unicode character", c)
	}
	return Char(c)
}

func (d *decoder) text(code byte) string {
	s := string(d.take(d.length(code)))
	if !utf8.ValidString(s) {
		d.fail("string is not UTF-8")
	}
	return s
}

func (d *decoder) symbol(code byte) Symbol {
	s := string(d.take(d.length(code)))
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			d.fail("symbol is not ASCII")
			break
		}
	}
	return Symbol(s)
}
