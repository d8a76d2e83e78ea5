package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(document(t, path)), into), path)
}

type workflowFile struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Timeout     int `yaml:"timeout-minutes"`
		Steps       []struct{ Uses, Run string }
	}
}

func TestThePipelineRunsPinnedActionsAndMayReadAndNoMore(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, paths, 2)
	pinned := regexp.MustCompile(`(?m)uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, path := range paths {
		path = ".github/workflows/" + filepath.Base(path)
		var file workflowFile
		readYAML(t, path, &file)
		text := document(t, path)
		require.NotContains(t, text, "secrets.", "%s: who signs in is an identity", path)
		require.Equal(t, map[string]string{"contents": "read"}, file.Permissions, path)
		uses := 0
		for name, job := range file.Jobs {
			require.NotZero(t, job.Timeout, "%s: %s may hang", path, name)
			for _, step := range job.Steps {
				if step.Uses != "" {
					uses++
				}
				require.NotRegexp(t, `\$\{\{`, step.Run, "%s: what others may have written is no part of a script", path)
			}
			if job.Permissions != nil {
				require.Equal(t, map[string]string{"contents": "read", "id-token": "write"}, job.Permissions, "%s: %s", path, name)
			}
		}
		require.Len(t, pinned.FindAllString(text, -1), uses, "%s: an action that is not pinned with its version", path)
	}
}

func TestThePipelineRunsCommandsThatExist(t *testing.T) {
	t.Parallel()
	for _, path := range []string{".github/workflows/test.yml", ".github/workflows/deploy.yml"} {
		var file workflowFile
		readYAML(t, path, &file)
		var runs []string
		for _, job := range file.Jobs {
			for _, step := range job.Steps {
				runs = append(runs, strings.Fields(step.Run)...)
			}
		}
		for i, word := range runs {
			if strings.HasPrefix(word, "infra/") || strings.HasPrefix(word, ".ci/") {
				_, err := os.Stat("../" + word)
				require.NoError(t, err, path)
			}
			if word == "./handler" {
				require.Contains(t, usage, "\n  handler "+runs[i+1], path)
			}
		}
	}
}

type composeFile struct {
	Services map[string]struct {
		Image       string
		Ports       []string
		Environment map[string]string
		Volumes     []string
		Healthcheck struct{ Test []string }
	}
}

func TestWhatRunsOnADevelopersMachineIsPinnedAndOpenToItOnly(t *testing.T) {
	t.Parallel()
	var file composeFile
	readYAML(t, "compose.yaml", &file)
	require.Len(t, file.Services, 3)
	for name, s := range file.Services {
		require.Regexp(t, `^mcr\.microsoft\.com/[\w/-]+:\d[\w.-]+$`, s.Image, name)
		require.NotEmpty(t, s.Ports, name)
		for _, port := range s.Ports {
			require.Regexp(t, `^127\.0\.0\.1:(\d+):\d+$`, port, name)
		}
		if license, asks := s.Environment["ACCEPT_EULA"]; asks {
			require.True(t, strings.HasPrefix(license, "${ACCEPT_EULA:?"), "%s: who accepts a licence says so", name)
		}
	}
	require.Contains(t, document(t, "compose.yaml"), "--disableTelemetry")
	require.Equal(t, []string{"./emulator/config.json:/ServiceBus_Emulator/ConfigFiles/Config.json:ro"}, file.Services["servicebus"].Volumes)
}

func TestTheExampleIsForWhatRunsOnADevelopersMachine(t *testing.T) {
	t.Parallel()
	var file composeFile
	readYAML(t, "compose.yaml", &file)
	sqlServer := file.Services["sqlserver"]
	found := regexp.MustCompile(`^sqlserver://sa:(.+)@(127\.0\.0\.1:\d+)\?database=(\w+)&`).FindStringSubmatch(example(t)["SqlConnection"])
	require.NotNil(t, found)
	for _, s := range []string{"sqlserver", "servicebus"} {
		require.Equal(t, "${MSSQL_SA_PASSWORD:-"+found[1]+"}", file.Services[s].Environment["MSSQL_SA_PASSWORD"], s)
	}
	require.Contains(t, sqlServer.Ports, found[2]+":1433")
	require.True(t, strings.HasSuffix(strings.Join(sqlServer.Healthcheck.Test, " "), " CREATE DATABASE "+found[3]+`"`))
	require.Contains(t, example(t)["ServiceBusConnection"], "UseDevelopmentEmulator=true")
	require.Contains(t, file.Services["servicebus"].Ports, "127.0.0.1:5672:5672", "where a client looks for an emulator")
	for _, setting := range []string{"AzureWebJobsStorage", "AuditStorage"} {
		require.Equal(t, "UseDevelopmentStorage=true", example(t)[setting])
	}
}

func TestAzdDeploysWhatTheHandlerPackages(t *testing.T) {
	t.Parallel()
	var file struct {
		Infra    struct{ Path, Module string }
		Services map[string]struct {
			Host, Language, Dist string
			Hooks                map[string]map[string]struct{ Shell, Run string }
		}
	}
	readYAML(t, "azure.yaml", &file)
	_, err := os.Stat("../" + file.Infra.Path + "/" + file.Infra.Module + ".bicep")
	require.NoError(t, err)
	require.Len(t, file.Services, 1)
	for name, s := range file.Services {
		require.Contains(t, document(t, "infra/app.bicep"), "'azd-service-name': '"+name+"'", "by which azd finds the app")
		require.Equal(t, []string{"function", "custom"}, []string{s.Host, s.Language})
		for _, system := range []string{"posix", "windows"} {
			require.Equal(t, "go run ./handler package -dir "+s.Dist, s.Hooks["prepackage"][system].Run, system)
		}
	}
}
