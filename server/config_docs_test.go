package server

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/ares-scheduler/ares/api/pipeline"
)

var write = flag.Bool("write", false, "write docs/reference/configuration.md anew")

const (
	keysBegin = "<!-- The keys, from the comments in the code: go test ./server -run TestEveryKeyIsDocumented -write -->\n"
	keysEnd   = "<!-- The end of the keys. -->\n"
)

// TestEveryKeyIsDocumented checks that docs/reference/configuration.md lists every key with its default and its
// environment variable, in the words of the code's comments.
func TestEveryKeyIsDocumented(t *testing.T) {
	file := filepath.Join("..", "docs", "reference", "configuration.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), keysBegin)
	listed, after, ends := strings.Cut(rest, keysEnd)
	if !ok || !ends {
		t.Fatalf("%s lacks the lines between which the keys are", file)
	}
	d := docs{t: t, comments: configComments(t)}
	cfg := Default()
	cfg.DataDir = "~/.local/share/ares"
	d.computed = map[string]string{"limits.reads": perCore(cfg.Limits.Reads), "limits.writes": fmt.Sprintf("%d for each core, at least %d", pipeline.WritesPerCore, pipeline.LeastWrites)}
	d.section("", reflect.ValueOf(cfg))
	want := d.out.String()
	if *write {
		if err = os.WriteFile(file, []byte(before+keysBegin+want+keysEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if listed != want {
		t.Errorf("%s is not what the code says: run go test ./server -run %s -write", file, t.Name())
	}
}

// perCore formats a default that depends on the number of cores, as in the comment "4 for each
// core".
func perCore(n int) string { return fmt.Sprintf("%d for each core", n/runtime.GOMAXPROCS(0)) }

// This type writes the documentation of the configuration keys.
type docs struct {
	t        *testing.T
	comments map[string]string // by type and field
	computed map[string]string // defaults that are no constants, by key
	out      strings.Builder
}

// The method `section` writes the keys of a struct, and then its nested sections.
func (d *docs) section(at string, v reflect.Value) {
	if at != "" {
		fmt.Fprintf(&d.out, "\n### %s\n\n%s\n", strings.TrimSuffix(at, "."), d.words(v.Type(), "", v.Type().Name()))
	}
	head := "\n| key | default | meaning |\n|---|---|---|\n"
	var inner []func()
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		key := at + f.Tag.Get("yaml")
		if f.Tag.Get("yaml") == "" {
			continue
		}
		kind := f.Type
		if kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct {
			kind, value = kind.Elem(), reflect.Zero(kind.Elem())
		}
		if kind.Kind() == reflect.Struct {
			if f.Type.Kind() == reflect.Slice {
				key += "[]"
			}
			inner = append(inner, func() { d.section(key+".", value) })
			continue
		}
		d.out.WriteString(head)
		head = ""
		fmt.Fprintf(&d.out, "| `%s` | %s | %s |\n", key, cmp.Or(d.computed[key], d.value(value)), d.words(v.Type(), f.Name, f.Name))
	}
	for _, write := range inner {
		write()
	}
}

func (d *docs) value(v reflect.Value) string {
	if k := v.Kind(); (k == reflect.String || k == reflect.Map || k == reflect.Slice) && v.Len() == 0 {
		return ""
	}
	if list, ok := reflect.TypeAssert[[]string](v); ok {
		return "`[" + strings.Join(list, ", ") + "]`"
	}
	text, err := yaml.Marshal(v.Interface())
	if err != nil {
		d.t.Fatal(err)
	}
	return "`" + strings.TrimSpace(string(text)) + "`"
}

var spaces = regexp.MustCompile(`\s+`)

// This method returns the comment of a type or field, without the name at its start.
func (d *docs) words(of reflect.Type, field, name string) string {
	d.t.Helper()
	text := spaces.ReplaceAllString(strings.TrimSpace(d.comments[path.Base(of.PkgPath())+"."+of.Name()+"."+field]), " ")
	said, ok := strings.CutPrefix(text, name+" ")
	if !ok {
		d.t.Errorf("%s.%s: say what it is, in a comment that begins with %s; it is %q", of.Name(), field, name, text)
	}
	verb, rest, _ := strings.Cut(said, " ")
	switch {
	case verb == "is", verb == "are":
		said = rest
	case !strings.HasSuffix(verb, "s"): // holds, names, bounds: what is left of "Files of …" is no sentence
		d.t.Errorf("%s.%s: say in a whole sentence what it is; it is %q", of.Name(), field, text)
	}
	first, size := utf8.DecodeRuneInString(said)
	return string(unicode.ToUpper(first)) + strings.ReplaceAll(said[size:], "|", "\\|")
}

// configComments returns the comments of all struct types and their fields in this package and in package agent.
func configComments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	own, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	agents, err := filepath.Glob("../agent/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(own, agents...) {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				return true
			}
			for _, spec := range decl.Specs {
				typed := spec.(*ast.TypeSpec)
				fields, isStruct := typed.Type.(*ast.StructType)
				if !isStruct {
					continue
				}
				of := tree.Name.Name + "." + typed.Name.Name + "."
				out[of] = decl.Doc.Text()
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						out[of+name.Name] = f.Doc.Text()
					}
				}
			}
			return true
		})
	}
	return out
}
