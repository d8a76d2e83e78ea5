package funchost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// errHangs says that the host would never complete the invocation.
var errHangs = errors.New("the answer is empty or null, which the host waits on until functionTimeout")

// maxDepth is how deeply Json.NET reads nested documents on the host.
const maxDepth = 256

// readResponse holds the handler's answer to the host's rules and gives its
// Logs. An error other than errHangs is why the invocation failed.
func readResponse(res *http.Response) (logs []string, err error) {
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, fmt.Errorf("response status code does not indicate success: %d (%s)", res.StatusCode, http.StatusText(res.StatusCode))
	}
	if len(body) == 0 {
		return nil, errHangs
	}
	contentType := res.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" && media != "text/json" {
		return nil, fmt.Errorf("invalid HttpResponseMessage: the content type is %q, not application/json", contentType)
	}
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return nil, errHangs
	}
	if logs, err = readResult(trimmed); err != nil {
		return nil, fmt.Errorf("invalid HttpResponseMessage: %w: %.200q", err, trimmed)
	}
	return logs, nil
}

// readResult reads {"Outputs":{…},"Logs":["…"],"ReturnValue":…}. Names match in
// any case, other members are ignored.
func readResult(body []byte) (logs []string, err error) {
	if body[0] != '{' {
		return nil, errors.New("the answer is not a JSON object")
	}
	if depth(body) > maxDepth {
		return nil, fmt.Errorf("the answer is nested deeper than %d", maxDepth)
	}
	var result struct {
		Outputs     map[string]json.RawMessage
		Logs        []json.RawMessage
		ReturnValue json.RawMessage
	}
	if err := json.Unmarshal(body, &result); err != nil {
		return nil, fmt.Errorf("the answer is malformed: %w", err)
	}
	for _, raw := range result.Logs {
		line := string(raw)
		switch raw[0] {
		case '{', '[':
			return nil, errors.New("the answer is malformed: Logs holds something that is not a string")
		case '"':
			if err := json.Unmarshal(raw, &line); err != nil {
				return nil, fmt.Errorf("the answer is malformed: %w", err)
			}
		}
		logs = append(logs, line)
	}
	return logs, nil
}

// depth counts nested objects and arrays; the document need not be valid.
func depth(body []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}
