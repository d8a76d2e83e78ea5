package functions

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// tick reads what a timer says of itself. It is noted and decides nothing: what
// is due is known elsewhere, and a run too many does no harm.
func (a App) tick(r *http.Request, rec *record) (pastDue bool, err error) {
	raw, err := a.read(r, rec, a.MaxRequest)
	if err != nil {
		return false, fmt.Errorf("read the timer's request: %w", err)
	}
	var said struct {
		Data struct {
			Timer struct{ IsPastDue bool } `json:"timer"`
		}
	}
	if json.Unmarshal(raw, &said) != nil {
		rec.reason = "the timer's request could not be read; it was run all the same"
	}
	return said.Data.Timer.IsPastDue, nil
}
