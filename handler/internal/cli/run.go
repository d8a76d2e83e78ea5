package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// run does what was typed.
func (c *command) run(ctx context.Context) (code int, err error) {
	closed, err := c.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closed()) }()
	r := c.request()
	if c.list != nil {
		return c.tellList(ctx, r)
	}
	a, err := c.fetch(ctx, r)
	if err != nil {
		return 0, err
	}
	return c.tellOne(r, a)
}

// fetch is the answer to a request that was heeded.
func (c *command) fetch(ctx context.Context, r request) (answer, error) {
	a, err := c.ask(ctx, r)
	if err != nil {
		return a, failed(r, err)
	}
	if r.probe && a.status == http.StatusServiceUnavailable && a.kind == "application/json" {
		return a, nil
	}
	if err := c.refusal(r, a); err != nil {
		return a, err
	}
	want := map[string]string{"csv": "text/csv", "ndjson": "application/x-ndjson", "text": "text/plain"}[c.output]
	if want = or(want, "application/json"); a.kind != want {
		return a, failed(r, fmt.Errorf("%w: it is %s and not %s; is %s the address of an app?", errForeign, or(a.kind, "of no kind"), want, c.base))
	}
	return a, nil
}

func (c *command) page() *page { return &page{out: c.Out, now: c.Now(), again: c.command} }

// tellOne shows what is no list.
func (c *command) tellOne(r request, a answer) (int, error) {
	var text bytes.Buffer // nothing is printed of an answer that turns out to be none
	p := c.page()
	p.out = &text
	code := exitDone
	if c.tell != nil {
		err := c.tell(p, a.body)
		switch {
		case errors.Is(err, errLeft):
			code = exitFailed
		case err != nil:
			return 0, failed(r, err)
		}
	}
	switch c.output {
	case "json":
		fmt.Fprintf(c.Out, "%s\n", a.body)
	case "text":
		fmt.Fprintln(c.Out, strings.TrimRight(lines(string(a.body)), "\n"))
	default:
		fmt.Fprint(c.Out, text.String())
	}
	if !c.probe {
		return code, nil
	}
	h, err := readHealth(a.body)
	switch {
	case err != nil:
		return 0, failed(r, err)
	case a.status != http.StatusOK:
		return exitFailed, nil
	case c.fail && len(h.Degraded) > 0:
		return exitFound, nil
	}
	return exitDone, nil
}

// tellList shows a list, page after page if all of it is wanted. Whoever wants
// to know whether there is anything needs all pages too: those of stuck orders
// may be empty and not the last.
func (c *command) tellList(ctx context.Context, r request) (int, error) {
	whole := c.all || c.fail && c.paged
	if c.paged && (c.top > 0 || whole) {
		r.query.Set("top", strconv.Itoa(or(c.top, 1000)))
	}
	if c.proceed != "" {
		r.query.Set("continuationToken", c.proceed)
	}
	told := teller{table: table{page: c.page(), columns: c.list}, form: c.output, whole: whole, name: or(c.items, "items")}
	for {
		a, err := c.fetch(ctx, r)
		if err != nil {
			return 0, err
		}
		if err := told.tell(a.body); err != nil {
			return 0, failed(r, err)
		}
		next := a.next()
		switch {
		case next == "" || !whole:
			told.end()
			if next != "" {
				c.note("there is more: add -all, or -continue " + shell(next))
			}
			if c.output == "table" && told.count == 0 && next == "" && told.unknown == nil {
				c.note("there are none")
			}
			if len(told.unknown) > 0 {
				c.note("this is not all, for it is not known what there is of " + strings.Join(told.unknown, ", "))
				return exitFailed, nil
			}
			if c.fail && told.count > 0 {
				return exitFound, nil
			}
			return exitDone, nil
		case next == r.query.Get("continuationToken"):
			return 0, failed(r, fmt.Errorf("%w: the list goes on where it is", errForeign))
		}
		r.query.Set("continuationToken", next)
	}
}

// note says something beside the result, behind what is printed of it.
func (c *command) note(text string) {
	_ = c.out.Flush() // what cannot be printed is found out at the end
	fmt.Fprintln(c.Err, "orderflow:", plain(text))
}

// teller shows a list in one of its forms.
type teller struct {
	table
	form  string
	whole bool // what follows is all one
	name  string
	count int
	// unknown is what could not be counted, of a list that counts.
	unknown []string
}

// tell shows one page.
func (t *teller) tell(body []byte) error {
	first := !t.begun
	t.begun = t.begun || t.form != "table"
	switch t.form {
	case "csv":
		head, rest, found := bytes.Cut(body, []byte("\r\n"))
		if !found {
			return errForeign
		}
		if first {
			fmt.Fprintf(t.out, "%s\r\n", head)
		}
		t.count += bytes.Count(rest, []byte("\n"))
		fmt.Fprintf(t.out, "%s", rest)
	case "ndjson":
		t.count += bytes.Count(body, []byte("\n"))
		fmt.Fprintf(t.out, "%s", body)
	default:
		var list map[string]json.RawMessage
		if err := decode(body, &list); err != nil {
			return err
		}
		var items []json.RawMessage
		if json.Unmarshal(list[t.name], &items) != nil || items == nil {
			return errForeign
		}
		var counts map[string]*int
		if raw := list["counts"]; raw != nil && json.Unmarshal(raw, &counts) != nil {
			return errForeign
		}
		t.unknown = nil
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if counts[name] == nil {
				t.unknown = append(t.unknown, name)
			}
		}
		before := t.count
		t.count += len(items)
		switch {
		case t.form == "table":
			return t.tellItems(items)
		case !t.whole:
			fmt.Fprintf(t.out, "%s\n", body)
		default:
			t.tellWhole(first, before, items)
		}
	}
	return nil
}

func (t *teller) tellItems(raw []json.RawMessage) error {
	items := make([]item, len(raw))
	for i := range raw {
		if err := decode(raw[i], &items[i]); err != nil {
			return err
		}
	}
	t.rows(items)
	return nil
}

// tellWhole prints a page of the one that all pages become.
func (t *teller) tellWhole(first bool, before int, items []json.RawMessage) {
	if first {
		fmt.Fprintf(t.out, "{%q:[", t.name)
	}
	for i, one := range items {
		if before+i > 0 {
			fmt.Fprint(t.out, ",")
		}
		fmt.Fprintf(t.out, "%s", one)
	}
}

// end closes what was begun. A list that breaks off stays open, so that nobody
// takes it for a whole one.
func (t *teller) end() {
	if t.form == "json" && t.whole {
		fmt.Fprintln(t.out, `],"continuationToken":null,"next":null}`)
	}
}

// command is what to type to do something that is possible, but for the reason.
func (c *command) command(may possible, order string, version int64) string {
	v := find("orders", may["action"])
	if v == nil {
		return plain(may["action"]) // of a newer program
	}
	words := "handler " + v.String()
	if !strings.HasPrefix(order, "-") {
		words += " " + shell(order)
	}
	for _, field := range v.body {
		if value := may[field.name]; value != "" {
			words += " -" + field.flag + " " + shell(value)
		}
	}
	words += fmt.Sprintf(" -version %d%s -reason", version, c.target())
	if strings.HasPrefix(order, "-") { // or it would be a flag
		words += " '' -- " + shell(order)
	}
	return words
}

// target is the flags by which the same is asked again.
func (c *command) target() string {
	var words strings.Builder
	c.flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "url", "key-file", "settings":
			words.WriteString(" -" + f.Name + " " + shell(f.Value.String()))
		}
	})
	return words.String()
}

// shell is a word as a shell takes it for one.
func shell(word string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/@%+=,-", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !safe(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
