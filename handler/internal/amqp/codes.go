package amqp

import (
	"fmt"
	"time"
)

// Format codes (1.6). The high nibble tells how wide what follows is.
const (
	codeDescribed  byte = 0x00
	codeNull       byte = 0x40
	codeTrue       byte = 0x41
	codeFalse      byte = 0x42
	codeUint0      byte = 0x43
	codeUlong0     byte = 0x44
	codeList0      byte = 0x45
	codeUbyte      byte = 0x50
	codeByte       byte = 0x51
	codeSmallUint  byte = 0x52
	codeSmallUlong byte = 0x53
	codeSmallInt   byte = 0x54
	codeSmallLong  byte = 0x55
	codeBoolean    byte = 0x56
	codeUshort     byte = 0x60
	codeShort      byte = 0x61
	codeUint       byte = 0x70
	codeInt        byte = 0x71
	codeFloat      byte = 0x72
	codeChar       byte = 0x73
	codeDecimal32  byte = 0x74
	codeUlong      byte = 0x80
	codeLong       byte = 0x81
	codeDouble     byte = 0x82
	codeTimestamp  byte = 0x83
	codeDecimal64  byte = 0x84
	codeDecimal128 byte = 0x94
	codeUUID       byte = 0x98
	codeBinary8    byte = 0xa0
	codeString8    byte = 0xa1
	codeSymbol8    byte = 0xa3
	codeBinary32   byte = 0xb0
	codeString32   byte = 0xb1
	codeSymbol32   byte = 0xb3
	codeList8      byte = 0xc0
	codeMap8       byte = 0xc1
	codeList32     byte = 0xd0
	codeMap32      byte = 0xd1
	codeArray8     byte = 0xe0
	codeArray32    byte = 0xf0
)

// widen is the code of the widest encoding of a code's type.
func widen(code byte) byte {
	switch code {
	case codeTrue, codeFalse:
		return codeBoolean
	case codeUint0, codeSmallUint:
		return codeUint
	case codeUlong0, codeSmallUlong:
		return codeUlong
	case codeSmallInt:
		return codeInt
	case codeSmallLong:
		return codeLong
	case codeList0, codeList8:
		return codeList32
	case codeBinary8, codeString8, codeSymbol8, codeMap8, codeArray8:
		return code + 0x10
	default:
		return code
	}
}

// widest is the code of the widest encoding of a value that is not described.
// It panics when v is not of one of the package's types.
func widest(v any) byte {
	switch v.(type) {
	case nil:
		return codeNull
	case bool:
		return codeBoolean
	case uint8:
		return codeUbyte
	case uint16:
		return codeUshort
	case uint32:
		return codeUint
	case uint64:
		return codeUlong
	case int8:
		return codeByte
	case int16:
		return codeShort
	case int32:
		return codeInt
	case int64:
		return codeLong
	case float32:
		return codeFloat
	case float64:
		return codeDouble
	case Char:
		return codeChar
	case time.Time:
		return codeTimestamp
	case UUID:
		return codeUUID
	case Decimal32:
		return codeDecimal32
	case Decimal64:
		return codeDecimal64
	case Decimal128:
		return codeDecimal128
	case []byte:
		return codeBinary32
	case string:
		return codeString32
	case Symbol:
		return codeSymbol32
	case []any:
		return codeList32
	case Map:
		return codeMap32
	case Array:
		return codeArray32
	}
	panic(fmt.Sprintf("amqp: %T is not an AMQP type", v))
}
