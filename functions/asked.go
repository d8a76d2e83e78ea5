package functions

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"orderflow/workflow"
)

// asked is what an operator asks for: who, why, and about what.
type asked struct {
	actor  string
	reason string
	fields map[string]string // the other fields of the body
	// key is the MessageId that the Idempotency-Key makes, empty without one.
	key string
	// seen is the version of the order that If-Match names, nil without one.
	seen *int64
}

const (
	// mostAsked is the size in bytes of the largest request to act.
	mostAsked = 16 << 10
	// mostReason is how many characters a reason may have: as many as the journal
	// shows of one.
	mostReason = 1000
	// keyPrefix makes a MessageId of an Idempotency-Key. No message of the broker
	// is known by such an ID unless somebody chose it.
	keyPrefix = "operator:"
)

// act reads a request to act, or says why it cannot be one. fields are the texts
// that the body may have besides the reason.
//
// A JSON content type is asked for also because a browser does not send one to
// another site without asking it first.
func (c *call) act(fields ...string) (w asked, refusal reply, ok bool) {
	c.rec.more = append(c.rec.more, slog.String("action", c.action()))
	refuse := func(status int, detail, remedy string) (asked, reply, bool) {
		return asked{}, c.rec.refuse(status, detail, remedy), false
	}
	header := c.r.Header
	var fault string
	if w.actor, fault = actorOf(header); fault != "" {
		return refuse(http.StatusBadRequest, fault, fmt.Sprintf("name who acts in X-Operator, in 1 to %d printable characters", workflow.MaxIDLength))
	}
	c.rec.more = append(c.rec.more, slog.String("actor", clip(w.actor)))
	if c.ReadOnly {
		return refuse(http.StatusForbidden, "this app is read-only for operators", "an administrator can set ReadOnly to false; looking is possible all the same")
	}
	if mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || mediaType != jsonType {
		return refuse(http.StatusUnsupportedMediaType, "the Content-Type does not say JSON", `send {"reason":"…"} as `+jsonType)
	}
	if w.key, fault = keyOf(header); fault != "" {
		return refuse(http.StatusBadRequest, fault, "send one key for one action, the same whenever it is sent again, or none")
	}
	if w.seen, fault = seenVersion(header); fault != "" {
		return refuse(http.StatusBadRequest, fault, `name one version, as in If-Match: "7", or the ETag of the order as you read it`)
	}
	body, err := c.read(c.r, c.rec, mostAsked)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", mostAsked), "give a shorter reason")
	}
	if errors.Is(err, workflow.ErrTransient) {
		return w, retryLater(c.rec, fmt.Errorf("read what an operator asks for: %w", err), "there is no room for the request at the moment", "send it again"), false
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body broke off", "send the request again")
	}
	if fault := w.readBody(body, fields); fault != "" {
		return refuse(http.StatusBadRequest, fault, "the body is a JSON object; its fields are "+strings.Join(append([]string{"reason"}, fields...), ", "))
	}
	return w, reply{}, true
}

// readBody reads the body, and says what is wrong with it.
func (w *asked) readBody(body []byte, fields []string) (fault string) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil || object == nil || !utf8.Valid(body) {
		return "the body is not a JSON object" + because(err)
	}
	w.fields = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if name != "reason" && !slices.Contains(fields, name) {
			return "the field " + quote(name) + " is not known here"
		}
		var text *string
		if number := numberText(object[name]); name == "top" && number != "" {
			text = &number
		} else if json.Unmarshal(object[name], &text) != nil || text == nil {
			return "the field " + name + " is not a text"
		}
		if w.fields[name] = *text; name != "reason" && workflow.IDFault(*text) != "" {
			return "the field " + name + " " + workflow.IDFault(*text)
		}
	}
	w.reason = strings.TrimSpace(w.fields["reason"])
	switch {
	case w.reason == "":
		return "the field reason is missing: what is done is recorded with why"
	case !isText([]byte(w.reason)): // it is shown in terminals, too
		return "the field reason holds control characters"
	case utf8.RuneCountInString(w.reason) > mostReason:
		return fmt.Sprintf("the field reason is longer than %d characters", mostReason)
	}
	return ""
}

// signedIn is the header in which the platform names whom it found to have
// signed in.
const signedIn = "X-Ms-Client-Principal-Name"

// actorOf is who acts: whom the platform has found to have signed in, else who
// the caller says to be.
func actorOf(header http.Header) (actor, fault string) {
	for _, name := range []string{signedIn, "X-Operator"} {
		values := header.Values(name)
		switch {
		case len(values) == 0 || len(values) == 1 && values[0] == "":
		case len(values) > 1:
			return "", "the header " + name + " is there more than once"
		case workflow.IDFault(values[0]) != "":
			return "", "the header " + name + " " + workflow.IDFault(values[0])
		default:
			return values[0], ""
		}
	}
	return "unknown", ""
}

// keyOf is the MessageId that an Idempotency-Key makes.
func keyOf(header http.Header) (id, fault string) {
	values := header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", ""
	}
	id = keyPrefix + values[0]
	if len(values) > 1 || workflow.IDFault(values[0]) != "" || workflow.IDFault(id) != "" {
		return "", fmt.Sprintf("the header Idempotency-Key is no text of 1 to %d printable characters", workflow.MaxIDLength-len(keyPrefix))
	}
	return id, ""
}

// seenVersion reads If-Match: a version, or the entity tag of an order, which
// begins with it. The version is all that counts: what else has changed of the
// order does not make a decision about it wrong. "*" is no condition.
func seenVersion(header http.Header) (seen *int64, fault string) {
	values := header.Values("If-Match")
	if len(values) == 0 || len(values) == 1 && strings.TrimSpace(values[0]) == "*" {
		return nil, ""
	}
	tag := strings.TrimPrefix(strings.TrimSpace(values[0]), "W/") // a proxy may have weakened it
	inner, opened := strings.CutPrefix(tag, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	number, _, _ := strings.Cut(inner, "-")
	version, err := strconv.ParseInt(number, 10, 64)
	if len(values) > 1 || !opened || !closed || err != nil || version < 0 || number != strconv.FormatInt(version, 10) || strings.ContainsAny(inner, `",`) {
		return nil, "the header If-Match names no version of an order"
	}
	return &version, ""
}
