package functions_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

type binding struct {
	Type, Direction, Name             string
	TopicName, SubscriptionName       string
	Connection, Cardinality, DataType string
	IsSessionsEnabled                 any
	Schedule, Route, AuthLevel        string
	Methods                           []string
}

// folders reads every function.json of the app, by folder.
func folders(t *testing.T) map[string][]binding {
	t.Helper()
	files, err := filepath.Glob("../*/function.json")
	require.NoError(t, err)
	all := make(map[string][]binding)
	for _, file := range files {
		var f struct{ Bindings []binding }
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &f), file)
		all[filepath.Base(filepath.Dir(file))] = f.Bindings
	}
	return all
}

func TestEachFunctionHasItsFolderAndEachMessageFunctionItsSubscription(t *testing.T) {
	t.Parallel()
	found := folders(t)
	for _, s := range functions.Subscriptions() {
		require.Equal(t, []binding{{
			Type: "serviceBusTrigger", Direction: "in", Name: "message",
			TopicName: "%OrdersTopic%", SubscriptionName: s.Name, Connection: "ServiceBusConnection",
			IsSessionsEnabled: true, Cardinality: "one", DataType: "binary",
		}}, found[s.Name], s.Name)
	}
	for _, name := range functions.Names() {
		require.NotEmpty(t, found[name], "the folder of %s", name)
	}
	for name, bindings := range found {
		require.NotEmpty(t, bindings, name)
		require.Contains(t, functions.Names(), name, "a folder without a function")
	}
}

func TestTheTimersAndTheForwardedFunctionsAreBoundAsTheyAreServed(t *testing.T) {
	t.Parallel()
	found := folders(t)
	for name, schedule := range map[string]string{"outbox-dispatch": "%OutboxSchedule%", "sweep": "%SweepSchedule%"} {
		require.Len(t, found[name], 1)
		require.Equal(t, "timerTrigger", found[name][0].Type)
		require.Equal(t, "timer", found[name][0].Name)
		require.Equal(t, schedule, found[name][0].Schedule)
	}

	for name, want := range map[string]binding{
		"orders":            {Route: "orders/{id?}/{view?}", Methods: []string{"get", "head"}, AuthLevel: "function"},
		"place-order":       {Route: "orders", Methods: []string{"post"}, AuthLevel: "function"},
		"order-actions":     {Route: "orders/{id}/{action}", Methods: []string{"post"}, AuthLevel: "function"},
		"operations":        {Route: "operations/{*what}", Methods: []string{"get", "head"}, AuthLevel: "function"},
		"operation-actions": {Route: "operations/{*what}", Methods: []string{"post"}, AuthLevel: "function"},
		"ops":               {Route: "ops", Methods: []string{"get", "head"}, AuthLevel: "anonymous"},
		"health":            {Route: "health/{kind:alpha}", Methods: []string{"get", "head"}, AuthLevel: "anonymous"},
	} {
		want.Type, want.Direction, want.Name = "httpTrigger", "in", "req"
		output := binding{Type: "http", Direction: "out", Name: "$return"}
		require.Equal(t, []binding{want, output}, found[name], "%s: only one HTTP trigger and one HTTP output make the host forward", name)
	}

	var host struct {
		CustomHandler struct{ EnableForwardingHTTPRequest bool }
		Extensions    struct{ HTTP struct{ RoutePrefix string } }
	}
	text, err := os.ReadFile("../host.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &host))
	require.True(t, host.CustomHandler.EnableForwardingHTTPRequest)
	require.Equal(t, "api", host.Extensions.HTTP.RoutePrefix)
}

func TestEveryTypeThatComesFromTheBrokerIsSubscribedExactlyOnce(t *testing.T) {
	t.Parallel()
	taken := make(map[workflow.MessageType]int)
	for _, row := range workflow.Table() {
		for _, transition := range row.On {
			taken[transition.On] = 0
		}
	}
	for _, s := range functions.Subscriptions() {
		for _, kind := range s.Types {
			require.Contains(t, taken, kind, "no message of the process")
			taken[kind]++
		}
	}
	for kind, times := range taken {
		if kind.Internal() {
			require.Zero(t, times, kind)
			continue
		}
		require.Equal(t, 1, times, kind)
	}
}

func TestNamesAreUniqueAndCallersMayKeepWhatTheyAreGiven(t *testing.T) {
	t.Parallel()
	names := functions.Names()
	require.Len(t, names, 19)
	sorted := slices.Sorted(slices.Values(names))
	require.Equal(t, sorted, slices.Compact(slices.Clone(sorted)))
	functions.Subscriptions()[0].Types[0] = "changed"
	require.Equal(t, workflow.OrderPlaced, functions.Subscriptions()[0].Types[0])
}
