package audit

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// ErrForbidden means that the table service does not let us in.
var ErrForbidden = errors.New("the table service refuses")

// Look asks for the table, and writes nothing. It is there, or it is made with
// the first event; the error says why no event could be written, and wraps
// ErrForbidden where a right is missing.
func Look(ctx context.Context, c Connection) (there bool, err error) {
	t, err := c.table(nil)
	if err != nil {
		return false, err
	}
	one := int32(1)
	_, err = t.client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: &one}).NextPage(ctx)
	err = understood(err)
	switch {
	case err == nil:
		return true, nil
	case missing(err):
		return false, nil
	case said(err, http.StatusForbidden) || said(err, http.StatusUnauthorized):
		return false, fmt.Errorf("%s: %w: %w", t.setting, ErrForbidden, err)
	default:
		return false, fmt.Errorf("%s: %w", t.setting, err)
	}
}
