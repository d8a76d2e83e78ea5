package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Exit codes of the verbs.
const (
	exitDone       = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNotFound   = 3
	exitRefused    = 4
	exitNotAllowed = 5
	exitFound      = 6
)

// exits says what each exit code means.
func exits() []string {
	return []string{
		exitDone:       "done, or shown",
		exitFailed:     "it failed: the app, the database or the network did not do it, or it cannot be told whether they did",
		exitUsage:      "the command is wrong, or a value in it",
		exitNotFound:   "there is no such order or message",
		exitRefused:    "the process does not allow it now, or the order has moved on; what is possible is printed",
		exitNotAllowed: "the key is missing or another is needed, or the app is read-only",
		exitFound:      "with -fail: something was listed, or the app is degraded",
	}
}

// ErrNowhere means that neither an app nor a database is named.
var ErrNowhere = errors.New("nothing says what to ask: name an app with -url or ORDERFLOW_URL, or a database with SqlConnection, in the environment or in a file of settings (-settings)")

// failure is a verb that did not do what it was to do.
type failure struct {
	code   int
	says   []string
	unsure bool // it may have been done all the same
}

func (f *failure) Error() string { return strings.Join(f.says, "\n") }

func wrong(format string, args ...any) error {
	return &failure{code: exitUsage, says: []string{fmt.Sprintf(format, args...)}}
}

// problem is an error of the API.
type problem struct {
	Status  int        `json:"status"`
	Detail  string     `json:"detail"`
	Remedy  string     `json:"remedy"`
	Version *int64     `json:"version"`
	Allowed []possible `json:"allowed"`
}

// failed is what came of a request that got no answer.
func failed(r request, err error) error {
	return &failure{code: exitFailed, says: []string{err.Error()}, unsure: r.acts()}
}

// refusal is what is wrong with an answer, nil for nothing.
func (c *command) refusal(r request, a answer) error {
	if a.status == http.StatusOK || a.status == http.StatusAccepted {
		return nil
	}
	f := &failure{code: exitFailed, unsure: r.acts() && a.status >= 500}
	var told problem
	if a.kind != "application/problem+json" || decode(a.body, &told) != nil || told.Detail == "" {
		f.says = []string{fmt.Sprintf("%s does not answer as Orderflow does: %d %s", c.base, a.status, http.StatusText(a.status))}
		switch {
		case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
			f.code = exitNotAllowed
			f.says = []string{fmt.Sprintf("the key does not open the function %s (%d): a key of that function does, or a host key", r.function, a.status)}
			if c.key == "" {
				f.says = []string{fmt.Sprintf("no key was sent (%d): put one of the function %s, or a host key, into ORDERFLOW_KEY or a file for -key-file", a.status, r.function)}
			}
		case a.status >= 300 && a.status < 400:
			f.says = append(f.says, "it leads to "+a.header.Get("Location")+", and keys do not follow; name the right address")
		}
		return f
	}
	f.says = []string{told.Detail}
	switch a.status {
	case http.StatusNotFound:
		f.code = exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		f.code = exitRefused
	case http.StatusUnauthorized, http.StatusForbidden:
		f.code = exitNotAllowed
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		f.code = exitUsage
	case http.StatusPreconditionRequired:
		f.code = exitUsage
		f.says = []string{"-version is missing: this decides about the order as you have seen it"}
		told.Remedy = "`handler orders show" + c.target() + " " + shell(r.id) + "` says at which version the order is; add -version and that"
	}
	if told.Version != nil && len(told.Allowed) > 0 {
		told.Remedy = fmt.Sprintf("possible at version %d, with a reason at the end:", *told.Version)
		for _, may := range told.Allowed {
			told.Remedy += "\n  "
			if c.page().notYet(may) {
				told.Remedy += "from " + at(may["notBefore"]) + " on: "
			}
			told.Remedy += c.command(may, r.id, *told.Version)
		}
	}
	f.says = append(f.says, told.Remedy)
	if r.acts() && a.tries > 1 && f.code == exitNotFound {
		f.says = append(f.says, "an earlier try got no answer, and may have done it")
	}
	return f
}

// report prints what went wrong and returns the exit code.
func (c *command) report(err error) int {
	f := (*failure)(nil)
	if !errors.As(err, &f) {
		f = &failure{code: exitFailed, says: []string{err.Error()}}
		if errors.Is(err, ErrNowhere) {
			f.code = exitUsage
		}
	}
	for _, says := range f.says {
		if says != "" {
			fmt.Fprintln(c.Err, "orderflow:", strings.ReplaceAll(lines(strings.TrimSpace(says)), "\n", "\norderflow: "))
		}
	}
	switch {
	case f.unsure && c.sentOnce():
		fmt.Fprintln(c.Err, "orderflow: whether it was done cannot be told; what was brought back is there no more, and the same command goes on with what is left")
	case f.unsure:
		fmt.Fprintf(c.Err, "orderflow: whether it was done cannot be told; the same command with -idempotency-key %s does it once, or says that it was done\n", shell(c.idempotency))
	}
	return f.code
}
