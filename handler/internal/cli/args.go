package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// command is a verb as somebody typed it.
type command struct {
	System
	*verb
	*client
	out   *bufio.Writer // what Out is, until it is flushed
	flags *flag.FlagSet

	argument string
	values   map[string]*string // of fields, by their name in the API
	ticked   map[string]*bool   // and of those that take no value

	url, keyFile, settings string
	output                 string
	wait                   time.Duration
	top                    int
	proceed                string
	all, fail              bool

	reason, actor, seen, idempotency string
}

// choose finds the verb of a command line and reads the rest of it. Asked for
// help about a group it finds none.
func (c *command) choose(args []string) error {
	group, rest := args[0], args[1:]
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		if c.verb = find(group, rest[0]); c.verb != nil {
			return c.parse(rest[1:])
		}
	}
	if c.verb = find(group, ""); c.verb != nil {
		return c.parse(rest)
	}
	var names []string
	for _, v := range verbs() {
		if v.group == group {
			names = append(names, v.name)
		}
	}
	switch {
	case len(rest) == 0:
		return wrong("handler %s what? There are:\n%s", group, usageOf(group))
	case slices.Contains([]string{"-h", "-help", "--help", "help"}, rest[0]):
		return nil
	case strings.HasPrefix(rest[0], "-"):
		return wrong("flags stand behind the whole command, as in handler %s %s %s", group, names[0], rest[0])
	}
	return wrong("there is no handler %s %s%s There are:\n%s", group, rest[0], or(Nearest(rest[0], names), "."), usageOf(group))
}

// parse reads the flags and the argument, in whatever order they are.
func (c *command) parse(args []string) error {
	c.define()
	var plainly []string
	for {
		err := c.flags.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			c.help()
			return &failure{code: exitDone}
		case err != nil && strings.HasSuffix(err.Error(), ": -key"):
			return wrong("others can read a key in a command line: put it into ORDERFLOW_KEY, or a file for -key-file")
		case err != nil:
			return wrong("handler %s: %v; -h lists the flags", c.verb, err)
		}
		rest := c.flags.Args()
		if len(rest) == 0 {
			break
		}
		plainly, args = append(plainly, rest[0]), rest[1:]
	}
	switch takes := c.verb.argument; {
	case takes == "" && len(plainly) > 0:
		return wrong("handler %s takes no argument %q", c.verb, plainly[0])
	case takes != "" && (len(plainly) != 1 || plainly[0] == "" || plainly[0] == "." || plainly[0] == ".."):
		return wrong("handler %s takes one argument: handler %s %s", c.verb, c.verb, takes)
	case takes != "":
		c.argument = plainly[0]
	}
	if order, _, _ := strings.Cut(c.argument, ":"); c.within != "" && (order == "" || order == "." || order == "..") {
		return wrong("handler %s takes the ID of a command, which begins with its order, as in order-42:capture-payment:1; it is %q", c.verb, c.argument)
	}
	return c.check()
}

// define declares the flags of the verb.
func (c *command) define() {
	f := flag.NewFlagSet(c.String(), flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.url, "url", "", "the `URL` of the app, such as https://NAME.azurewebsites.net; else ORDERFLOW_URL")
	f.StringVar(&c.keyFile, "key-file", "", "the `FILE` that holds the key, - for standard input; else ORDERFLOW_KEY")
	f.StringVar(&c.settings, "settings", "", "without a URL: a `FILE` of settings, such as local.settings.json, that goes before the environment")
	f.StringVar(&c.output, "o", c.forms()[0], "how it is shown: `"+strings.Join(c.forms(), "|")+"`")
	f.DurationVar(&c.wait, "timeout", 90*time.Second, "how long one request may take")
	c.values, c.ticked = make(map[string]*string), make(map[string]*bool)
	for _, field := range slices.Concat(c.query, c.body) {
		if field.yes {
			c.ticked[field.name] = f.Bool(field.flag, false, field.says)
			continue
		}
		c.values[field.name] = f.String(field.flag, "", field.says)
	}
	if c.list != nil {
		f.BoolVar(&c.fail, "fail", false, fmt.Sprintf("exit with %d if anything is listed", exitFound))
	}
	if c.probe {
		f.BoolVar(&c.fail, "fail", false, fmt.Sprintf("exit with %d if it is degraded", exitFound))
	}
	if c.paged {
		f.IntVar(&c.top, "top", 0, "how many `ITEMS` a page has, 1 to 1000")
		f.StringVar(&c.proceed, "continue", "", "go on with the `TOKEN` that the page before gave, with the same flags")
		f.BoolVar(&c.all, "all", false, "all pages")
	}
	if c.acts() {
		f.StringVar(&c.reason, "reason", "", "`WHY`, which the journal keeps; needed")
		f.StringVar(&c.actor, "actor", c.User, "`WHO` acts, unless the platform knows")
		f.StringVar(&c.idempotency, "idempotency-key", "", "the `KEY` of an earlier try of the same, so that it is done once")
		if !strings.HasPrefix(c.path, "operations/") { // a rejected message has no version
			f.StringVar(&c.seen, "version", "", "the version `N` at which the order was seen; at any other, nothing is done; needed to retry an undo and to resolve")
			f.StringVar(&c.seen, "if-match", "", "the same as an `ETAG` of the order")
		}
	}
	c.flags = f
}

// forms are the forms in which the verb can be shown.
func (v *verb) forms() []string {
	switch {
	case v.list != nil:
		return []string{"table", "json", "csv", "ndjson"}
	case v.tell == nil:
		return []string{"text"}
	}
	return []string{"table", "json"}
}

func (c *command) help() {
	use := "handler " + strings.TrimRight(c.String()+" "+c.verb.argument, " ")
	if c.acts() {
		use += " -reason WHY"
	}
	fmt.Fprintf(c.Out, "%s [flags]\n\n%s\n\n", use, c.says)
	c.flags.SetOutput(c.Out)
	c.flags.PrintDefaults()
}

// typed reports whether a flag is in the command.
func (c *command) typed(name string) (is bool) {
	c.flags.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// check finds what is wrong with the flags before anything is asked.
func (c *command) check() error {
	if !slices.Contains(c.forms(), c.output) {
		return wrong("handler %s is shown as %s, not as %q", c.verb, strings.Join(c.forms(), ", "), c.output)
	}
	if c.wait <= 0 {
		return wrong("-timeout must be positive; it is %s", c.wait)
	}
	if c.paged && c.typed("top") && (c.top < 1 || c.top > 1000) {
		return wrong("-top must be from 1 to 1000; it is %d", c.top)
	}
	for _, field := range c.body {
		if field.need && *c.values[field.name] == "" {
			return wrong("-%s is missing: %s", field.flag, strings.ReplaceAll(field.says, "`", ""))
		}
	}
	if !c.acts() {
		return nil
	}
	if strings.TrimSpace(c.reason) == "" {
		return wrong("-reason is missing: what is done is recorded with why")
	}
	c.idempotency = or(c.idempotency, c.NewKey())
	for _, header := range [][2]string{{"actor", c.actor}, {"idempotency-key", c.idempotency}, {"if-match", c.seen}} {
		if plain(header[1]) != header[1] {
			return wrong("-%s must be printable; it is %q", header[0], header[1])
		}
	}
	if c.seen != "" && strings.Trim(c.seen, "0123456789") == "" {
		c.seen = `"` + c.seen + `"`
	}
	if c.seen != "" && !strings.HasSuffix(c.seen, `"`) {
		return wrong("-version must be a number, or -if-match an ETag with its quotation marks; it is %q", c.seen)
	}
	return nil
}

// request is what the command asks for.
func (c *command) request() request {
	r := request{verb: c.verb, id: c.argument, query: url.Values{}}
	for _, field := range c.query {
		switch {
		case field.yes && *c.ticked[field.name]:
			r.query.Set(field.name, "true")
		case !field.yes && *c.values[field.name] != "":
			r.query.Set(field.name, *c.values[field.name])
		}
	}
	if other := find("rejected", "list"); r.query.Get("kind") == "rejected" { // of held messages; they are kept apart
		r.verb, c.verb = other, other
		r.query.Del("kind")
	}
	if c.list != nil && c.output != "table" {
		r.query.Set("format", c.output)
	}
	if !c.acts() {
		return r
	}
	body := map[string]string{"reason": c.reason}
	for _, field := range c.body {
		if value := *c.values[field.name]; value != "" {
			body[field.name] = value
		}
	}
	if c.within != "" {
		body[c.within] = c.argument
		r.id, _, _ = strings.Cut(c.argument, ":")
	}
	r.body, _ = json.Marshal(body) // texts cannot fail
	r.header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {c.idempotency}}
	if c.actor != "" {
		r.header.Set("X-Operator", c.actor)
	}
	if c.seen != "" {
		r.header.Set("If-Match", c.seen)
	}
	return r
}
