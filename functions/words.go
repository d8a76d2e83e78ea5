package functions

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"orderflow/workflow"
)

// clip bounds a text from outside for use in a log.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// quote is a text from outside, bounded and with nothing in it that could leave
// its line.
func quote(s string) string { return strconv.Quote(clip(s)) }

// withoutValues takes out of a reason what a body said: what it quotes, and the
// value that a malformed field has, which stands last. Reasons are kept in full
// with the order, but logs hold nothing of a body.
func withoutValues(reason string) string {
	reason, _, _ = strings.Cut(reason, workflow.ValueFollows)
	var b strings.Builder
	for {
		before, after, quoted := strings.Cut(reason, `"`)
		b.WriteString(before)
		if !quoted {
			return b.String()
		}
		b.WriteString("…")
		end := 0
		for end < len(after) && after[end] != '"' {
			if after[end] == '\\' {
				end++
			}
			end++
		}
		reason = after[min(end+1, len(after)):]
	}
}
