package functions

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"net/url"
	"strings"
)

// A list that is longer than a page goes on with a token. It holds where the
// list's source goes on, and a check sum over what was asked for, so that it is
// of use with the same filters only. It is no secret and no proof of anything.

// mark is the check sum of a list's parameters but for where it goes on and how
// much and in which form it is told.
func (c *call) mark() string {
	filters := url.Values{}
	for name, values := range c.query {
		switch name {
		case "continuationToken", "top", "format":
		default:
			filters[name] = values
		}
	}
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(c.at.path+"?"+filters.Encode())))
}

// token is what the next page is asked for with; empty at the end.
func (c *call) token(next string) string {
	if next == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(c.mark() + next))
}

// after is where the page begins that is asked for; empty for the first.
func (f *filter) after() string {
	const name = "continuationToken"
	value := f.c.query.Get(name)
	if value == "" {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(value)
	after, same := strings.CutPrefix(string(text), f.c.mark())
	if err != nil || !same || after == "" {
		f.wrong(name, "what an answer to the same question gave, with the same filters")
		return ""
	}
	return after
}

// next is the address of the next page, empty at the end. It has no key in it.
func (c *call) next(token string) string {
	if token == "" {
		return ""
	}
	query := url.Values{}
	for name, values := range c.query {
		query[name] = values
	}
	query.Set("continuationToken", token)
	return apiPath + c.at.path + "?" + query.Encode()
}
