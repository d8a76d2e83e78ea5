package functions

import (
	"strconv"
	"strings"
	"unicode/utf8"
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

// withoutValues takes out of a reason what it quotes: reasons are kept in full
// with the order, but logs hold nothing that a body said.
func withoutValues(reason string) string {
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
