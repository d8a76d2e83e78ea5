package functions

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// plain is the body of an answer as it goes out.
type plain []byte

// told is the answer to a read, or 304 to whoever has it already.
func (c *call) told(contentType string, body []byte) reply {
	return c.toldAs(tagOf(body), contentType, body)
}

// toldAs is told with an entity tag of one's own.
func (c *call) toldAs(tag, contentType string, body []byte) reply {
	answer := reply{
		status: http.StatusOK, contentType: contentType, body: plain(body),
		header: http.Header{"Etag": {tag}, "Cache-Control": {"private, no-cache"}},
	}
	if known(c.r.Header.Values("If-None-Match"), tag) {
		answer.status, answer.body = http.StatusNotModified, nil
	}
	return answer
}

// tagOf is the entity tag of a content, after what it begins with.
func tagOf(content []byte, prefix ...string) string {
	sum := sha256.Sum256(content)
	return `"` + strings.Join(append(prefix, hex.EncodeToString(sum[:12])), "-") + `"`
}

// known says whether a caller has the content with a tag, by RFC 9110's weak
// comparison.
func known(ifNoneMatch []string, tag string) bool {
	for _, field := range ifNoneMatch {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}
