package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"orderflow/functions"
	"orderflow/handler/internal/project"
)

// packageFlags are the flags of `handler package`.
type packageFlags struct {
	root, arch string
	zip, dir   string
}

func (f *packageFlags) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("package", flag.ContinueOnError)
	flags.StringVar(&f.root, "root", ".", "the `folder` that holds host.json")
	flags.StringVar(&f.arch, "arch", "amd64", "the architecture of the app's machines: "+strings.Join(project.Architectures(), " or "))
	flags.StringVar(&f.zip, "o", filepath.Join("dist", "orderflow.zip"), "the zip `file` to write")
	flags.StringVar(&f.dir, "dir", "", "also write the same files into a `folder`, anew each time")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	switch {
	case !slices.Contains(project.Architectures(), f.arch):
		return usageError{fmt.Errorf("-arch must be %s; it is %q", strings.Join(project.Architectures(), " or "), f.arch)}
	case f.zip == "":
		return usageError{errors.New("-o must be the name of a file; it is empty")}
	}
	return nil
}

// pack makes what is deployed: it checks the project's files, builds the
// executable, and puts them together. Two runs make the same bytes.
func pack(ctx context.Context, args []string, _ map[string]string, stdout, stderr io.Writer) error {
	var f packageFlags
	if err := f.parse(args, stderr); err != nil {
		return err
	}
	facts, err := facts()
	if err != nil {
		return err
	}
	root := os.DirFS(f.root)
	if found := project.Check(root, facts); len(found) > 0 {
		for _, finding := range found {
			fmt.Fprintln(stdout, "✗", finding)
		}
		return fmt.Errorf("nothing is packed: %w", failures(len(found)))
	}
	executable, err := f.build(ctx, stderr)
	if err != nil {
		return err
	}
	entries, err := project.Pack(root, functions.Names(), executable, f.arch)
	if err != nil {
		return err
	}
	if f.dir != "" {
		if err := writeFolder(f.dir, entries); err != nil {
			return fmt.Errorf("-dir: %w", err)
		}
	}
	var file bytes.Buffer
	if err := project.WriteZip(&file, entries); err != nil {
		return err
	}
	if err := writeWhole(f.zip, file.Bytes(), 0o644); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	for _, e := range entries {
		fmt.Fprintf(stdout, "%10d  %s\n", len(e.Data), e.Name)
	}
	fmt.Fprintf(stdout, "%10d  %s, linux/%s, sha256 %x\n", file.Len(), f.zip, f.arch, sha256.Sum256(file.Bytes()))
	fmt.Fprintf(stdout, "\nDeploy it on Flex Consumption (docs/operating/deploy.md says how on the other plans):\n  az functionapp deployment source config-zip --resource-group GROUP --name APP --src %s\n", f.zip)
	return nil
}

// build builds the executable. What it is made from is all that it depends on:
// no path of this machine, no commit and no flags of the environment.
func (f *packageFlags) build(ctx context.Context, stderr io.Writer) ([]byte, error) {
	dir, err := os.MkdirTemp("", "orderflow-package-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	built := filepath.Join(dir, "handler")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", built, "./handler")
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.root, stderr, stderr
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+f.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-mod=readonly", // the default: an empty one would be looked up in what go env -w wrote
		"GOWORK=off", "GOFIPS140=off", "GOEXPERIMENT=")
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	return os.ReadFile(built)
}

// writeFolder writes entries into a folder in the place of an earlier package. It
// takes nothing away that is no part of one.
func writeFolder(dir string, entries []project.Entry) error {
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		name = filepath.ToSlash(name)
		_, below, _ := strings.Cut(name, "/")
		if below != "function.json" && name != project.Executable && name != "host.json" && !strings.HasPrefix(filepath.Base(file), unfinished) {
			return fmt.Errorf("%s is no part of a package: name a folder that is empty, or is not there", file)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, e := range entries {
		if err := writeWhole(filepath.Join(dir, filepath.FromSlash(e.Name)), e.Data, e.Mode); err != nil {
			return err
		}
	}
	return nil
}

// unfinished begins the name of a file that is being written, or was by a
// program that was killed.
const unfinished = ".orderflow-"

// writeWhole writes a file in the place of the one that is there, if any: all of
// it or nothing.
func writeWhole(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // gone already if all went well
	_, err = file.Write(data)
	if err := errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
