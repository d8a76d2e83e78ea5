package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"orderflow/handler/internal/audit"
	"orderflow/handler/internal/telemetry"
	"orderflow/workflow/store"
)

// look is what one look at something around the program has shown.
type look struct {
	Name  string    `json:"name"`
	State lookState `json:"state"`
	Says  string    `json:"says"`
	Do    string    `json:"do,omitempty"` // about it, if anything is wrong
}

type lookState string

const (
	lookWell  lookState = "well"
	lookWrong lookState = "wrong"
	notLooked lookState = "not looked"
)

func (s lookState) sign() string {
	switch s {
	case lookWell:
		return "✓"
	case lookWrong:
		return "✗"
	default:
		return "–"
	}
}

func well(name, says string) look { return look{Name: name, State: lookWell, Says: says} }

func wrong(name string, err error, do string) look {
	return look{Name: name, State: lookWrong, Says: strings.ReplaceAll(err.Error(), "\n", "; "), Do: do}
}

// glance looks at one thing: its name, and what does it.
type glance struct {
	name string
	at   func(context.Context) []look
}

// lookTimeout is how long a look at one thing may take. What does not heed its
// end is left behind a little later.
const lookTimeout = 15 * time.Second

// lookAround looks at all that the program needs, at once. It changes nothing
// and sends nothing. What needs a setting that is wrong is not looked at.
func lookAround(ctx context.Context, environ map[string]string) []look {
	s, err := readSettings(environ)
	_, unclear := telemetry.Read(environ)
	all := settingsLook(errors.Join(err, s.checkServe(), unclear), environ)
	if err != nil {
		return append(all, look{"the rest", notLooked, "the settings come first", ""})
	}
	var glances []glance
	if s.checkDatabase() == nil {
		glances = append(glances, glance{"database", func(ctx context.Context) []look {
			found, err := store.Look(ctx, s.SQLConnection)
			return []look{databaseLook(found, err)}
		}})
	}
	if (s.ServiceBus == "") != (s.ServiceBusNamespace == "") {
		glances = append(glances, glance{"Service Bus", func(ctx context.Context) []look { return busLooks(ctx, &s) }})
	}
	glances = append(glances, glance{"audit", func(ctx context.Context) []look {
		if !s.audited() {
			return []look{{"audit", notLooked, "none is kept", ""}}
		}
		return []look{auditLook(audit.Look(ctx, s.auditStorage()))}
	}})
	return append(all, glanceAt(ctx, glances)...)
}

// glanceAt looks at several things at once and tells of them in their order.
func glanceAt(ctx context.Context, glances []glance) (all []look) {
	seen := make([][]look, len(glances))
	var wg sync.WaitGroup
	for i, g := range glances {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			done := make(chan []look, 1)
			go func() { done <- g.at(ctx) }()
			grace := time.NewTimer(lookTimeout + time.Second)
			defer grace.Stop()
			select {
			case seen[i] = <-done:
			case <-grace.C:
				seen[i] = []look{wrong(g.name, context.DeadlineExceeded, "see whether the network lets it through")}
			}
		})
	}
	wg.Wait()
	for _, some := range seen {
		all = append(all, some...)
	}
	return all
}

// settingsLook tells of the settings, and of the one that is the host's alone.
func settingsLook(err error, environ map[string]string) (all []look) {
	for line := range strings.Lines(errorText(err)) {
		all = append(all, wrong("settings", errors.New(strings.TrimSpace(line)), ""))
	}
	if len(all) == 0 {
		all = append(all, well("settings", "all can be read"))
	}
	const host = "AzureWebJobsStorage"
	for name, value := range environ {
		if (name == host || strings.HasPrefix(name, host+"__")) && value != "" {
			return append(all, well("host storage", host+" is set"))
		}
	}
	return append(all, wrong("host storage", errors.New(host+" is missing"), "name a storage account: without one the host runs no timers and keeps no keys"))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// databaseLook tells what a look at the database has found.
func databaseLook(found store.Looked, err error) look {
	const name = "database"
	schema := fmt.Sprintf("schema %d", found.Version)
	switch {
	case err != nil:
		return wrong(name, err, databaseFix(found.Server, err))
	case found.Missing:
		return well(name, "SQLite, not there yet: it is made at the start")
	case !found.Server && found.Version < found.Needed:
		return well(name, "SQLite, "+schema+fmt.Sprintf(": brought to %d at the start", found.Needed))
	case !found.Server:
		return well(name, "SQLite, "+schema)
	case found.Version < found.Needed:
		return wrong(name, fmt.Errorf("SQL Server, %s: this program needs %d", schema, found.Needed), "run `handler migrate up` as a user who may change tables")
	case len(found.Lacking) > 0:
		return wrong(name, fmt.Errorf("SQL Server, %s: the login lacks %s", schema, strings.Join(found.Lacking, ", ")), "make its user a member of db_datareader and db_datawriter")
	default:
		return well(name, "SQL Server, "+schema+": it may be read and written")
	}
}

// databaseFix is what to do about an error of a database.
func databaseFix(server bool, err error) string {
	if !server {
		return "correct SqlConnection, or the rights on the file and its folder"
	}
	var said interface{ SQLErrorNumber() int32 }
	if errors.As(err, &said) {
		switch said.SQLErrorNumber() {
		case 18456:
			return "correct the user and password in SqlConnection; for an identity, make its user: CREATE USER [NAME] FROM EXTERNAL PROVIDER"
		case 4060:
			return "correct the database in SqlConnection, and make a user in it for the login"
		case 40615, 47073:
			return "let this machine through the server's firewall, or use its private endpoint"
		}
	}
	return "see whether the server in SqlConnection is up and the network lets it through"
}

func auditLook(there bool, err error) look {
	const name = "audit"
	switch {
	case errors.Is(err, audit.ErrForbidden):
		return wrong(name, err, "give the identity the role Storage Table Data Contributor, or correct the key")
	case err != nil:
		return wrong(name, err, "see whether the storage account is there and the network lets it through")
	case !there:
		return well(name, "the table is made with the first event")
	default:
		return well(name, "the table can be read")
	}
}
