package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"orderflow/workflow"
)

// column is one thing that a list says of each of its items, in every form.
type column[T any] struct {
	name string
	of   func(*T) any
}

// columns are what a list says, in that order. Lists in JSON, NDJSON and CSV
// all come of this.
type columns[T any] []column[T]

// tellPage is the answer with one page of a list.
func tellPage[T any](c *call, says columns[T], page workflow.Page[T], format string) reply {
	return tellNamed(c, "items", "", says, page, format)
}

// tellNamed is tellPage with a name of its own for the list, and more members
// beside it, in JSON.
func tellNamed[T any](c *call, name, members string, says columns[T], page workflow.Page[T], format string) reply {
	token := c.token(page.Next)
	next := c.next(token)
	var answer reply
	switch format {
	case "csv":
		answer = c.told("text/csv; charset=utf-8; header=present", says.csv(page.Items))
	case "ndjson":
		var b bytes.Buffer
		for i := range page.Items {
			says.object(&b, &page.Items[i])
			b.WriteByte('\n')
		}
		answer = c.told("application/x-ndjson", b.Bytes())
	default:
		var b bytes.Buffer
		fmt.Fprintf(&b, `{%s:[`, jsonOf(name))
		for i := range page.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			says.object(&b, &page.Items[i])
		}
		fmt.Fprintf(&b, `]%s,"continuationToken":%s,"next":%s}`, members, orNull(token), orNull(next))
		answer = c.told(jsonType, b.Bytes())
	}
	if next != "" {
		answer.header.Set("Link", "<"+next+`>; rel="next"`)
	}
	return answer
}

// object writes an item as a JSON object.
func (all columns[T]) object(b *bytes.Buffer, item *T) {
	for i, col := range all {
		b.WriteByte("{,"[min(i, 1)])
		b.Write(jsonOf(col.name))
		b.WriteByte(':')
		b.Write(jsonOf(col.of(item)))
	}
	b.WriteByte('}')
}

// csv is the items as RFC 4180 has it, with a header.
func (all columns[T]) csv(items []T) []byte {
	var b bytes.Buffer
	row := make([]string, len(all))
	for i, col := range all {
		row[i] = col.name
	}
	writeCSV(&b, row)
	for n := range items {
		for i, col := range all {
			row[i] = cellOf(col.of(&items[n]))
		}
		writeCSV(&b, row)
	}
	return b.Bytes()
}

// cellOf is a value as text.
func cellOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case *time.Time:
		if v == nil {
			return ""
		}
		return v.Format(time.RFC3339Nano)
	case []string:
		return strings.Join(v, "; ")
	default:
		return fmt.Sprint(v)
	}
}

// jsonOf is a value as JSON. What the API tells is made of texts, numbers,
// times and lists of them, which cannot fail.
func jsonOf(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func orNull(text string) []byte {
	if text == "" {
		return []byte("null")
	}
	return jsonOf(text)
}

// readFailed is the answer when something could not be read.
func (c *call) readFailed(what string, err error) reply {
	if errors.Is(err, workflow.ErrBadInput) { // of all parameters the token alone is the source's to judge
		return c.rec.refuse(http.StatusBadRequest, "the parameter continuationToken is none that an answer gave", "begin at the first page, without it")
	}
	return retryLater(c.rec, fmt.Errorf("read %s: %w", what, err), what+" cannot be read at the moment", "ask again")
}

// tellJSON is the answer with one JSON document in it.
func (c *call) tellJSON(body any) reply { return c.told(jsonType, jsonOf(body)) }
