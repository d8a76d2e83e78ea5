package project

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ignored checks .funcignore: `func azure functionapp publish` must take what the
// package holds and nothing else.
func (c *check) ignored() {
	data, ok := c.read(ignoreFile, "")
	if !ok {
		return
	}
	var patterns []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.HasPrefix(line, "/") || strings.Contains(line, "**") || strings.HasSuffix(line, "/") {
			c.find(ignoreFile, "", "a line must begin with a slash, not end with one, and say what is left out: %s: others mean one thing to func and another to git", line)
			continue
		}
		patterns = append(patterns, leaves(line[1:]))
	}
	patterns = append(patterns, "$^") // which nothing is
	left := regexp.MustCompile("^(?:" + strings.Join(patterns, "|") + `)\b`)
	for _, file := range append(c.packed(), Executable) {
		if left.MatchString(file) {
			c.find(ignoreFile, "", "must not leave out %s, which belongs to the package", file)
		}
	}
	c.published(left)
}

// leaves is a line of .funcignore as Core Tools read it, as an expression
// (GitIgnoreParser.cs): it stands for the beginning of a path, up to the end of a
// word, and a star for something within one name.
func leaves(line string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(line), `\*`, `[^/]+`)
}

// published finds what would be published and is not of the package: a file, or a
// folder at the root, once.
func (c *check) published(left *regexp.Regexp) {
	packed := append(c.packed(), Executable)
	told := make(map[string]bool)
	_ = fs.WalkDir(c.root, ".", func(file string, entry fs.DirEntry, err error) error { // no error is passed on
		switch {
		case err != nil:
			c.find(file, "", "cannot be read: %v", err)
			return fs.SkipDir
		case file == ".":
			return nil
		case entry.IsDir():
			// Core Tools leave out the two; and what the beginning of a path leaves
			// out need not be looked into.
			if entry.Name() == ".git" || entry.Name() == ".vscode" || left.MatchString(file) {
				return fs.SkipDir
			}
			return nil
		case left.MatchString(file), slices.Contains(packed, file), slices.Contains(neverPublished(), path.Base(file)):
			return nil
		}
		what, _, below := strings.Cut(file, "/")
		if !below || slices.ContainsFunc(packed, func(p string) bool { return strings.HasPrefix(p, what+"/") }) {
			what = file
		}
		if !told[what] {
			told[what] = true
			c.find(what, "name it in "+ignoreFile+", or delete it", "func would publish it, and it does not belong to the package")
		}
		return nil
	})
}

// neverPublished are the files that Core Tools leave out wherever they are
// (FileSystemHelpers.cs).
func neverPublished() []string {
	return []string{".funcignore", ".gitignore", "local.settings.json", "project.lock.json"}
}

// packed are the files that the package holds beside the executable.
func (c *check) packed() []string { return files(c.Functions) }

// files are the files of the project that are packed as they are.
func files(functions []string) []string {
	all := []string{hostFile}
	for _, name := range functions {
		all = append(all, functionFile(name))
	}
	slices.Sort(all)
	return all
}
