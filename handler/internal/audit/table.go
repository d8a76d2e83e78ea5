package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// storage is a table of Azure Table Storage.
type storage struct {
	client  *aztables.Client
	setting string
}

func (s *storage) put(ctx context.Context, entities []entity) error {
	encoded := make([][]byte, len(entities))
	for i, e := range entities {
		var err error
		if encoded[i], err = json.Marshal(e); err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	return s.try(ctx, func() error {
		if len(encoded) == 1 {
			_, err := s.client.UpsertEntity(ctx, encoded[0], &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
			return err
		}
		actions := make([]aztables.TransactionAction, len(encoded))
		for i, e := range encoded {
			actions[i] = aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: e}
		}
		_, err := s.client.SubmitTransaction(ctx, actions, nil)
		return err
	})
}

// try writes, and once more if the table had to be created.
func (s *storage) try(ctx context.Context, write func() error) error {
	err := understood(write())
	if said(err, http.StatusNotFound) {
		_, failed := s.client.CreateTable(ctx, nil)
		if failed := understood(failed); failed != nil && !said(failed, http.StatusConflict) { // another process was faster
			return fmt.Errorf("%s: create the table: %w", s.setting, failed)
		}
		err = understood(write())
	}
	switch {
	case err == nil:
		return nil
	case said(err, http.StatusBadRequest) || said(err, http.StatusRequestEntityTooLarge):
		return fmt.Errorf("%s: %w: %w", s.setting, errRefused, err)
	default:
		return fmt.Errorf("%s: %w", s.setting, err)
	}
}

func (s *storage) list(ctx context.Context, partition, after string, most int) ([]entity, error) {
	filter := "PartitionKey eq '" + partition + "'" // keys hold no apostrophe
	if after != "" {
		filter += " and RowKey gt '" + after + "'"
	}
	top := int32(most)
	var found []entity
	for pager := s.client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter, Top: &top}); pager.More() && len(found) < most; {
		page, err := pager.NextPage(ctx) // which may be short, or empty, before the last
		if err := understood(err); missing(err) {
			return nil, nil // no event was written yet
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", s.setting, err)
		}
		for _, encoded := range page.Entities {
			var e entity
			if err := json.Unmarshal(encoded, &e); err != nil {
				return nil, fmt.Errorf("%s: an entity of %s: %w", s.setting, partition, err)
			}
			found = append(found, e)
		}
	}
	return found[:min(len(found), most)], nil
}
