package functions

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// payload is the body of a message as the host hands it over:
//
//   - binary mode: base64 of the bytes, in a JSON string;
//   - string mode: the JSON text of a string, in a JSON string;
//   - as seen elsewhere: a JSON value, or the text of one in a JSON string.
type payload struct {
	body    []byte
	present bool
	// text: it did not come in binary mode, so the host may have looked into it.
	text bool
	// unreadable says what is wrong with it, empty for nothing; body is then
	// what was there.
	unreadable string
}

// UnmarshalJSON never fails: what one binding holds must not spoil the rest.
func (p *payload) UnmarshalJSON(raw []byte) error {
	*p = payload{present: true}
	content, isString := unquote(raw)
	if !isString {
		if string(raw) != "null" {
			p.body, p.text = bytes.Clone(raw), true
		}
		return nil
	}
	switch start := bytes.TrimLeft(content, " \t\r\n"); {
	case len(content) == 0 || string(content) == "null":
	case content[0] == '"':
		p.text = true
		if inner, ok := unquote(content); ok {
			p.body = bytes.Clone(inner)
			break
		}
		p.body, p.unreadable = bytes.Clone(content), "the data begins like the JSON text of a string and is none"
	case len(start) > 0 && (start[0] == '{' || start[0] == '['):
		p.body, p.text = bytes.Clone(content), true
	default:
		decoded, err := base64.StdEncoding.AppendDecode(nil, content)
		if err != nil {
			decoded, p.unreadable = bytes.Clone(content), "the data is not base64, which a binding of the dataType binary has: "+err.Error()
		}
		p.body = decoded
	}
	return nil
}

// unquote is the content of a JSON string, and whether the JSON is one. It may
// be a part of what it was given.
func unquote(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	if inner := raw[1 : len(raw)-1]; raw[len(raw)-1] == '"' && isPlain(inner) {
		return inner, true
	}
	var content string
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, false
	}
	return []byte(content), true
}

// isPlain reports whether the inside of a JSON string stands for itself.
func isPlain(inner []byte) bool {
	for _, c := range inner {
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.Valid(inner)
}
