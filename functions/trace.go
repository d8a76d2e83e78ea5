package functions

import "strings"

// traceParent is the first sound W3C trace context among some, or empty: one
// that is malformed is as good as none. One of a later version is taken by the
// part of it that is known.
func traceParent(candidates ...string) string {
	for _, c := range candidates {
		if !soundTrace(c) {
			continue
		}
		if c[:2] != "00" {
			c = "00" + c[2:55]
		}
		return c
	}
	return ""
}

// soundTrace checks the shape version-traceid-spanid-flags.
func soundTrace(s string) bool {
	const length = 55
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:length]
	switch {
	case !isHex(version) || !isHex(trace) || !isHex(span) || !isHex(flags):
		return false
	case version == "ff", version == "00" && len(s) > length, len(s) > length && s[length] != '-':
		return false
	}
	return strings.Trim(trace, "0") != "" && strings.Trim(span, "0") != ""
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// traceID is the part of a sound trace context that a whole trace shares.
func traceID(traceParent string) string {
	if traceParent == "" {
		return ""
	}
	return traceParent[3:35]
}
