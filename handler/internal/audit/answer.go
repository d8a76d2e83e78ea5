package audit

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// answer is what the service said when it did not do what it was asked.
type answer struct {
	status     int
	code, text string
}

func (a *answer) Error() string {
	text := strconv.Itoa(a.status)
	if a.code != "" {
		text += " " + a.code
	}
	if a.text != "" {
		text += ": " + a.text
	}
	return text
}

// said reports whether the service answered with a status.
func said(err error, status int) bool {
	var a *answer
	return errors.As(err, &a) && a.status == status
}

// missing reports whether the service answered that it has no such table; not
// just any server has no such page.
func missing(err error) bool {
	var a *answer
	return errors.As(err, &a) && a.status == http.StatusNotFound && a.code == string(aztables.TableNotFound)
}

// understood is an error of the library in one line, without the address, which
// may hold a signature. The answer to a batch is 202 even if it was refused, and
// has the answer to one of its parts inside.
func understood(err error) error {
	var response *azcore.ResponseError
	var unanswered *url.Error
	switch {
	case errors.As(err, &response):
		a := &answer{status: response.StatusCode, code: response.ErrorCode}
		body, _ := runtime.Payload(response.RawResponse) // it was read before
		if a.status == http.StatusAccepted {
			a.status = statusInside(body)
		}
		a.explain(body)
		return a
	case errors.As(err, &unanswered):
		return unanswered.Err
	default:
		return err
	}
}

// statusInside is the first status in the answer to a batch that is an error.
func statusInside(body []byte) int {
	for _, found := range regexp.MustCompile(`(?m)^HTTP/1\.1 ([45][0-9]{2})\b`).FindAllSubmatch(body, -1) {
		status, _ := strconv.Atoi(string(found[1])) // three digits
		return status
	}
	return 0
}

// explain takes the code and the first line of the message from a body, or from
// a part of it.
func (a *answer) explain(body []byte) {
	var failure struct {
		Error struct {
			Code    string
			Message struct{ Value string }
		} `json:"odata.error"`
	}
	from := strings.Index(string(body), `{"odata.error"`)
	if from < 0 || json.NewDecoder(strings.NewReader(string(body[from:]))).Decode(&failure) != nil {
		return
	}
	a.code = failure.Error.Code
	a.text, _, _ = strings.Cut(failure.Error.Message.Value, "\n")
}
