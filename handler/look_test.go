package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/audit"
	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/project"
	"orderflow/handler/internal/servicebus"
	"orderflow/workflow/store"
)

// checked runs `handler check` and returns its lines.
func checked(t *testing.T, environ map[string]string, args ...string) (code int, lines []string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"check"}, args...), environ, &out, &errs)
	require.NotContains(t, out.String()+errs.String(), "hunter2", "what may be a secret is not repeated")
	return code, strings.Split(strings.TrimSpace(out.String()), "\n")
}

func TestACheckLooksAtAllThatTheProgramNeedsAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	local := start(t, nil, "local", "-empty", "-dir", dir, "-port", "0")
	environ := map[string]string{
		"ServiceBusConnection": local.printed(t, `Service Bus clients: (.+)\n`), "SqlConnection": filepath.Join(dir, "orders.db"),
		"AzureWebJobsStorage__accountName": "contoso",
	}
	local.printed(t, `(Every order is at rest)`) // the database is made
	code, lines := checked(t, environ)
	require.Zero(t, code, "%s", strings.Join(lines, "\n"))
	require.Len(t, lines, 18)
	for i, want := range []string{
		"✓ settings ", "✓ host storage ", "✓ database ", "✓ topic orders ", "✓ topic commands ", "✓ subscription orders/order-placed ", "✓ subscription orders/inventory-reserved ",
	} {
		require.True(t, strings.HasPrefix(lines[i], want), "%s\nis not %s", lines[i], want)
	}
	require.Regexp(t, `^✓ database +SQLite, schema \d$`, lines[2])
	require.Regexp(t, `^– how orders was made +an emulator is not asked$`, lines[15])
	require.Regexp(t, `^– audit +none is kept$`, lines[17])

	environ["OrdersTopic"] = "other"
	code, lines = checked(t, environ)
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `^✗ topic other +it is not there$`, lines[3])
	require.Equal(t, "    make it as infra/topics.json says", lines[4])
	require.Contains(t, strings.Join(lines, "\n"), "✓ topic commands", "the rest is looked at all the same")

	environ["ServiceBusConnection"] = nowhere
	code, lines = checked(t, environ)
	require.Equal(t, exitFailed, code)
	require.Len(t, lines, 6, "one thing is said once: %s", strings.Join(lines, "\n"))
	require.Regexp(t, `^✗ Service Bus +.*refused$`, lines[3])
	require.Contains(t, lines[4], "start the emulator", "one listens without TLS, on a port of its own")
	require.Contains(t, (&settings{ServiceBusNamespace: "contoso.servicebus.windows.net"}).wayToBus(), "port 5671")
}

func TestARightThatIsMissingIsNamedAndTheRestIsLookedAt(t *testing.T) {
	t.Parallel()
	r := raise(t, rigging{faults: busserver.Faults{On: func(e busserver.Event) busserver.Fault {
		if e.Moment == busserver.Attaching && (e.Address == "orders" || e.Address == "orders/Subscriptions/order-placed") {
			return busserver.Fault{Refuse: amqp.Errorf(amqp.UnauthorizedAccess, "Unauthorized access. 'Send' claim(s) are required to perform this operation.")}
		}
		return busserver.Fault{}
	}}})
	r.settings.ServiceBus = r.broker
	seen := busLooks(t.Context(), &r.settings)
	require.Len(t, seen, 14)
	require.Equal(t, []string{"topic orders", "topic commands", "subscription orders/order-placed", "subscription orders/inventory-reserved"},
		[]string{seen[0].Name, seen[1].Name, seen[2].Name, seen[3].Name})
	require.Equal(t, []lookState{lookWrong, lookWell, lookWrong, lookWell}, []lookState{seen[0].State, seen[1].State, seen[2].State, seen[3].State})
	require.Contains(t, seen[0].Do, "Azure Service Bus Data Sender")
	require.Contains(t, seen[2].Do, "Azure Service Bus Data Receiver")
	require.Contains(t, seen[0].Says, "'Send' claim(s) are required")
}

func TestACheckNamesWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	code, lines := checked(t, map[string]string{
		"SqlConnection": "/nowhere/orders.db", "ServiceBusConnection": "nonsense;SharedAccessKey=hunter2",
		"AuditStorage": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=aHVudGVyMg==;TableEndpoint=http://127.0.0.1:9/a;",
	})
	require.Equal(t, exitFailed, code)
	said := strings.Join(lines, "\n")
	for _, want := range []string{
		`✓ settings`, `✗ host storage +AzureWebJobsStorage is missing\n    name a storage account`,
		`✗ database +.*/nowhere.*\n    correct SqlConnection`, `✗ Service Bus .*\n    correct ServiceBusConnection`, `✗ audit +AuditStorage: .*refused\n    see whether the storage account`,
	} {
		require.Regexp(t, want, said)
	}

	code, lines = checked(t, map[string]string{"PaymentDeadline": "7d", "OutboxBatch": "0", "AzureWebJobsStorage": "x"})
	require.Equal(t, exitFailed, code)
	said = strings.Join(lines, "\n")
	for _, want := range []string{`✗ settings +PaymentDeadline must be`, `✗ settings +OutboxBatch must be`, `✗ settings +SqlConnection is missing`, `✗ settings +ServiceBusConnection is missing`, `✓ host storage`, `– the rest +the settings come first`} {
		require.Regexp(t, want, said)
	}

	code, lines = checked(t, map[string]string{"AzureWebJobsStorage": "x"})
	require.Equal(t, exitFailed, code)
	require.Len(t, lines, 4, "what is missing, the host's storage, and no audit: %s", strings.Join(lines, "\n"))
}

func TestACheckOfASettingsFileTakesItsValuesFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	f := checkFlags{settings: file("local.settings.json", `{"IsEncrypted": false, "Values": {"OrdersTopic": "theirs", "CommandsTopic": "c"}}`)}
	environ, err := f.environment(map[string]string{"OrdersTopic": "ours", "SqlConnection": "orders.db"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"OrdersTopic": "theirs", "CommandsTopic": "c", "SqlConnection": "orders.db"}, environ)
	f = checkFlags{settings: file("empty.json", `{}`)}
	environ, err = f.environment(map[string]string{"OrdersTopic": "ours"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"OrdersTopic": "ours"}, environ)

	for _, c := range []struct{ file, says string }{
		{filepath.Join(dir, "none.json"), "-settings: "},
		{file("broken.json", `{`), "broken.json: unexpected end"},
		{file("encrypted.json", `{"IsEncrypted": true, "Values": {"A": "hunter2"}}`), "func settings decrypt"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), []string{"check", "-settings", c.file}, nil, &out, &errs))
		require.Contains(t, errs.String(), c.says)
		require.Empty(t, out.String())
	}
	for _, args := range [][]string{{"check", "-offline", "-settings", "x"}, {"check", "-root", "x"}, {"check", "-o", ""}, {"check", "x"}} {
		require.Equal(t, exitUsage, run(t.Context(), args, nil, &bytes.Buffer{}, &bytes.Buffer{}), "%v", args)
	}
}

func TestACheckIsToldAsJSON(t *testing.T) {
	t.Parallel()
	code, lines := checked(t, map[string]string{"AzureWebJobsStorage": "x"}, "-o", "json")
	require.Equal(t, exitFailed, code)
	var told []map[string]string
	require.NoError(t, json.Unmarshal([]byte(strings.Join(lines, "\n")), &told))
	require.Len(t, told, 4)
	require.Equal(t, map[string]string{"name": "host storage", "state": "well", "says": "AzureWebJobsStorage is set"}, told[2])
	require.Equal(t, []string{"settings", "wrong"}, []string{told[0]["name"], told[0]["state"]})
	require.Equal(t, []string{"audit", "not looked"}, []string{told[3]["name"], told[3]["state"]})
}

func TestALookThatTakesTooLongIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		seen := glanceAt(t.Context(), []glance{
			{"a stone", func(context.Context) []look {
				<-time.After(time.Minute) // it heeds no context
				return nil
			}},
			{"an ear", func(ctx context.Context) []look {
				<-ctx.Done()
				return []look{wrong("an ear", ctx.Err(), "")}
			}},
			{"a bird", func(context.Context) []look { return []look{well("a bird", "sings"), well("another", "too")} }},
		})
		require.Equal(t, []look{
			{"a stone", lookWrong, "context deadline exceeded", "see whether the network lets it through"},
			{"an ear", lookWrong, "context deadline exceeded", ""}, well("a bird", "sings"), well("another", "too"),
		}, seen)
		require.Equal(t, lookTimeout+time.Second, time.Since(begun))
		<-time.After(time.Minute)
	})
}

// numbered is an error of SQL Server.
type numbered int32

func (n numbered) Error() string         { return fmt.Sprint("mssql: error ", int32(n)) }
func (n numbered) SQLErrorNumber() int32 { return int32(n) }

func TestWhatALookHasFoundIsToldWithWhatToDo(t *testing.T) {
	t.Parallel()
	const role = "some role"
	for _, c := range []struct {
		seen  look
		state lookState
		says  string
		do    string
	}{
		{databaseLook(store.Looked{Missing: true, Needed: 2}, nil), lookWell, "made at the start", ""},
		{databaseLook(store.Looked{Version: 1, Needed: 2}, nil), lookWell, "SQLite, schema 1: brought to 2 at the start", ""},
		{databaseLook(store.Looked{Version: 2, Needed: 2}, nil), lookWell, "SQLite, schema 2", ""},
		{databaseLook(store.Looked{Server: true, Version: 2, Needed: 2}, nil), lookWell, "SQL Server, schema 2: it may be read and written", ""},
		{databaseLook(store.Looked{Server: true, Version: 3, Needed: 2}, nil), lookWell, "SQL Server, schema 3", ""},
		{databaseLook(store.Looked{Server: true, Version: 1, Needed: 2}, nil), lookWrong, "schema 1: this program needs 2", "handler migrate up"},
		{databaseLook(store.Looked{Server: true, Version: 2, Needed: 2, Lacking: []string{"INSERT on dbo.journal", "DELETE on dbo.outbox"}}, nil), lookWrong, "lacks INSERT on dbo.journal, DELETE on dbo.outbox", "db_datawriter"},
		{databaseLook(store.Looked{}, fs.ErrPermission), lookWrong, "permission denied", "the rights on the file"},
		{databaseLook(store.Looked{Server: true}, fmt.Errorf("login: %w", numbered(18456))), lookWrong, "18456", "FROM EXTERNAL PROVIDER"},
		{databaseLook(store.Looked{Server: true}, numbered(4060)), lookWrong, "4060", "correct the database"},
		{databaseLook(store.Looked{Server: true}, numbered(40615)), lookWrong, "40615", "firewall"},
		{databaseLook(store.Looked{Server: true}, numbered(1205)), lookWrong, "1205", "is up"},
		{databaseLook(store.Looked{Server: true}, errors.New("cut\noff")), lookWrong, "cut; off", "is up"},

		{busLook("x", "is fine", role, nil), lookWell, "is fine", ""},
		{busLook("x", "", role, fmt.Errorf("%w: claims", servicebus.ErrForbidden)), lookWrong, "claims", "the right: some role"},
		{busLook("x", "", role, servicebus.ErrNotThere), lookWrong, "not there", "infra/topics.json"},
		{busLook("x", "", role, servicebus.ErrNoSessions), lookWrong, "no sessions", "delete it first"},
		{busLook("x", "", role, context.DeadlineExceeded), lookWrong, "deadline", "network"},
		{topicLook("orders", servicebus.ErrForbidden), lookWrong, "right", "Azure Service Bus Data Sender"},

		{auditLook(true, nil), lookWell, "can be read", ""},
		{auditLook(false, nil), lookWell, "made with the first event", ""},
		{auditLook(false, fmt.Errorf("AuditStorage: %w", audit.ErrForbidden)), lookWrong, "AuditStorage", "Storage Table Data Contributor"},
		{auditLook(false, context.DeadlineExceeded), lookWrong, "deadline", "network"},
	} {
		require.Equal(t, c.state, c.seen.State, c.seen)
		require.Contains(t, c.seen.Says, c.says)
		require.Contains(t, c.seen.Do, c.do)
		require.Equal(t, c.do == "", c.seen.Do == "", c.seen)
	}
}

func TestHowATopicWasMadeIsComparedWithItsDeclaration(t *testing.T) {
	t.Parallel()
	want := project.Topic{Setting: "OrdersTopic", Name: "orders", DuplicateDetection: project.Span(10 * time.Minute), Subscriptions: []project.Subscription{
		{Name: "payment-result", RequiresSession: true, MaxDeliveryCount: 10, LockDuration: project.Span(time.Minute), Subjects: []string{"PaymentCaptured", "PaymentFailed"}},
	}}
	made := func() servicebus.MadeTopic {
		return servicebus.MadeTopic{DuplicateDetection: "PT10M", Subscriptions: []servicebus.MadeSubscription{
			{Name: "payment-result", Sessions: true, DeadLetters: true, MaxDeliveryCount: 10, LockDuration: "PT1M", Status: "Active", Subjects: []string{"PaymentFailed", "PaymentCaptured"}},
			{Name: "reporting", LockDuration: "5 minutes", Status: "Disabled", Others: []string{"$Default"}}, // another team's
		}}
	}
	require.Equal(t, []look{well("made", "as declared, subscriptions and rules too")}, madeLooks("made", want, made(), nil))

	for _, c := range []struct {
		broken string
		by     func(*servicebus.MadeTopic)
		says   string
	}{
		{"it forgets", func(m *servicebus.MadeTopic) { m.DuplicateDetection = "" }, "orders: duplicate detection must be PT10M, is PT0S"},
		{"it remembers for another time", func(m *servicebus.MadeTopic) { m.DuplicateDetection = "PT1H" }, "orders: duplicate detection must be PT10M, is PT1H"},
		{"nobody listens", func(m *servicebus.MadeTopic) { m.Subscriptions = nil }, "orders/payment-result: the subscription is missing"},
		{"there are no sessions", func(m *servicebus.MadeTopic) { m.Subscriptions[0].Sessions = false }, "orders/payment-result: sessions must be true"},
		{"it gives up sooner", func(m *servicebus.MadeTopic) { m.Subscriptions[0].MaxDeliveryCount = 3 }, "orders/payment-result: maximum delivery count must be 10, is 3"},
		{"it locks for longer", func(m *servicebus.MadeTopic) { m.Subscriptions[0].LockDuration = "PT5M" }, "orders/payment-result: lock duration must be PT1M, is PT5M"},
		{"a subject is lost", func(m *servicebus.MadeTopic) { m.Subscriptions[0].Subjects = []string{"PaymentFailed"} }, "orders/payment-result: subjects must be PaymentCaptured, PaymentFailed, is PaymentFailed"},
		{"what expires is dropped", func(m *servicebus.MadeTopic) { m.Subscriptions[0].DeadLetters = false }, "orders/payment-result: a message that expires is dropped unseen"},
		{"it was left switched off", func(m *servicebus.MadeTopic) { m.Subscriptions[0].Status = "ReceiveDisabled" }, "orders/payment-result: it is ReceiveDisabled"},
		{"everything is let in", func(m *servicebus.MadeTopic) { m.Subscriptions[0].Others = []string{"x", "$Default"} }, "orders/payment-result: it takes other messages too, by $Default, x"},
	} {
		m := made()
		c.by(&m)
		seen := madeLooks("made", want, m, nil)
		require.Len(t, seen, 1, c.broken)
		require.Equal(t, lookWrong, seen[0].State, c.broken)
		require.Contains(t, seen[0].Says, c.says, c.broken)
		require.Equal(t, "make it as infra/topics.json says", seen[0].Do, c.broken)
	}
	odd := made()
	odd.DuplicateDetection = "ten minutes"
	require.Len(t, madeLooks("made", want, odd, nil), 2, "what cannot be read is said too")

	for err, state := range map[error]lookState{servicebus.ErrForbidden: notLooked, servicebus.ErrNotThere: lookWrong, context.DeadlineExceeded: lookWrong} {
		seen := madeLooks("made", want, servicebus.MadeTopic{}, err)
		require.Len(t, seen, 1)
		require.Equal(t, state, seen[0].State, err)
	}
}
