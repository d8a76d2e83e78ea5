package funchost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// section is one JSON object of a configuration file, read strictly. Faults
// are gathered, so that all of them are shown at once, and each names file and
// key. A key that was never asked for is a fault once done is called.
type section struct {
	file   string
	path   string // of this object within the file, with a trailing dot unless it is the root
	values map[string]json.RawMessage
	asked  map[string]bool
	faults *[]error
}

// document parses a whole file. After a fault it is an empty object.
func document(file string, data []byte, faults *[]error) *section {
	return newSection(file, "", data, faults)
}

func newSection(file, path string, data []byte, faults *[]error) *section {
	s := &section{file: file, path: path, values: map[string]json.RawMessage{}, asked: map[string]bool{}, faults: faults}
	all, err := members(data)
	if err != nil {
		s.fault("", "%v", err)
	}
	for _, m := range all {
		if _, twice := s.values[m.key]; twice {
			s.fault(m.key, "is written twice")
		}
		s.values[m.key] = m.value
	}
	return s
}

func (s *section) fault(key, format string, args ...any) {
	where := s.file
	if path := strings.TrimSuffix(s.path+key, "."); path != "" {
		where += ": " + path
	}
	*s.faults = append(*s.faults, fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...)))
}

func (s *section) has(key string) bool {
	_, ok := s.values[key]
	return ok
}

// read gives the value of key, which must be of exactly T's JSON kind, or
// otherwise when the key is absent or at fault.
func read[T any](s *section, key, kind string, otherwise T) T {
	s.asked[key] = true
	raw, ok := s.values[key]
	if !ok {
		return otherwise
	}
	var value T
	if err := json.Unmarshal(raw, &value); err != nil || string(raw) == "null" {
		s.fault(key, "must be %s, is %s", kind, raw)
		return otherwise
	}
	return value
}

func (s *section) text(key, otherwise string) string {
	return read(s, key, "a string", otherwise)
}

func (s *section) flag(key string, otherwise bool) bool {
	return read(s, key, "true or false", otherwise)
}

func (s *section) number(key string, atLeast, otherwise int) int {
	n := read(s, key, "a whole number", otherwise)
	if n < atLeast {
		s.fault(key, "must be at least %d, is %d", atLeast, n)
	}
	return n
}

// span reads a duration; it may be negative.
func (s *section) span(key string, otherwise time.Duration) time.Duration {
	text := s.text(key, "")
	if text == "" && string(s.values[key]) != `""` {
		return otherwise // absent, or at fault already
	}
	d, err := parseTimeSpan(text)
	if err != nil {
		s.fault(key, "%v", err)
		return otherwise
	}
	return d
}

// oneOf reads a string that must be one of the choices; the first is the default.
func (s *section) oneOf(key string, choices ...string) string {
	value := s.text(key, choices[0])
	if !slices.Contains(choices, value) {
		s.fault(key, "must be one of %s, is %q", strings.Join(choices, ", "), value)
	}
	return value
}

// required reads a string that must be there and not be empty.
func (s *section) required(key string) string {
	value := s.text(key, "")
	if value == "" && (!s.has(key) || string(s.values[key]) == `""`) {
		s.fault(key, "is missing or empty")
	}
	return value
}

// child reads a nested object; an absent one is empty.
func (s *section) child(key string) *section {
	s.asked[key] = true
	raw, ok := s.values[key]
	if !ok {
		raw = json.RawMessage("{}")
	}
	return newSection(s.file, s.path+key+".", raw, s.faults)
}

// ignore accepts keys that change nothing here, whatever their values.
func (s *section) ignore(keys ...string) {
	for _, key := range keys {
		s.asked[key] = true
	}
}

// refuse makes the presence of a key a fault with a reason of its own.
func (s *section) refuse(key, reason string) {
	s.asked[key] = true
	if s.has(key) {
		s.fault(key, "%s", reason)
	}
}

// done refuses the keys that were not asked for.
func (s *section) done() {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if s.asked[key] {
			continue
		}
		hint := ""
		for _, known := range slices.Sorted(maps.Keys(s.asked)) {
			if strings.EqualFold(known, key) {
				hint = fmt.Sprintf(" (write it %s)", known)
			}
		}
		s.fault(key, "unknown key%s", hint)
	}
}

// member is one property of a JSON object, in the order written.
type member struct {
	key   string
	value json.RawMessage
}

// members takes a JSON document apart that must be one object.
func members(data []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if open != json.Delim('{') {
		return nil, errors.New("must be a JSON object")
	}
	var all []member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("is not JSON: %w", err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("is not JSON: %w", err)
		}
		all = append(all, member{fmt.Sprint(key), value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is not JSON: something follows the object")
	}
	return all, nil
}
