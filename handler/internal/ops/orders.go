package ops

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"orderflow/workflow"
)

type orders struct {
	Statuses []choice
	Search   workflow.Search
	Stuck    bool
	Dated    bool // one of the four times is asked about
	Filtered bool
	Rows     []flagged
	First    string // the first page, where this is another
	Next     string
}

// choice is a status in the filter.
type choice struct {
	Status workflow.Status
	Chosen bool
}

// Orders lists the orders that were found. Next of found is the token of the
// page after it.
func (p *Page) Orders(asked workflow.Search, stuck bool, found workflow.Page[workflow.Flagged]) []byte {
	v := orders{
		Search: asked, Stuck: stuck, Rows: flag(found.Items),
		Dated: !asked.CreatedFrom.IsZero() || !asked.CreatedTo.IsZero() || !asked.UpdatedFrom.IsZero() || !asked.UpdatedTo.IsZero(),
	}
	for _, row := range workflow.Table() {
		v.Statuses = append(v.Statuses, choice{row.Status, slices.Contains(asked.Statuses, row.Status)})
	}
	v.Filtered = v.Dated || stuck || asked.Blocked || asked.Prefix != "" || len(asked.Statuses) > 0
	if asked.After != "" {
		v.First = ordersLink(asked, stuck, "")
	}
	if found.Next != "" {
		v.Next = ordersLink(asked, stuck, found.Next)
	}
	return p.render("orders", v)
}

// ordersLink is where the page lists such orders, from the page of a token on.
func ordersLink(asked workflow.Search, stuck bool, token string) string {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	var statuses []string
	for _, s := range asked.Statuses {
		statuses = append(statuses, string(s))
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	yes := map[bool]string{true: "true"}
	set("status", strings.Join(statuses, ","))
	set("idPrefix", asked.Prefix)
	set("createdTimeFrom", at(asked.CreatedFrom))
	set("createdTimeTo", at(asked.CreatedTo))
	set("lastUpdatedTimeFrom", at(asked.UpdatedFrom))
	set("lastUpdatedTimeTo", at(asked.UpdatedTo))
	set("stuck", yes[stuck])
	set("blocked", yes[asked.Blocked])
	set("continuationToken", token)
	if len(query) == 0 {
		return "#/orders"
	}
	return "#/orders?" + strings.ReplaceAll(query.Encode(), "%2C", ",")
}
