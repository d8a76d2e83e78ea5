package main

import (
	"archive/zip"
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/handler/internal/servicebus"
	"orderflow/handler/internal/simulation"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// packaged runs `handler package` and returns the zip file.
func packaged(t *testing.T, args ...string) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds what is deployed")
	}
	file := filepath.Join(t.TempDir(), "made", "orderflow.zip")
	var out, errs bytes.Buffer
	args = append([]string{"package", "-root", "..", "-arch", runtime.GOARCH, "-o", file}, args...)
	require.Zero(t, run(t.Context(), args, nil, &out, &errs), "%s%s", &out, &errs)
	require.Contains(t, out.String(), "az functionapp deployment source config-zip")
	require.Contains(t, out.String(), "--src "+file)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing beside it")
	return data
}

// unpacked is a package in a folder of its own, as the platform unpacks it.
func unpacked(t *testing.T, data []byte) (dir string) {
	t.Helper()
	dir = folder(t)
	file, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	for _, f := range file.File {
		require.EqualValues(t, 3, f.CreatorVersion>>8, "made on Unix, or the mode is ignored")
		content, err := fs.ReadFile(file, f.Name)
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, content, f.Mode()))
		require.NoError(t, os.Chmod(path, f.Mode()))
	}
	return dir
}

// tree is what a folder holds: modes and contents by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		name, err := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = info.Mode().String() + " " + string(content)
		return err
	}))
	return all
}

func TestThePackageIsTheSameEachTimeAndHoldsWhatTheHostReadsAndTheProgram(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "app")
	for _, name := range []string{"retired/function.json", "handler/handler", "host.json", "handler/.orderflow-1"} { // of an earlier package, which was killed
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	one, other := packaged(t, "-dir", dir), packaged(t)
	require.True(t, bytes.Equal(one, other), "two runs differ")
	held := tree(t, unpacked(t, one))
	require.True(t, strings.HasPrefix(held["handler/handler"], "-rwxr-xr-x \x7fELF"))
	here, err := filepath.Abs("..")
	require.NoError(t, err)
	require.False(t, strings.Contains(held["handler/handler"], here), "it names a path of this machine") //nolint:testifylint // Contains would print all of it
	want := []string{"host.json", "handler/handler"}
	for _, name := range functions.Names() {
		want = append(want, name+"/function.json")
	}
	for _, name := range want {
		require.Contains(t, held, name)
		if name != "handler/handler" {
			require.Equal(t, "-rw-r--r-- "+document(t, name), held[name])
		}
	}
	require.Len(t, held, len(want), "and nothing else")
	require.Equal(t, held, tree(t, dir), "the folder holds the same")
}

// It is not parallel: it changes the environment.
func TestThePackageDoesNotDependOnHowGoIsSetUpHere(t *testing.T) {
	plain := packaged(t)
	written := filepath.Join(t.TempDir(), "env")
	require.NoError(t, os.WriteFile(written, []byte("GOFLAGS=-gcflags=all=-N\n"), 0o600))
	for name, value := range map[string]string{
		"GOENV": written, "GOFLAGS": "", "GOWORK": filepath.Join(t.TempDir(), "go.work"), "GOFIPS140": "latest", "GOEXPERIMENT": "jsonv2",
		"GOOS": "windows", "CGO_ENABLED": "1", "GOAMD64": "v3",
	} {
		t.Setenv(name, value)
	}
	require.True(t, bytes.Equal(plain, packaged(t)))
}

func TestTheUnpackedPackageTakesAnOrderToItsEnd(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the package is for Linux")
	}
	r := raise(t, rigging{instances: 1, root: unpacked(t, packaged(t)), window: 10 * time.Minute})
	simulate(t, r)
	require.Eventually(t, func() bool { // the handler starts
		return r.instances[0].place(t.Context(), orderBody("order-42", 12990)) == http.StatusAccepted
	}, 10*time.Second, 20*time.Millisecond, "%s", strings.Join(r.printed(), "\n"))
	db, err := store.Open(t.Context(), r.database, store.Options{Now: time.Now})
	require.NoError(t, err)
	defer db.Close()
	require.Eventually(t, func() bool {
		story, err := db.Story(t.Context(), "order-42")
		return err == nil && story.Order.Status == workflow.Completed
	}, 30*time.Second, 20*time.Millisecond, "%s", strings.Join(r.printed(), "\n"))
}

// simulate plays the services around the orders of a rig until the test ends.
func simulate(t *testing.T, r *rig) {
	t.Helper()
	client, err := servicebus.NewClient(servicebus.Connection{String: r.broker})
	require.NoError(t, err)
	answers, err := client.NewSender(r.settings.OrdersTopic, nil)
	require.NoError(t, err)
	world := simulation.World{
		Client: client, Answers: answers, Commands: r.settings.CommandsTopic,
		Pace: time.Millisecond, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		world.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = client.Close(context.WithoutCancel(ctx)) // the bus ends with the test
	})
}

func TestNothingIsPackedOfAProjectWhoseFilesDisagree(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, file := range projectFiles(t) {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), file.Data, 0o600))
	}
	made := filepath.Join(root, "dist", "orderflow.zip")
	pack := func() (code int, out, errs bytes.Buffer) {
		code = run(t.Context(), []string{"package", "-root", root, "-o", made}, nil, &out, &errs)
		require.NoFileExists(t, made)
		return code, out, errs
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "orders", "orders.db"), nil, 0o600))
	code, out, errs := pack()
	require.Equal(t, exitFailed, code)
	require.Contains(t, out.String(), "✗ orders/orders.db: func would publish it")
	require.Contains(t, errs.String(), "nothing is packed: one thing is wrong")

	require.NoError(t, os.Remove(filepath.Join(root, "orders", "orders.db")))
	code, _, errs = pack()
	require.Equal(t, exitFailed, code, "there is no program in it")
	require.Contains(t, errs.String(), "go build: ")
}

func TestAFolderThatHoldsSomethingElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := filepath.Join(dir, "handler", "orders.db")
	require.NoError(t, os.Mkdir(filepath.Dir(kept), 0o700))
	require.NoError(t, os.WriteFile(kept, []byte("x"), 0o600))
	require.ErrorContains(t, writeFolder(dir, nil), "orders.db is no part of a package")
	require.FileExists(t, kept)
	require.Error(t, writeFolder(kept, nil), "a file is no folder")
	require.FileExists(t, kept)
	require.NoError(t, os.Rename(kept, filepath.Join(filepath.Dir(kept), "function.json")))
	require.ErrorContains(t, writeFolder(filepath.Dir(kept), nil), "function.json is no part of a package", "the folder of one function")
}

func TestABadFlagOfPackageIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flag, value, says string }{
		{"-arch", "386", `-arch must be amd64 or arm64; it is "386"`},
		{"-o", "", "-o must be the name of a file"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), []string{"package", "-root", "..", c.flag, c.value}, nil, &out, &errs))
		require.Contains(t, errs.String(), c.says)
	}
}
