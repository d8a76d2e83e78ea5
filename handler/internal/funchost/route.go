package funchost

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Route is a route template: literal segments, {name}, a last {name?} and a
// last {*name}. Only whether a path matches is of interest here, since the
// handler gets the path itself.
type Route struct {
	template string
	segments []segment
}

type segment struct {
	kind    segmentKind
	literal string
}

// segmentKind is also the precedence of a segment, as ASP.NET has it: a
// literal wins over a parameter, a parameter over a rest.
type segmentKind int

const (
	literalSegment  segmentKind = 1
	namedSegment    segmentKind = 3
	optionalSegment segmentKind = 4
	restSegment     segmentKind = 5
)

var parameter = regexp.MustCompile(`^\{(\*{0,2})([A-Za-z_][A-Za-z0-9_-]*)(\??)\}$`)

func parseRoute(template string) (Route, error) {
	r := Route{template: template}
	parts := strings.Split(template, "/")
	for i, part := range parts {
		p := parameter.FindStringSubmatch(part)
		s := segment{kind: namedSegment}
		switch {
		case part == "":
			return Route{}, fmt.Errorf("%q has an empty segment", template)
		case p == nil && strings.ContainsAny(part, "{}*?%#"):
			return Route{}, fmt.Errorf("%q: a segment is a literal, {name}, {name?} or {*name}; constraints and defaults are not imitated here: %q", template, part)
		case p == nil:
			s = segment{kind: literalSegment, literal: part}
		case p[1] != "":
			s.kind = restSegment
		case p[3] != "":
			s.kind = optionalSegment
		}
		if (s.kind == optionalSegment || s.kind == restSegment) && i < len(parts)-1 {
			return Route{}, fmt.Errorf("%q: only the last segment may be %q", template, part)
		}
		r.segments = append(r.segments, s)
	}
	return r, nil
}

func (r Route) String() string { return r.template }

// matches takes a path as it is on the wire. Literals match in any case.
func (r Route) matches(escapedPath string) bool {
	path := strings.TrimSuffix(strings.TrimPrefix(escapedPath, "/"), "/")
	parts := strings.Split(path, "/")
	if path == "" {
		parts = nil
	}
	for i, s := range r.segments {
		if s.kind == restSegment {
			return true
		}
		if i >= len(parts) {
			return s.kind == optionalSegment
		}
		part, err := url.PathUnescape(parts[i])
		if err != nil || part == "" {
			return false
		}
		if s.kind == literalSegment && !strings.EqualFold(s.literal, part) {
			return false
		}
	}
	return len(parts) <= len(r.segments)
}

// compare orders routes by which is tried first.
func (r Route) compare(other Route) int {
	return slices.CompareFunc(r.segments, other.segments, func(a, b segment) int { return cmp.Compare(a.kind, b.kind) })
}

// sameAs tells whether the two could only be told apart by their methods.
func (r Route) sameAs(other Route) bool {
	return slices.EqualFunc(r.segments, other.segments, func(a, b segment) bool {
		return a.kind == b.kind && strings.EqualFold(a.literal, b.literal)
	})
}
