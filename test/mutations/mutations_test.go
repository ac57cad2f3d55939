package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// This type is the go command's description of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// This is the output of a script test whose result differs from the expected
// one.
const differs = "--- FAIL: TestScripts/x (0.00s)\n script.go:26:\n output didn't match expected:\n @@ -1,8 +1,8 @@\n expected:\n found:\n"

// TestEveryMutationFits checks that each mutation applies to the current source,
// compiles, and names a test that exists. `make mutations` shows whether that
// test catches the mutation.
func TestEveryMutationFits(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	packages := list(t, root)
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		i := slices.IndexFunc(packages, func(p listed) bool { return p.ImportPath == path })
		if i < 0 || packages[i].Export == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(packages[i].Export)
	})
	seen := map[string]bool{}
	for _, m := range Mutations() {
		t.Run(m.Name, func(t *testing.T) {
			if seen[m.Name] || m.Removes == "" || m.Says == "" || len(m.Edits) == 0 {
				t.Error("it needs a name of its own, words, edits and an expected failure")
			}
			seen[m.Name] = true
			says, err := regexp.Compile(m.Says)
			if err != nil {
				t.Error(err)
			} else if says.MatchString(differs) {
				t.Error("every script that differs says that: name the line that must change")
			}
			exists(t, root, m.Caught)
			o, err := m.overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range dirsOf(root, m.Edits) {
				i := slices.IndexFunc(packages, func(p listed) bool { return p.Dir == dir })
				if i < 0 {
					t.Fatalf("%s is no package", dir)
				}
				var files []*ast.File
				for _, name := range packages[i].GoFiles {
					src, err := o.Read(filepath.Join(dir, name))
					if err != nil {
						t.Fatal(err)
					}
					f, err := parser.ParseFile(set, filepath.Join(dir, name), src, parser.SkipObjectResolution)
					if err != nil {
						t.Fatal(err)
					}
					files = append(files, f)
				}
				check := types.Config{Importer: imports}
				if _, err := check.Check(packages[i].ImportPath, set, files, nil); err != nil {
					t.Errorf("it does not compile: %v", err)
				}
			}
		})
	}
}

// This function lists the packages that mutations change, with all their
// imports.
func list(t *testing.T, root string) []listed {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, m := range Mutations() {
		for _, dir := range dirsOf(root, m.Edits) {
			if !slices.Contains(args, dir) {
				args = append(args, dir)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func dirsOf(root string, edits []Edit) []string {
	var dirs []string
	for _, e := range edits {
		if dir := filepath.Dir(filepath.Join(root, e.File)); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// The function `exists` checks that a package contains the test that the -run
// pattern names. The name may also be an engine scenario, a test of the
// store's conformance suite, or a subtest that is named in its package.
func exists(t *testing.T, root string, test Test) {
	t.Helper()
	if test.Run == "." {
		return
	}
	if name, ok := strings.CutPrefix(test.Run, script("").Run); ok {
		if _, err := os.Stat(filepath.Join(root, "engine/testdata", name)); err != nil {
			t.Error(err)
		}
		return
	}
	for alternative := range strings.SplitSeq(test.Run, "|") {
		parts := strings.Split(alternative, "/")
		found(t, filepath.Join(root, test.Package, "*_test.go"), `(?m)^func `+parts[0]+`\w*\(`)
		for _, part := range parts[1:] {
			if test.Package == "./store" {
				found(t, filepath.Join(root, "store/storetest/*.go"), `\{"`+part+`", `)
			} else {
				found(t, filepath.Join(root, test.Package, "*_test.go"), `"`+part+`"`)
			}
		}
	}
}

func found(t *testing.T, files, pattern string) {
	t.Helper()
	names, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(strings.ReplaceAll(pattern, `$\w*`, ""))
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if want.Match(src) {
			return
		}
	}
	t.Errorf("nothing in %s is called %s", files, pattern)
}
