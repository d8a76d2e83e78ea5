package store

import (
	"fmt"
	"time"
)

// timeLayout is how SQLite keeps a time: UTC, of fixed width, so that texts
// sort as times do.
const timeLayout = "2006-01-02T15:04:05.000000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// moment reads a time column; NULL is the zero time.
type moment struct{ *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(value any) (err error) {
	switch v := value.(type) {
	case nil:
		*m.Time = time.Time{}
	case time.Time:
		*m.Time = v.UTC()
	case string:
		*m.Time, err = time.Parse(timeLayout, v)
	default:
		err = fmt.Errorf("a time is stored as %T", value)
	}
	return err
}
