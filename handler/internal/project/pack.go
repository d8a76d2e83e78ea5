package project

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Entry is one file of the package.
type Entry struct {
	Name string // with slashes
	Data []byte
	// Mode is 0755 for the executable: outside of Linux Consumption nobody gives
	// it the right to be executed later.
	Mode fs.FileMode
}

// Pack gathers what the package holds, sorted by name: host.json, the folders of
// the functions, and the executable for Linux on an architecture, as Go names
// it. The error says what is no part of a package.
func Pack(root fs.FS, functions []string, executable []byte, arch string) ([]Entry, error) {
	if err := runsOn(executable, arch); err != nil {
		return nil, fmt.Errorf("%s %w", Executable, err)
	}
	all := []Entry{{Executable, executable, 0o755}}
	for _, name := range files(functions) {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		all = append(all, Entry{name, data, 0o644})
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Architectures are those that there are packages for.
func Architectures() []string { return []string{"amd64", "arm64"} }

// runsOn says why an executable does not run on Linux where nothing else is
// installed. The error continues a sentence.
func runsOn(executable []byte, arch string) error {
	machine, known := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if !known {
		return fmt.Errorf("is for %s, which is none of %s", arch, strings.Join(Architectures(), ", "))
	}
	file, err := elf.NewFile(bytes.NewReader(executable))
	if err != nil {
		return fmt.Errorf("is no executable for Linux: %w", err)
	}
	switch {
	case file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN:
		return fmt.Errorf("is no executable for Linux but an ELF file of type %s", file.Type)
	case file.OSABI != elf.ELFOSABI_NONE && file.OSABI != elf.ELFOSABI_LINUX:
		return fmt.Errorf("is no executable for Linux but for %s", file.OSABI)
	case file.Machine != machine:
		return fmt.Errorf("is not for %s but for %s", arch, file.Machine)
	case slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }):
		return errors.New("needs libraries of the system that it was built on: build it with CGO_ENABLED=0")
	}
	return nil
}

// WriteZip writes a package as a zip file. The same entries are the same bytes.
func WriteZip(to io.Writer, entries []Entry) error {
	file := zip.NewWriter(to)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.Name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		header.SetMode(e.Mode) // which also says that it was made on Unix
		w, err := file.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(e.Data); err != nil {
			return err
		}
	}
	return file.Close()
}
