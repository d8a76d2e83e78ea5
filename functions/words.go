package functions

import (
	"strconv"
	"strings"
	"unicode"
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

// isOrderID reports whether a text can be an order's ID.
func isOrderID(s string) bool {
	if s == "" || len(s) > workflow.MaxOrderIDLength {
		return false
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		case strings.ContainsRune("._~-", r):
		default:
			return false
		}
	}
	return true
}

// isID reports whether a text can be the ID of a message.
func isID(s string) bool {
	if s == "" || utf8.RuneCountInString(s) > workflow.MaxIDLength || strings.TrimSpace(s) != s {
		return false
	}
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
