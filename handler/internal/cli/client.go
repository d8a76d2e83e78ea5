package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// client asks the API.
type client struct {
	base    string // what /api/ follows
	key     string
	api     http.RoundTripper
	timeout time.Duration // of one request
	note    func(string)  // takes what somebody who waits wants to know
}

// request is what a verb asks for.
type request struct {
	*verb
	id     string
	query  url.Values
	header http.Header
	body   []byte
}

// answer is what came of it, read to its end.
type answer struct {
	status int
	kind   string // its media type
	header http.Header
	body   []byte
	tries  int
}

const (
	// mostTries is how often a request is sent that got no answer, or one that
	// says to come again.
	mostTries = 4
	firstRest = 500 * time.Millisecond
	mostRest  = 10 * time.Second
	// mostAnswer is the size in bytes of the largest answer that is read: a page
	// of a thousand orders has less than a tenth of that.
	mostAnswer = 64 << 20
)

// ask sends a request until there is an answer to it, but for what is asked
// once. What acts has an Idempotency-Key, so that it is done once.
func (c *client) ask(ctx context.Context, r request) (a answer, err error) {
	rest := firstRest
	for try := 1; ; try++ {
		a, err = c.once(ctx, r)
		a.tries = try
		again := err == nil && slices.Contains([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, a.status)
		if timeout := (*slowError)(nil); err != nil {
			again = ctx.Err() == nil && !errors.As(err, &timeout)
		}
		if !again || r.sentOnce() || try == mostTries {
			return a, err
		}
		why := fmt.Sprint(a.status, " ", http.StatusText(a.status))
		if err != nil {
			why = err.Error()
		}
		wait := min(max(rest, retryAfter(a.header)), mostRest)
		c.note(why + "; asking again in " + wait.String())
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return a, context.Cause(ctx)
		}
		rest *= 2
	}
}

// retryAfter is how long an answer asks to wait.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > 3600 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// slowError is that no answer came in time.
type slowError struct{ after time.Duration }

func (e *slowError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

// once sends a request. No redirect is followed: the key would go along.
func (c *client) once(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, &slowError{c.timeout})
	defer cancel()
	address := c.base + "/api/" + strings.Replace(r.path, "{id}", url.PathEscape(r.id), 1)
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, fmt.Errorf("%w: the address cannot be made", err)
	}
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	req.Header.Set("User-Agent", "orderflow")
	if c.key != "" {
		req.Header.Set("X-Functions-Key", c.key)
	}
	response, err := c.api.RoundTrip(req)
	if err != nil {
		return answer{}, because(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	switch {
	case err != nil:
		return answer{}, because(ctx, fmt.Errorf("the answer broke off: %w", err))
	case len(body) > mostAnswer:
		return answer{}, fmt.Errorf("%w: it is larger than %d bytes", errForeign, mostAnswer)
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	return answer{status: response.StatusCode, kind: kind, header: response.Header, body: body}, nil
}

// because is an error, or why its context ended if that is the cause.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// next is the token with which a list goes on; empty at its end. Only the token
// of an address is used, and never the address.
func (a *answer) next() string {
	for link := range strings.SplitSeq(a.header.Get("Link"), ",") {
		target, relation, _ := strings.Cut(strings.TrimSpace(link), ";")
		if strings.TrimSpace(relation) != `rel="next"` {
			continue
		}
		if u, err := url.Parse(strings.Trim(target, "<>")); err == nil {
			return u.Query().Get("continuationToken")
		}
	}
	return ""
}
