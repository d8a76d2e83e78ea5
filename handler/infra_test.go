package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No Bicep compiler was at hand when the templates were written. What it would
// say first is asked for here, of the syntax by a grammar and of the names by a
// small reader; what it would say of types and of resources' properties is not.

// templates are the Bicep files, by the name that other templates call them.
func templates(t *testing.T) map[string]template {
	t.Helper()
	paths, err := filepath.Glob("../infra/*.bicep")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := make(map[string]template)
	for _, path := range paths {
		all[filepath.Base(path)] = readTemplate(document(t, "infra/"+filepath.Base(path)))
	}
	return all
}

func TestEveryTemplateIsBicep(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT RUN: the Bicep parser needs node")
	}
	const checker = "../infra/testdata"
	if _, err := os.Stat(filepath.Join(checker, "node_modules")); errors.Is(err, os.ErrNotExist) {
		t.Skip("NOT RUN: the Bicep parser is not installed; run npm ci in infra/testdata")
	}
	var named []string
	for name := range templates(t) {
		named = append(named, "../"+name)
	}
	broken := filepath.Join(t.TempDir(), "broken.bicep")
	require.NoError(t, os.WriteFile(broken, []byte("param a string\nresource x = {\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), node, append([]string{"check.js", broken}, named...)...)
	cmd.Dir = checker
	out, err := cmd.Output()
	require.NoError(t, err)
	var faults map[string][]string
	require.NoError(t, json.Unmarshal(out, &faults))
	require.NotEmpty(t, faults[broken], "the parser finds what is wrong")
	for _, name := range named {
		require.NotNil(t, faults[name], name)
		require.Empty(t, faults[name], name)
	}
}

func TestEveryNameInATemplateIsDeclaredAndEveryDeclaredOneIsUsed(t *testing.T) {
	t.Parallel()
	for file, b := range templates(t) {
		for name, kind := range b.declared {
			if kind == "param" || kind == "var" {
				require.True(t, b.used[name], "%s: %s %s is not used", file, kind, name)
			}
			if kind == "param" || kind == "output" {
				require.True(t, b.described[name], "%s: %s %s has no description", file, kind, name)
			}
		}
		for name := range b.used {
			require.True(t, b.declared[name] != "" || b.local[name] || slices.Contains(bicepKnows, name), "%s: %s is not declared", file, name)
		}
	}
}

func TestEveryModuleIsGivenWhatItAsksForAndAskedForWhatItTells(t *testing.T) {
	t.Parallel()
	all := templates(t)
	called := map[string]bool{"main.bicep": true}
	for file, b := range all {
		for name, m := range b.modules {
			callee, exists := all[m.file]
			require.True(t, exists, "%s: module %s is %s, which is not there", file, name, m.file)
			called[m.file] = true
			var asks []string
			for param, kind := range callee.declared {
				if kind == "param" && !callee.optional[param] {
					asks = append(asks, param)
				}
			}
			require.ElementsMatch(t, asks, m.params, "%s: module %s", file, name)
		}
		for _, asked := range b.outputs {
			m := b.modules[asked[0]]
			require.Equal(t, "output", all[m.file].declared[asked[1]], "%s: %s of %s", file, asked[1], m.file)
		}
	}
	require.Len(t, called, len(all), "each template is deployed")
}

func TestTwoEnvironmentsAreDeployedIntoOneGroupAtOnce(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?m)^(?:module|resource) \w+ '[^']+' = (?:\[for .*)?\{\n(?:  parent: .*\n)?  name: (.*)$`)
	for file := range templates(t) {
		text := document(t, "infra/"+file)
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			inside := strings.Contains(m[0], "\n  parent: ") || strings.HasPrefix(m[1], "guid(") // of what has a name of its own
			require.True(t, inside || regexp.MustCompile(`\$\{(token|uniqueString\(namespaceName\))\}'$`).MatchString(m[1]), "%s: %s", file, m[0])
		}
	}
}

func TestAParameterFileSetsWhatHasNoDefaultAndNothingElseThanParameters(t *testing.T) {
	t.Parallel()
	main := templates(t)["main.bicep"]
	paths, err := filepath.Glob("../infra/*.bicepparam")
	require.NoError(t, err)
	require.Len(t, paths, 2)
	for _, path := range paths {
		set := make(map[string]bool)
		for _, m := range regexp.MustCompile(`(?m)^param (\w+) = `).FindAllStringSubmatch(document(t, "infra/"+filepath.Base(path)), -1) {
			require.Equal(t, "param", main.declared[m[1]], "%s sets %s", path, m[1])
			set[m[1]] = true
		}
		for name, kind := range main.declared {
			require.True(t, kind != "param" || main.optional[name] || set[name], "%s does not set %s", path, name)
		}
	}
}

// builtInRoles are the roles of Azure that the templates may give, by their IDs.
var builtInRoles = map[string]string{
	"Azure Service Bus Data Owner":    "090c5cfd-751d-490a-894a-3ce6f1109419",
	"Azure Service Bus Data Receiver": "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0",
	"Azure Service Bus Data Sender":   "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39",
	"Monitoring Metrics Publisher":    "3913510d-42f4-4e42-8a64-420c390055eb",
	"Storage Blob Data Owner":         "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
	"Storage Table Data Contributor":  "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
}

func TestTheRolesThatAreGivenAreTheOnesThatAreNamed(t *testing.T) {
	t.Parallel()
	given := make(map[string]string)
	ids := 0
	for name := range templates(t) {
		text := document(t, "infra/"+name)
		ids += len(regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindAllString(text, -1))
		for _, m := range regexp.MustCompile(`'([A-Z][A-Za-z ]+)': '([0-9a-f-]{36})'`).FindAllStringSubmatch(text, -1) {
			given[m[1]] = m[2]
		}
	}
	require.Equal(t, builtInRoles, given)
	require.Equal(t, len(given), ids, "an ID without a name")
}

func TestResourcesAreOfOneReleasedVersionEach(t *testing.T) {
	t.Parallel()
	versions := make(map[string]string) // of each provider's branch, such as Microsoft.ServiceBus/namespaces
	for name := range templates(t) {
		for _, m := range regexp.MustCompile(`(?m)^resource \w+ '([^']+)'`).FindAllStringSubmatch(document(t, "infra/"+name), -1) {
			typed := regexp.MustCompile(`^(Microsoft\.\w+/\w+)(?:/\w+)*@(\d{4}-\d{2}-\d{2})$`).FindStringSubmatch(m[1])
			require.NotNil(t, typed, "%s: %s", name, m[1])
			if seen, was := versions[typed[1]]; was {
				require.Equal(t, seen, typed[2], "%s: %s", name, m[1])
			}
			versions[typed[1]] = typed[2]
		}
	}
	require.NotEmpty(t, versions)
}

func TestNoTemplateKnowsASecret(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`(?i)@secure|listKeys|password\s*:|AccountKey|SharedAccess|administratorLogin\b|InstrumentationKey`)
	for name := range templates(t) {
		require.Empty(t, secret.FindAllString(document(t, "infra/"+name), -1), name)
	}
}

func TestTheTemplatesMakeWhatTheGuaranteesRestOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, says, why string }{
		{"topic", "requiresDuplicateDetection: true", "what is sent twice is delivered once"},
		{"topic", "@batchSize(1)\nmodule subscriptions", "subscriptions of one topic are not made at once, which the namespace may refuse"},
		{"subscription", "@batchSize(1)\nresource subjects", "nor are rules"},
		{"main", "param scaleByMessageCount bool = true", "the platform sees messages that wait for an app that sleeps"},
		{"topic", "supportOrdering: true", "a session has its messages in the order of sending"},
		{"subscription", "requiresSession: subscription.requiresSession", "an order's messages come one at a time"},
		{"subscription", "deadLetteringOnMessageExpiration: true", "nothing is dropped silently"},
		{"subscription", "name: '$Default'\n  properties: {\n    filterType: 'SqlFilter'\n    sqlFilter: {\n      sqlExpression: '1=0'", "a message goes to no function but its own"},
		{"subscription", "label: subject", "a message goes to its function"},
		{"app", "name: 'custom'\n        version: '1.0'", "Flex Consumption starts a custom handler"},
		{"app", "'${identityId}': {}", "the app is somebody"},
		{"app", "allowSharedKeyAccess: false", "no key lets anybody in"},
		{"messaging", "disableLocalAuth: true", "no key lets anybody in"},
		{"monitoring", "DisableLocalAuth: true", "no key lets anybody in"},
		{"data", "azureADOnlyAuthentication: true", "no password lets anybody in"},
		{"data", "minCapacity: serverless ? json(vCores < 5 ? '0.5' : '${vCores / 8}.${vCores % 8 * 125}') : null", "a larger size, of which half a core is not allowed, can be deployed"},
		{"data", "autoPauseDelay: serverless ? -1 : null", "the database is there when a timer reads it"},
	} {
		require.Contains(t, document(t, "infra/"+c.file+".bicep"), c.says, c.why)
	}
}

func TestTheAppIsGivenEverySettingThatItsFileLeavesOpen(t *testing.T) {
	t.Parallel()
	var left map[string]string
	require.NoError(t, json.Unmarshal([]byte(document(t, "infra/settings.json")), &left))
	var open, given []string
	for name, value := range left {
		if value == "" {
			open = append(open, name)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^  ((?:Sql|ServiceBus|Audit)\w+): `).FindAllStringSubmatch(document(t, "infra/app.bicep"), -1) {
		if !strings.HasSuffix(m[1], "__credential") { // the host's
			given = append(given, m[1])
		}
	}
	require.ElementsMatch(t, open, given)
}
