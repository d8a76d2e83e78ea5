package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// wide is how many columns a line has; what is longer and made of words goes on
// below.
const wide = 100

// plain is a text from outside for a terminal: what is not printable, and could
// move the cursor or turn the line around, is escaped.
func plain(text string) string {
	if strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// lines is a text of several lines for a terminal.
func lines(text string) string {
	var all []string
	for line := range strings.SplitSeq(text, "\n") {
		all = append(all, strings.ReplaceAll(plain(strings.TrimSuffix(line, "\r")), `\t`, "    "))
	}
	return strings.Join(all, "\n")
}

// page is what is printed for people.
type page struct {
	out   io.Writer
	now   time.Time
	again func(p possible, order string, version int64) string // what to type for it
}

func (p *page) say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// words prints a text, folded at the width of a page, with a first indent and
// one for the lines that follow.
func (p *page) words(first, rest, text string) {
	line, indent := first, true
	for _, word := range strings.Fields(plain(text)) {
		if !indent && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > wide {
			p.say("%s", line)
			line, indent = rest, true
		}
		if !indent {
			line += " "
		}
		line, indent = line+word, false
	}
	p.say("%s", strings.TrimRight(line, " "))
}

// item is one object of a list as JSON.
type item map[string]any

func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	return nil
}

// text is a value as text, empty for none.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, text(one))
		}
		return strings.Join(all, "; ")
	default:
		return fmt.Sprint(v)
	}
}

// at is a time of the API, to the second.
func at(value string) string {
	t, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return plain(value)
	}
	return t.UTC().Format(time.RFC3339)
}

// when is a time of the API and how long ago it is.
func (p *page) when(value string) string {
	t, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return plain(value)
	}
	if t.After(p.now) {
		return at(value) + " (in " + span(t.Sub(p.now)) + ")"
	}
	return at(value) + " (" + span(p.now.Sub(t)) + " ago)"
}

// span is a length of time in its two largest units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
}

// table prints lists. It is told page by page, so its columns grow only.
type table struct {
	*page
	columns []column
	indent  string
	widths  []int
	begun   bool
}

func (t *table) rows(items []item) {
	var cells [][]string
	head := make([]string, len(t.columns))
	for i, c := range t.columns {
		if !c.note {
			head[i] = c.head
		}
	}
	if !t.begun && len(items) > 0 {
		cells = append(cells, head)
	}
	for _, it := range items {
		row := make([]string, len(t.columns))
		for i, c := range t.columns {
			row[i] = c.cell(it)
		}
		cells = append(cells, row)
	}
	if t.widths == nil {
		t.widths = make([]int, len(t.columns))
	}
	for _, row := range cells {
		for i, c := range t.columns {
			if !c.note {
				t.widths[i] = max(t.widths[i], utf8.RuneCountInString(row[i]))
			}
		}
	}
	for _, row := range cells {
		t.row(row)
	}
	t.begun = t.begun || len(items) > 0
}

func (t *table) row(cells []string) {
	var line strings.Builder
	for i, c := range t.columns {
		if !c.note {
			line.WriteString(cells[i] + strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cells[i])+2))
		}
	}
	t.say("%s%s", t.indent, strings.TrimRight(line.String(), " "))
	for i, c := range t.columns {
		if c.note && cells[i] != "" {
			t.words(t.indent+"    "+c.head, t.indent+"    ", cells[i])
		}
	}
}

func (c *column) cell(it item) string {
	for _, name := range c.of {
		switch value := text(it[name]); {
		case value == "":
		case c.at:
			return at(value)
		default:
			return plain(value)
		}
	}
	if c.note {
		return ""
	}
	return "-"
}
