package ops

import (
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

var noon = time.Date(2026, 7, 19, 12, 0, 0, 0, time.UTC)

// filled is a value in which every text says the same, every list has two items
// and every number and time is some.
func filled[T any](text string) T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), text)
	return v
}

func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(2)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), text)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(noon))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	default:
		panic("a " + v.Kind().String() + " is not filled")
	}
}

// views are all fragments, of data in which every text is the same.
func views(p *Page, text string) map[string][]byte {
	flagged := filled[workflow.Page[workflow.Flagged]](text)
	story := filled[workflow.Story](text)
	needs := story // something may be done about it
	needs.Order.Status, needs.BlockedBy = workflow.NeedsAttention, ""
	return map[string][]byte{
		"overview":         p.Overview(filled[workflow.Summary](text), flagged, filled[workflow.Page[workflow.Refused]](text), []string{text}, 2),
		"orders":           p.Orders(filled[workflow.Search](text), true, flagged),
		"order":            p.Order(story, filled[[]workflow.Stuck](text)),
		"order that needs": p.Order(needs, filled[[]workflow.Stuck](text)),
		"tabs":             p.Tabs("rejected", filled[workflow.Backlog](text), filled[workflow.Page[workflow.Refused]](text), 2),
		"commands":         p.Dispatches("dead", false, false, filled[workflow.Page[workflow.DispatchAt]](text)),
		"deadlines":        p.Dispatches("deadlines", true, false, filled[workflow.Page[workflow.DispatchAt]](text)),
		"kept":             p.Kept("early", false, filled[workflow.Page[workflow.Kept]](text)),
		"dead letters":     p.DeadLetters("dead-letters", false, map[string]int{text: 2}, filled[workflow.Page[workflow.DeadLetter]](text)),
		"rejections":       p.Rejections("rejected", false, filled[workflow.Page[workflow.Refused]](text)),
		"rejected":         p.Rejected(filled[workflow.Refused](text)),
	}
}

// markup is what HTML is made of but for its texts and the values of its
// attributes: the elements, in order, with the names of their attributes.
func markup(t *testing.T, html []byte) (elements []string, attributes map[string][]string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader("<div>" + string(html) + "</div>"))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	attributes = make(map[string][]string)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements, attributes
		}
		require.NoError(t, err)
		if start, is := token.(xml.StartElement); is {
			element := start.Name.Local
			for _, a := range start.Attr {
				element += " " + a.Name.Local
				attributes[a.Name.Local] = append(attributes[a.Name.Local], a.Value)
			}
			elements = append(elements, element)
		}
	}
}

func TestNothingThatAMessageSaysBecomesMarkup(t *testing.T) {
	t.Parallel()
	p := New(false)
	harmless, tags := views(p, "harm less"), regexp.MustCompile(`<[^>]*>`)
	for _, hostile := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, `" autofocus onfocus="x`,
		`</pre></title></svg></style></textarea><b>`, `{{.}}`, `<!--`, `]]>`, `&lt;b&gt;`, `#/x"><a href="javascript:x">`, "`onload=x`", "a\u202eb",
	} {
		for name, html := range views(p, hostile) {
			want, _ := markup(t, harmless[name])
			got, attributes := markup(t, html)
			require.Equal(t, want, got, "%s, of %s", name, hostile)
			for _, link := range attributes["href"] {
				require.True(t, strings.HasPrefix(link, "#/"), "%s: %s", name, link)
			}
			for _, never := range []string{"style", "src", "onclick", "onerror", "srcset", "action", "formaction"} {
				require.NotContains(t, attributes, never)
			}
			require.NotContains(t, tags.ReplaceAllString(string(html), ""), "\u202e")
		}
	}
}

func TestEveryViewHasContentAndIsTheSameForTheSameData(t *testing.T) {
	t.Parallel()
	p := New(false)
	first := views(p, "harm less")
	for range 5 {
		require.Equal(t, first, views(p, "harm less"))
	}
	for name, html := range first {
		if name != "tabs" { // which say nothing from outside
			require.Contains(t, string(html), "harm less", name)
		}
		require.NotContains(t, string(html), "<no value>", name)
		require.NotContains(t, string(html), "ZgotmplZ", "%s: html/template found something unsafe", name)
	}
}

func TestTimesAreAbsoluteAndReadableWithoutTheScript(t *testing.T) {
	t.Parallel()
	story := workflow.Story{Order: workflow.Order{ID: "order-42", Status: workflow.Completed}, Since: noon.In(time.FixedZone("", 7200))}
	require.Contains(t, string(New(false).Order(story, nil)), `<time datetime="2026-07-19T12:00:00.000Z">2026-07-19 12:00:00 UTC</time>`)
	require.NotContains(t, string(New(false).Order(story, nil)), "0001-01-01", "a time that is not there is not told")
}
