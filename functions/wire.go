package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"orderflow/workflow"
)

// request is what the host posts for a message: the data of the binding named
// "message", and what the broker says of it. Unknown keys are ignored.
type request struct {
	Data *struct {
		Message payload `json:"message"`
	}
	Metadata *metadata
}

// arrival is a message as the host handed it over.
type arrival struct {
	envelope workflow.Envelope
	delivery workflow.Delivery
	// refusal says why this is not believed or cannot be read; empty for
	// nothing. The envelope then holds what could be read.
	refusal string
}

// unwrap reads the host's request. What cannot be read is not an error: it can
// never be read, however often it comes, so it is refused and what there is of
// it kept. traceHeader is the traceparent of the HTTP request.
func unwrap(raw []byte, traceHeader string, maxBody int) arrival {
	var (
		req request
		a   arrival
	)
	err := json.Unmarshal(raw, &req)
	meta := req.Metadata
	if meta == nil {
		meta = &metadata{}
	}
	switch {
	case err != nil:
		a.refusal, a.envelope.Body = "the request is not an invocation of the host: "+inWords(err), raw
	case req.Data == nil && req.Metadata == nil:
		a.refusal, a.envelope.Body = "the request is not an invocation of the host: it has neither Data nor Metadata", raw
	case req.Data == nil || !req.Data.Message.present:
		a.refusal, a.envelope.Body = "the request has no Data.message; the binding in function.json has to be named message", raw
	default:
		a.envelope.Body, a.refusal = req.Data.Message.body, req.Data.Message.unreadable
		if forged := forged(req.Data.Message, meta); forged != "" {
			a.refusal = forged
		}
	}
	a.bound(maxBody)
	meta.describe(&a, traceHeader)
	return a
}

// bound refuses a body that is too large, and lets go of the rest of it.
func (a *arrival) bound(most int) {
	if size := len(a.envelope.Body); size > most {
		a.envelope.Body = bytes.Clone(a.envelope.Body[:most])
		a.refusal = strings.TrimPrefix(a.refusal+"; ", "; ") + fmt.Sprintf("the body is %d bytes long; %d are accepted, and that many are kept", size, most)
	}
}

// forged says which metadata the body of a delivery in string mode may have
// written, or nothing, and empties it. In that mode the host lays the top-level
// properties of a JSON body over its own keys of the same name, in any case of
// letters, so that a body with a messageId speaks for another message. In
// binary mode it cannot look into the body.
func forged(p payload, meta *metadata) string {
	if !p.text {
		return ""
	}
	var properties map[string]json.RawMessage
	if json.Unmarshal([]byte(strings.TrimPrefix(string(p.body), "\ufeff")), &properties) != nil {
		return "" // not an object, so nothing was laid over anything
	}
	var keys []string
	for _, key := range meta.keys() {
		for property := range properties {
			if strings.EqualFold(property, key.name) {
				keys = append(keys, key.name)
				key.forget()
				break
			}
		}
	}
	if keys == nil {
		return ""
	}
	return fmt.Sprintf("it came in string mode, where its body overwrites the host's own metadata, and its body has a property of the name %s; give the binding in function.json the dataType binary",
		strings.Join(keys, ", "))
}

// inWords says what is wrong with the JSON of a request.
func inWords(err error) string {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		if mistyped.Field == "" {
			return "it is a JSON " + mistyped.Value + ", not an object"
		}
		return mistyped.Field + " is a JSON " + mistyped.Value + ", not an object"
	}
	return "it is not JSON: " + err.Error()
}
