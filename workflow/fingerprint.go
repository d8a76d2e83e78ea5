package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// fingerprint is the hex SHA-256 over a message's type and the canonical JSON
// of its body.
func fingerprint(t MessageType, body map[string]any) string {
	content := append(make([]byte, 0, 512), t...)
	content = append(content, 0)
	sum := sha256.Sum256(appendCanonical(content, body))
	return hex.EncodeToString(sum[:])
}

// appendCanonical appends JSON in its canonical form: members sorted, no
// spacing, numbers as they were written, and in texts only what must be escaped.
// The value is what encoding/json decodes with UseNumber.
func appendCanonical(b []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b = append(b, '{')
		for i, name := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, name), ':')
			b = appendCanonical(b, v[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, item)
		}
		return append(b, ']')
	case string:
		return appendText(b, v)
	case json.Number:
		return append(b, v...)
	case bool:
		if v {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	default:
		return append(b, "null"...)
	}
}

// appendText appends a JSON text.
func appendText(b []byte, text string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
