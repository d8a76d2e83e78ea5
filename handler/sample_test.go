package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

const inventorySample = "docs/samples/inventory-js"

// The services around an order need nothing of this project: one in another
// language, with Azure's own client, takes the place of a simulated one.
func TestAnInventoryServiceInJavaScriptTakesPartInOrders(t *testing.T) {
	t.Parallel()
	sample, dir := sampleWithPackages(t), folder(t)
	local := start(t, nil, "local", "-empty", "-without", "inventory", "-dir", dir, "-port", "0", "-bus-port", "0", "-deadline", "2m")
	connection, api := local.printed(t, `Service Bus clients: (.+)\n`), local.printed(t, `curl (http://.+/api/orders)/`)
	inventory := startSample(t, sample, connection)
	db, err := store.Open(t.Context(), filepath.Join(dir, "orders.db"), store.Options{Now: time.Now})
	require.NoError(t, err)
	defer db.Close()

	const trace = "0af7651916cd43dd8448eb211c80319c"
	place := func(order, sku, customer string) {
		body := fmt.Sprintf(`{"orderId":%q,"customerId":%q,"currency":"EUR","amount":12990,"lines":[{"sku":"A/1","quantity":1},{"sku":%q,"quantity":2}]}`, order, customer, sku)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusAccepted, response.StatusCode, "%s", text)
	}
	long := strings.Repeat("o", workflow.MaxOrderIDLength) // its answers have the longest IDs
	place("order-known", "B/2", "ada")
	place("order-unknown", "Z/9", "ada")
	place(long, "B/2", "declined")

	known := awaitEnd(t, db, "order-known", local, inventory)
	require.Equal(t, workflow.Completed, known.Order.Status)
	reserved := heard(t, known, workflow.InventoryReserved)
	require.Equal(t, "order-known:reserve-inventory:1", reserved.ParentID)
	require.Equal(t, "order-known:reserve-inventory:1:answer", reserved.MessageID)
	require.Equal(t, workflow.Applied, reserved.Outcome)
	for _, sent := range known.Outbox {
		require.Contains(t, sent.TraceParent, trace, "%s: the service hands the trace on", sent.ID)
	}

	unknown := awaitEnd(t, db, "order-unknown", local, inventory)
	require.Equal(t, workflow.Cancelled, unknown.Order.Status)
	require.Equal(t, "order-unknown:reserve-inventory:1", heard(t, unknown, workflow.InventoryRejected).ParentID)
	require.Contains(t, strings.Join(workflow.Explain(unknown.Order).Facts, "\n"), "Z/9 is not in the catalogue")

	declined := awaitEnd(t, db, long, local, inventory)
	require.Equal(t, workflow.Cancelled, declined.Order.Status)
	require.Equal(t, long+":release-inventory:1", heard(t, declined, workflow.InventoryReleased).ParentID)
}

func TestTheSamplesReadmeSaysHowToReachTheBus(t *testing.T) {
	t.Parallel()
	readme := document(t, inventorySample+"/README.md")
	require.Contains(t, readme, "'"+busConnection(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5672})+"'")
	command := regexp.MustCompile(`(?m)^go run \./handler local (.*)$`).FindStringSubmatch(readme)
	require.NotNil(t, command)
	var f localFlags
	require.NoError(t, f.parse(strings.Fields(command[1]), io.Discard))
	require.Equal(t, 5672, f.busPort)
	require.Equal(t, []string{"inventory"}, f.without)
}

// sampleWithPackages is a copy of the sample with its packages from npm. The
// test is skipped where they cannot be had, except in CI.
func sampleWithPackages(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("not run: %s is not installed", tool)
		}
	}
	dir := folder(t)
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc", "inventory.mjs"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(document(t, filepath.Join(inventorySample, name))), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err, "npm ci: %s", out)
		}
		t.Skipf("not run: npm ci: %v\n%s", err, out)
	}
	return dir
}

// startSample runs the sample until the test ends.
func startSample(t *testing.T, dir, connection string) *process {
	t.Helper()
	p := &process{cmd: exec.Command("node", "inventory.mjs"), done: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "ServiceBusConnection="+connection)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// printed waits until a pattern is printed and returns its group.
func (p *process) printed(t *testing.T, pattern string) string {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	var found []string
	require.Eventually(t, func() bool {
		found = wanted.FindStringSubmatch(p.stdout.String())
		return found != nil
	}, 10*time.Second, 5*time.Millisecond, "%s is not printed; stderr: %s", pattern, &p.stderr)
	return found[1]
}

// awaitEnd waits until an order is at rest and returns its story.
func awaitEnd(t *testing.T, db *store.Store, order string, local, service *process) (story workflow.Story) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		story, err = db.Story(t.Context(), order)
		return err == nil && story.Order.Status.AtRest()
	}, time.Minute, 50*time.Millisecond, "%s does not come to rest\nlocal mode: %s%s\nthe service: %s%s",
		order, &local.stdout, &local.stderr, &service.stdout, &service.stderr)
	require.Empty(t, story.Rejected)
	return story
}

// heard is the only message of a type that an order heard.
func heard(t *testing.T, s workflow.Story, typ workflow.MessageType) workflow.Entry {
	t.Helper()
	all := slices.DeleteFunc(slices.Clone(s.Journal), func(e workflow.Entry) bool { return e.Type != typ })
	require.Len(t, all, 1, "%s in %+v", typ, s.Journal)
	return all[0]
}
