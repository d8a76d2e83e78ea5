package funchost

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Route is a route template: literal segments, {name}, last ones {name?} and a
// last {*name}; of the constraints {name:alpha}. Only whether a path matches is
// of interest here, since the handler gets the path itself.
type Route struct {
	template string
	segments []segment
}

type segment struct {
	kind    segmentKind
	literal string
	alpha   bool // letters only
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

var parameter = regexp.MustCompile(`^\{(\*{0,2})([A-Za-z_][A-Za-z0-9_-]*)(:alpha)?(\??)\}$`)

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
			return Route{}, fmt.Errorf("%q: a segment is a literal, {name}, {name?}, {name:alpha} or {*name}; other constraints and defaults are not imitated here: %q", template, part)
		case p == nil:
			s = segment{kind: literalSegment, literal: part}
		case p[1] != "" && p[3] != "":
			return Route{}, fmt.Errorf("%q: a constraint on a rest is not imitated here: %q", template, part)
		case p[1] != "":
			s.kind = restSegment
		case p[4] != "":
			s.kind = optionalSegment
		}
		s.alpha = p != nil && p[3] != ""
		if n := len(r.segments); n > 0 && r.segments[n-1].kind == optionalSegment && s.kind != optionalSegment {
			return Route{}, fmt.Errorf("%q: nothing but the like may follow %q", template, parts[i-1])
		}
		if s.kind == restSegment && i < len(parts)-1 {
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
		if s.kind == literalSegment && !strings.EqualFold(s.literal, part) || s.alpha && !isAlpha(part) {
			return false
		}
	}
	return len(parts) <= len(r.segments)
}

func isAlpha(s string) bool {
	for _, c := range []byte(s) {
		if c |= 0x20; c < 'a' || 'z' < c {
			return false
		}
	}
	return true
}

// meets tells whether some path may match both, and the host's order of routes
// does not say for sure which of them is meant: it is sure of a literal before a
// parameter only, at the first segment where they differ in that.
func (r Route) meets(other Route) bool {
	for i := 0; ; i++ {
		if i >= len(r.segments) || i >= len(other.segments) {
			rest := append(slices.Clone(r.segments[min(i, len(r.segments)):]), other.segments[min(i, len(other.segments)):]...)
			return !slices.ContainsFunc(rest, func(s segment) bool { return s.kind == literalSegment || s.kind == namedSegment })
		}
		a, b := r.segments[i], other.segments[i]
		switch {
		case a.kind == literalSegment && b.kind == literalSegment:
			if !strings.EqualFold(a.literal, b.literal) {
				return false
			}
		case a.kind == literalSegment || b.kind == literalSegment:
			return false
		case a.kind == restSegment || b.kind == restSegment:
			return true
		}
	}
}

// compare orders routes by which is tried first.
func (r Route) compare(other Route) int {
	return slices.CompareFunc(r.segments, other.segments, func(a, b segment) int { return cmp.Compare(a.kind, b.kind) })
}
