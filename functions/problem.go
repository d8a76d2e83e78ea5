package functions

import "net/http"

// problemBody is an error as in RFC 9457: what went wrong and where, and, beyond
// the RFC, what to do about it.
type problemBody struct {
	Type   string `json:"type"` // about:blank: the title is that of the status
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`

	// What an operator needs who was refused: which version the order is at, and
	// what may be done about it.
	Version *int64     `json:"version,omitempty"`
	Allowed []possible `json:"allowed,omitempty"`
}

// problem is an error for a caller of the API.
func problem(status int, detail, remedy string) reply {
	return reply{
		status: status, contentType: problemType, header: http.Header{"Cache-Control": {"no-store"}},
		body: problemBody{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Remedy: remedy},
	}
}

// refuse is a problem with the request itself, noted with a reason that holds
// nothing of what the caller sent.
func (rec *record) refuse(status int, detail, remedy string) reply {
	rec.reason = withoutValues(detail)
	return problem(status, detail, remedy)
}

// retryLater is the answer to a request that may work in a moment.
func retryLater(rec *record, err error, detail, remedy string) reply {
	rec.fail(err)
	_, status := statusOf(rec.outcome)
	answer := problem(status, detail, remedy)
	answer.header.Set("Retry-After", "5")
	return answer
}

// broken is the answer to a request that a fault here kept from being served.
func broken() reply {
	return problem(http.StatusInternalServerError, "something is wrong here, not with the request",
		"send the request again; if that fails too, tell the operators when it was and which order")
}

// ok is an answer with JSON in it.
func ok(status int, body any) reply {
	return reply{status: status, contentType: jsonType, header: http.Header{"Cache-Control": {"no-store"}}, body: body}
}
