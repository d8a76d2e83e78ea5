package functions

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

// reply is an answer before it is written, so that a panic on the way to it
// still finds nothing sent.
type reply struct {
	status      int
	header      http.Header
	contentType string
	body        any  // as JSON; plain as it is; nil for none
	head        bool // the caller wants to know about it only
}

// settlement is the answer to the host. The host needs a JSON object, however
// little is in it: with an empty body it would wait until functionTimeout and
// then kill the process. Outputs stay empty, since the host would take a text
// that looks like base64 for bytes; all sending goes through the outbox. At any
// status but 2xx the host reads no more than the status.
func settlement(status int, line string) reply {
	return reply{status: status, contentType: jsonType, body: struct {
		Outputs     struct{}
		Logs        []string
		ReturnValue *string
	}{Logs: []string{line}}}
}

// write sends the answer. What cannot be sent any more is lost on a caller that
// has gone; the broker will deliver again.
func (r reply) write(w http.ResponseWriter) {
	text, given := r.body.(plain)
	if !given && r.body != nil {
		text = r.encode()
	}
	header := w.Header()
	maps.Copy(header, r.header)
	if r.body != nil {
		header.Set("Content-Type", r.contentType)
		if r.head {
			header.Set("Content-Length", strconv.Itoa(len(text)))
			text = nil
		}
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(text)
}

// encode is the body as JSON.
func (r *reply) encode() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r.body); err != nil {
		r.status, r.contentType = http.StatusInternalServerError, jsonType
		return []byte(`{"Outputs":{},"Logs":["the answer could not be written"],"ReturnValue":null}`)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}
