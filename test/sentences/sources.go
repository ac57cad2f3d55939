package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// helpSentences returns the help sentences of every command. These are the
// one-line summary and the text above "Usage:". Descriptions of flags are
// phrases, so they are left out.
func helpSentences(binary string) ([]sentence, error) {
	var found []sentence
	var visit func(path []string) error
	visit = func(path []string) error {
		subcommands, err := exec.Command(binary, append(append([]string{"__complete"}, path...), "")...).Output()
		if err != nil {
			return fmt.Errorf("list the commands of %s: run make build first: %w", binary, err)
		}
		for line := range strings.Lines(string(subcommands)) {
			name, short, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if !ok || name == "help" || name == "completion" || strings.HasPrefix(name, "-") {
				continue
			}
			command := append(append([]string{}, path...), name)
			text, err := exec.Command(binary, append(command, "--help")...).Output()
			if err != nil || !strings.Contains(string(text), "ares "+strings.Join(command, " ")) {
				continue // the name of an object, not a command
			}
			source := "ares " + strings.Join(command, " ") + " --help"
			long, _, _ := strings.Cut(string(text), "\nUsage:")
			found = append(found, phrase(short, source)...)
			found = append(found, paragraphs(long, source)...)
			if err := visit(command); err != nil {
				return err
			}
		}
		return nil
	}
	return found, visit(nil)
}

// docSentences returns the sentences of the Markdown documentation.
func docSentences(root string) ([]sentence, error) {
	pages := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			var name string
			name, err = filepath.Rel(root, path)
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list docs: %w", err)
	}
	var found []sentence
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page)) //nolint:gosec // the tree's own pages
		if err != nil {
			return nil, fmt.Errorf("read a page: %w", err)
		}
		found = append(found, paragraphs(withoutFences(string(text)), page)...)
	}
	return found, nil
}

// goSentences returns the error texts and the comments of the Go files. Error
// texts of tests and generated files are left out.
func goSentences(root string) (messages, comments []sentence, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		base := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".")):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		if ast.IsGenerated(file) {
			return nil
		}
		where := func(pos token.Pos) string {
			name, err := filepath.Rel(root, path)
			if err != nil {
				name = path
			}
			return name + ":" + strconv.Itoa(files.Position(pos).Line)
		}
		for _, group := range file.Comments {
			comments = append(comments, paragraphs(group.Text(), where(group.Pos()))...)
		}
		if !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(filepath.Dir(path), "test") && !strings.HasPrefix(where(0), "test"+string(filepath.Separator)) {
			ast.Inspect(file, func(n ast.Node) bool {
				if text, pos, ok := errorText(n); ok {
					messages = append(messages, phrase(text, where(pos))...)
				}
				return true
			})
		}
		return nil
	})
	return messages, comments, err
}

// errorText returns the message of a call to errors.New, or to Errorf of any
// package.
func errorText(n ast.Node) (text string, pos token.Pos, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", 0, false
	}
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || called.Sel.Name != "Errorf" && called.Sel.Name != "New" {
		return "", 0, false
	}
	if pkg, isName := called.X.(*ast.Ident); called.Sel.Name == "New" && (!isName || pkg.Name != "errors") {
		return "", 0, false
	}
	for _, arg := range call.Args {
		if literal, isLiteral := arg.(*ast.BasicLit); isLiteral && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			return text, literal.Pos(), err == nil
		}
	}
	return "", 0, false
}
