package audit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"orderflow/workflow"
)

// The most UTF-16 units that are kept of a text. The service allows "about" 32
// Ki in a property and 1 MiB in an entity: all texts together, each unit escaped
// in JSON, stay below that.
const (
	longText  = 32_000
	shortText = 4_000 // of IDs and names, which are longer only in what was rejected
	plainText = 1_000
)

// entity is an event as the table holds it.
type entity = aztables.EDMEntity

// column is a property of an entity and the part of the event it holds: one of
// the pointers. What is zero has no property.
type column struct {
	name string

	text *string
	most int // UTF-16 units of the text

	list   *[]string // as JSON, in a long text
	time   *time.Time
	number *int64
	count  *int
}

// columns is which property holds what.
func columns(e *workflow.Event) []column {
	return []column{
		{name: "OrderId", text: &e.OrderID, most: shortText},
		{name: "EventKey", text: &e.Key, most: shortText},
		{name: "At", time: &e.At},
		{name: "Kind", text: (*string)(&e.Kind), most: shortText},
		{name: "MessageId", text: &e.MessageID, most: shortText},
		{name: "MessageType", text: (*string)(&e.Type), most: shortText},
		{name: "Conversation", text: &e.Conversation, most: shortText},
		{name: "ParentId", text: &e.ParentID, most: shortText},
		{name: "OriginId", text: &e.OriginID, most: shortText},
		{name: "TraceParent", text: &e.TraceParent, most: shortText},
		{name: "Outcome", text: (*string)(&e.Outcome), most: shortText},
		{name: "Reason", text: &e.Reason, most: longText},
		{name: "Said", text: &e.Said, most: longText},
		{name: "Actor", text: &e.Actor, most: shortText},
		{name: "FromStatus", text: (*string)(&e.From), most: shortText},
		{name: "ToStatus", text: (*string)(&e.To), most: shortText},
		{name: "Version", number: &e.Version},
		{name: "Revision", number: &e.Revision},
		{name: "Emitted", list: &e.Emitted},
		{name: "Function", text: &e.Function, most: shortText},
		{name: "Deliveries", count: &e.Deliveries},
		{name: "Attempts", count: &e.Attempts},
		{name: "Sequence", number: &e.Sequence},
		{name: "DueAt", time: &e.DueAt},
		{name: "Size", number: &e.Size},
	}
}

// noteColumn says what was changed about an event, so that the table took it.
const noteColumn = "Note"

// entityOf is the entity of an event, with every text as keep leaves it.
func entityOf(e workflow.Event, keep func(text string, most int) string) entity {
	made := entity{Entity: aztables.Entity{PartitionKey: key(e.OrderID), RowKey: rowKey(e.At, e.Key)}, Properties: map[string]any{}}
	for _, c := range columns(&e) {
		switch {
		case c.text != nil && *c.text != "":
			made.Properties[c.name] = keep(*c.text, c.most)
		case c.list != nil && len(*c.list) > 0:
			all, _ := json.Marshal(*c.list) // texts can be encoded
			made.Properties[c.name] = keep(string(all), longText)
		case c.time != nil && holds(*c.time):
			made.Properties[c.name] = aztables.EDMDateTime(c.time.UTC()) // it prints the time of day of any zone as UTC
		case c.number != nil && *c.number != 0:
			made.Properties[c.name] = aztables.EDMInt64(*c.number)
		case c.count != nil && *c.count != 0:
			made.Properties[c.name] = aztables.EDMInt64(*c.count)
		}
	}
	return made
}

// plain is the entity of an event in a form to which no service can object: in
// printable ASCII, with little of each text, and a note why.
func plain(e workflow.Event, why error) entity {
	keep := func(text string, most int) string {
		quoted := strconv.QuoteToASCII(kept(text, min(most, plainText)))
		return quoted[1 : len(quoted)-1]
	}
	made := entityOf(e, keep)
	made.Properties[noteColumn] = keep("its texts are cut and escaped, because as it was: "+why.Error(), plainText)
	return made
}

// eventOf is the event that an entity holds, as far as it does, and the note.
func eventOf(from entity) (e workflow.Event, note string) {
	for _, c := range columns(&e) {
		switch value := from.Properties[c.name].(type) {
		case string:
			switch {
			case c.text != nil:
				*c.text = value
			case c.list != nil && json.Unmarshal([]byte(value), c.list) != nil:
				*c.list = []string{value} // it was cut
			}
		case aztables.EDMDateTime:
			if c.time != nil {
				*c.time = time.Time(value).UTC()
			}
		case aztables.EDMInt64:
			switch {
			case c.number != nil:
				*c.number = int64(value)
			case c.count != nil:
				*c.count = int(value)
			}
		}
	}
	note, _ = from.Properties[noteColumn].(string)
	return e, note
}

// holds reports whether the table has such a time.
func holds(t time.Time) bool {
	year := t.UTC().Year()
	return 1601 <= year && year <= 9999
}

// kept is a text as a property holds it: as it is, if it is text of at most so
// many UTF-16 units; else its beginning, marked, with the length and the SHA-256
// of the whole.
func kept(text string, most int) string {
	if utf8.ValidString(text) && (len(text) <= most || units(text) <= most) {
		return text
	}
	mark := fmt.Sprintf("… [cut: %d bytes, SHA-256 %x]", len(text), sha256.Sum256([]byte(text)))
	room := most - units(mark)
	var b strings.Builder
	for _, r := range text {
		if room -= utf16.RuneLen(r); room < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + mark
}

func units(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}
