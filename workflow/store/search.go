package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"orderflow/workflow"
)

// narrow is how many orders with a prefix are looked at one by one; with more of
// them the prefix is a filter like the others.
const narrow = 1000

// detailsMost is how many orders are read in one statement.
const detailsMost = 100

// Orders lists orders, those last decided about first, or last. The place of a
// page is a key and not a number: an order that is not decided about while the
// pages are read is on exactly one of them. One that is may be on two, or on none.
//
// Without statuses it lists those that this program knows. The error wraps
// workflow.ErrBadInput when what is asked makes no sense.
func (s *Store) Orders(ctx context.Context, q workflow.Search) (page workflow.Page[workflow.Listed], err error) {
	f, err := filterOf(q)
	if err != nil {
		return page, fmt.Errorf("list orders: %w", err)
	}
	keys, err := s.keys(ctx, f)
	if err == nil {
		page, err = s.details(ctx, f, keys)
	}
	if err != nil {
		return workflow.Page[workflow.Listed]{}, fmt.Errorf("list orders: %w", err)
	}
	return page, nil
}

// filter is a search in the terms of the statements: every bound is set.
type filter struct {
	workflow.Search

	list  string // what is asked for, without which page
	begin cursor
	top   int
	empty bool // no order can be meant
}

func filterOf(q workflow.Search) (f filter, err error) {
	f.Search = q
	if f.top, err = topOf(q.Top); err != nil {
		return f, err
	}
	if len(f.Statuses) == 0 {
		for _, row := range workflow.Table() {
			f.Statuses = append(f.Statuses, row.Status)
		}
	}
	f.Statuses = slices.Compact(slices.Sorted(slices.Values(f.Statuses)))
	for _, status := range f.Statuses {
		if workflow.IDFault(string(status)) != "" || len(status) > 64 { // one of a newer program may be meant
			return f, fmt.Errorf("%w: no status is called %.80q", workflow.ErrBadInput, status)
		}
	}
	for _, to := range []*time.Time{&f.CreatedTo, &f.UpdatedTo} {
		if to.IsZero() {
			*to = farOff
		}
	}
	for _, at := range []*time.Time{&f.CreatedFrom, &f.CreatedTo, &f.UpdatedFrom, &f.UpdatedTo} {
		*at = latest(at.UTC(), longAgo)
		if rest := at.Truncate(time.Microsecond); rest.Before(*at) { // a bound between two moments that are kept
			*at = rest.Add(time.Microsecond)
		}
		if at.After(farOff) { // later than any that could be written down
			*at = farOff
		}
	}
	f.UpdatedFrom = latest(f.UpdatedFrom, f.CreatedFrom) // nothing is decided about an order before it is known
	f.empty = f.Prefix != "" && workflow.OrderIDFault(f.Prefix) != ""
	f.list = fmt.Sprintf("orders %q %q %t %t %s %s %s %s", f.Statuses, f.Prefix, f.Blocked, f.Oldest,
		formatTime(f.CreatedFrom), formatTime(f.CreatedTo), formatTime(f.UpdatedFrom), formatTime(f.UpdatedTo))
	first := cursor{At: f.UpdatedTo}
	if f.Oldest {
		first.At = f.UpdatedFrom
	}
	f.begin, err = cursorOf(f.list, q.After, first)
	return f, err
}

// keys are those of the orders of a page, and one more if there is another page.
func (s *Store) keys(ctx context.Context, f filter) (keys []cursor, err error) {
	few := false
	if f.empty {
		return nil, nil
	}
	if f.Prefix != "" {
		if keys, few, err = s.prefixed(ctx, f); err != nil {
			return nil, err
		}
	}
	if !few {
		if keys, err = s.firsts(ctx, f); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(keys, f.inOrder)
	seen := make(map[string]bool) // an order that moves may have been read in both of its statuses
	keys = slices.DeleteFunc(keys, func(c cursor) bool {
		twice := seen[c.ID]
		seen[c.ID] = true
		return twice
	})
	return keys[:min(len(keys), f.top+1)], nil
}

// inOrder compares places in the list.
func (f *filter) inOrder(a, b cursor) int {
	if !f.Oldest {
		a, b = b, a
	}
	return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
}

// firsts reads the first of each status from an index that has all that is asked
// for, in the order of the list: what is read is what is shown, however many
// orders there are, unless a prefix or the time of creation leaves most out.
func (s *Store) firsts(ctx context.Context, f filter) (keys []cursor, err error) {
	text, from, to := s.text.newest, f.UpdatedFrom, f.begin.At
	switch {
	case f.Oldest && f.Blocked:
		text, from, to = s.text.oldestBlocked, f.begin.At, f.UpdatedTo
	case f.Oldest:
		text, from, to = s.text.oldest, f.begin.At, f.UpdatedTo
	case f.Blocked:
		text = s.text.newestBlocked
	}
	questions := make([]question, len(f.Statuses))
	for i, status := range f.Statuses {
		questions[i] = question{text: text, args: []any{
			string(status), from, to, f.begin.ID, f.CreatedFrom, f.CreatedTo, f.Prefix, int64(f.top + 1),
		}, row: func(r row) error {
			var c cursor
			err := r.Scan(&c.ID, moment{&c.At})
			keys = append(keys, c)
			return err
		}}
	}
	return keys, s.engine.read(ctx, questions...)
}

// prefixed looks at all orders whose ID begins so, if those are few.
func (s *Store) prefixed(ctx context.Context, f filter) (keys []cursor, few bool, err error) {
	last := len(f.Prefix) - 1
	beyond := f.Prefix[:last] + string(f.Prefix[last]+1) // an order's ID is ASCII
	n := 0
	err = s.engine.read(ctx, question{text: s.text.prefixed, args: []any{f.Prefix, beyond, int64(narrow + 1)}, row: func(r row) error {
		n++
		var c cursor
		var status workflow.Status
		var created time.Time
		var blockedBy sql.NullString
		err := r.Scan(&c.ID, moment{&c.At}, &status, moment{&created}, &blockedBy)
		if f.takes(c, status, created, blockedBy.Valid) {
			keys = append(keys, c)
		}
		return err
	}})
	return keys, n <= narrow, err
}

// takes reports whether an order is one of those asked for, and after the page
// before.
func (f *filter) takes(c cursor, status workflow.Status, created time.Time, blocked bool) bool {
	return slices.Contains(f.Statuses, status) && !c.At.Before(f.UpdatedFrom) && c.At.Before(f.UpdatedTo) && f.inOrder(f.begin, c) < 0 &&
		!created.Before(f.CreatedFrom) && created.Before(f.CreatedTo) && (blocked || !f.Blocked)
}

// details reads the orders of a page. One that moved since its key was read, and
// is not asked for any more, is left out.
func (s *Store) details(ctx context.Context, f filter, keys []cursor) (page workflow.Page[workflow.Listed], err error) {
	if len(keys) > f.top {
		keys = keys[:f.top]
		page.Next = keys[f.top-1].text(f.list)
	}
	read := make(map[string]workflow.Listed, len(keys))
	var questions []question
	for part := range slices.Chunk(keys, detailsMost) {
		ids := make([]any, len(part))
		for i := range part {
			ids[i] = part[i].ID
		}
		questions = append(questions, question{text: s.text.listed(len(ids)), args: ids, row: func(r row) error {
			l, err := scanListed(r)
			read[l.Order.ID] = l
			return err
		}})
	}
	if len(questions) > 0 {
		err = s.engine.read(ctx, questions...)
	}
	for _, key := range keys {
		l, is := read[key.ID]
		if is && slices.Contains(f.Statuses, l.Order.Status) && (l.BlockedBy != "" || !f.Blocked) {
			page.Items = append(page.Items, l)
		}
	}
	return page, err
}

func scanListed(r row) (l workflow.Listed, err error) {
	var id, status, state string
	var version int64
	var blockedBy sql.NullString
	err = r.Scan(&id, &l.Revision, &version, &status, &state, moment{&l.CreatedAt}, moment{&l.Since}, moment{&l.UpdatedAt}, &blockedBy,
		moment{&l.DeadlineAt}, &l.Dead, moment{&l.Waiting}, &l.Held, moment{&l.HeldSince})
	l.BlockedBy = blockedBy.String
	l.Order = readableState(id, status, version, state)
	return l, err
}
