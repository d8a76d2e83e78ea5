package localbus

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// property is a type's name and the value in text, so that every value comes
// back as what it was: 1 as int32, int64 or float64, and NaN, which JSON has not.
type property [2]string

// encodeProperties gives the properties as JSON text, empty when there are
// none, and their size as a message counts it.
func encodeProperties(properties map[string]any) (text string, size int, err error) {
	if len(properties) == 0 {
		return "", 0, nil
	}
	encoded := make(map[string]property, len(properties))
	for name, value := range properties {
		if name == "" || !utf8.ValidString(name) {
			return "", 0, fmt.Errorf("property name %q is empty or not UTF-8: %w", name, ErrInvalidMessage)
		}
		p, bytes, err := encodeProperty(value)
		if err != nil {
			return "", 0, fmt.Errorf("property %q: %w", name, err)
		}
		encoded[name] = p
		size += len(name) + bytes
	}
	b, err := json.Marshal(encoded)
	if err != nil {
		return "", 0, fmt.Errorf("encode properties: %w", err)
	}
	return string(b), size, nil
}

func encodeProperty(value any) (p property, size int, err error) {
	switch v := value.(type) {
	case string:
		if !utf8.ValidString(v) {
			return p, 0, fmt.Errorf("not UTF-8: %w", ErrInvalidMessage)
		}
		return property{"string", v}, len(v), nil
	case bool:
		return property{"bool", strconv.FormatBool(v)}, 1, nil
	case int32:
		return property{"int32", strconv.FormatInt(int64(v), 10)}, 4, nil
	case int64:
		return property{"int64", strconv.FormatInt(v, 10)}, 8, nil
	case float64:
		return property{"float64", strconv.FormatFloat(v, 'g', -1, 64)}, 8, nil
	case []byte:
		return property{"bytes", base64.StdEncoding.EncodeToString(v)}, len(v), nil
	case uuid.UUID:
		return property{"uuid", v.String()}, len(v), nil
	case time.Time:
		return property{"time", v.UTC().Format(time.RFC3339Nano)}, 8, nil
	default:
		return p, 0, fmt.Errorf("a %T: %w", value, ErrInvalidMessage)
	}
}

func decodeProperties(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	var encoded map[string]property
	if err := json.Unmarshal([]byte(text), &encoded); err != nil {
		return nil, fmt.Errorf("decode properties: %w", err)
	}
	properties := make(map[string]any, len(encoded))
	for name, p := range encoded {
		value, err := decodeProperty(p)
		if err != nil {
			return nil, fmt.Errorf("decode property %q: %w", name, err)
		}
		properties[name] = value
	}
	return properties, nil
}

func decodeProperty(p property) (any, error) {
	switch kind, text := p[0], p[1]; kind {
	case "string":
		return text, nil
	case "bool":
		return strconv.ParseBool(text)
	case "int32":
		v, err := strconv.ParseInt(text, 10, 32)
		return int32(v), err
	case "int64":
		return strconv.ParseInt(text, 10, 64)
	case "float64":
		return strconv.ParseFloat(text, 64)
	case "bytes":
		return base64.StdEncoding.DecodeString(text)
	case "uuid":
		return uuid.Parse(text)
	case "time":
		return time.Parse(time.RFC3339Nano, text)
	default:
		return nil, fmt.Errorf("unknown type %q", kind)
	}
}
