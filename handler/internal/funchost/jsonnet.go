package funchost

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// object is a JSON object in the order written.
type object []property

type property struct {
	name  string
	value any
}

// appendJSON writes v as Json.NET does: no HTML escaping, everything outside
// ASCII raw, whole numbers exact, a fraction on every float. The values may be
// nil, bool, string, int, int64, float64, time.Time, a verbatim document or an
// object. Anything else is written as its text.
func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return append(dst, jsonFloat(v)...)
	case string:
		return appendJSONString(dst, v)
	case time.Time:
		return appendJSONString(dst, netTime(v))
	case verbatim:
		return append(dst, v...)
	case object:
		dst = append(dst, '{')
		for i, p := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONString(dst, p.name)
			dst = append(dst, ':')
			dst = appendJSON(dst, p.value)
		}
		return append(dst, '}')
	default:
		return appendJSONString(dst, fmt.Sprint(v))
	}
}

// verbatim is JSON text that is ready.
type verbatim string

func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s { // invalid UTF-8 comes out as U+FFFD, as on the host
		switch r {
		case '"', '\\':
			dst = append(dst, '\\', byte(r))
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\u0085', '\u2028', '\u2029':
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			if r < ' ' {
				dst = fmt.Appendf(dst, `\u%04x`, r)
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		}
	}
	return append(dst, '"')
}

// jsonText is the rule for strings and numbers outside of objects: their JSON
// text, inside a JSON string.
func jsonText(v any) string { return string(appendJSON(nil, v)) }

// jsonFloat is a float within a document: one without a fraction gets one.
func jsonFloat(f float64) string {
	text := netFloat(f)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return `"` + text + `"`
	case !strings.ContainsAny(text, ".E"):
		return text + ".0"
	}
	return text
}

// netFloat is .NET's invariant text of a float: the shortest that reads back,
// with an exponent from 1E+15 up and below 1E-04.
func netFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if size := math.Abs(f); f != 0 && (size >= 1e15 || size < 1e-4) {
		return strconv.FormatFloat(f, 'E', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// netTime is a DateTimeOffset inside an object: a fraction of up to seven
// digits, without trailing zeros.
func netTime(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.9999999-07:00")
}
