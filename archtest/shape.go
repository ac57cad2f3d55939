package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strings"
	"text/tabwriter"
)

// Shape contains the sizes of a package that determine how hard it is to read.
type Shape struct {
	Package *Package
	Files   int      // without tests
	Cycle   []string // the largest cycle of files, sorted
	Structs []Struct // every struct type, in the order of the source
}

// Struct is one struct type. An embedded type counts as one field.
type Struct struct {
	Name   string // name of the declared type that contains it, or "struct"
	Fields int
	Pos    token.Pos
}

// Largest returns the struct with the most fields.
func (s *Shape) Largest() (most Struct) {
	for _, st := range s.Structs {
		if st.Fields > most.Fields {
			most = st
		}
	}
	return most
}

// Shapes measures the packages that checkShapes limits. Shapes also returns the
// first type error that it finds. A package with type errors may have a larger
// cycle than the one measured.
func (t *Tree) Shapes() (shapes []*Shape, err error) {
	for _, p := range t.Packages {
		if !shapeLimited[p.Component()] {
			continue
		}
		s := &Shape{Package: p}
		p.source(func(f *File) {
			s.Files++
			s.Structs = append(s.Structs, structsOf(f)...)
		})
		if s.Files == 0 {
			continue
		}
		graph, failed := t.Graph(p)
		if err == nil {
			err = failed
		}
		s.Cycle = graph.LargestCycle()
		shapes = append(shapes, s)
	}
	return shapes, err
}

// structsOf returns the struct types of a file, including nested ones.
func structsOf(f *File) (found []Struct) {
	var visit func(n ast.Node, name string)
	visit = func(n ast.Node, name string) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				visit(n.Type, n.Name.Name)
				return false
			case *ast.StructType:
				found = append(found, Struct{Name: name, Fields: n.Fields.NumFields(), Pos: n.Pos()})
			}
			return true
		})
	}
	visit(f.AST, "struct")
	return found
}

// checkShapes limits the number of files in a package, the number of files in
// its largest cycle, and the number of fields in a struct.
func checkShapes(t *Tree) []string { return checkShapesBut(t, shapeExceptions) }

// checkShapesBut is like checkShapes, but takes the table of exceptions as an argument.
func checkShapesBut(t *Tree, exceptions map[string]int) []string {
	r := reporter{tree: t}
	shapes, _ := t.Shapes() // TestTree reports type errors
	for _, m := range measure(shapes) {
		if limit := max(m.limit, exceptions[m.key]); m.size > limit {
			r.add(m.pos, "%s, more than %d: %s", m.text, limit, m.advice)
		}
	}
	return r.problems
}

// staleShapes returns a problem for each exception that is no longer needed.
func staleShapes(t *Tree, exceptions map[string]int) (problems []string) {
	needed := map[string]bool{}
	shapes, _ := t.Shapes()
	for _, m := range measure(shapes) {
		needed[m.key] = needed[m.key] || m.size > m.limit
	}
	for key := range exceptions {
		if !needed[key] {
			problems = append(problems, key+": no longer exceeds the limit: remove its exception from archtest/tables.go")
		}
	}
	return problems
}

// The type `measurement` is one size of a package or struct, with its limit.
type measurement struct {
	key         string // key in the table of exceptions
	size, limit int
	pos         token.Pos
	text        string // the size in words
	advice      string
}

// The function `measure` returns those sizes of the given packages that have a limit.
func measure(shapes []*Shape) (all []measurement) {
	for _, s := range shapes {
		p := s.Package
		pos := p.Files[0].AST.Package
		all = append(all, measurement{
			key: p.Path + " cycle", size: len(s.Cycle), limit: maxCycle, pos: pos,
			text:   fmt.Sprintf("%s has a cycle of %d files (%s)", p, len(s.Cycle), strings.Join(s.Cycle, " ")),
			advice: "break it; \"go run ./archtest/filegraph -edges " + p.Path + "\" prints what holds it together",
		}, measurement{
			key: p.Path + " files", size: s.Files, limit: maxFiles, pos: pos,
			text: fmt.Sprintf("%s has %d files", p, s.Files), advice: "split the package",
		})
		for _, st := range s.Structs {
			name := path.Base(p.Path) + "." + st.Name
			all = append(all, measurement{
				key: p.Path + "." + st.Name, size: st.Fields, limit: maxFields, pos: st.Pos,
				text: fmt.Sprintf("%s has %d fields", name, st.Fields), advice: "group them into types of their own",
			})
		}
	}
	return all
}

// Table formats the sizes of packages as a table, with one line for each
// package.
func Table(shapes []*Shape) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PACKAGE\tFILES\tLARGEST CYCLE\tLARGEST TYPE")
	for _, s := range shapes {
		most := s.Largest()
		fmt.Fprintf(w, "%s\t%d\t%d\t%s (%d fields)\n", s.Package, s.Files, len(s.Cycle), most.Name, most.Fields)
	}
	_ = w.Flush() // writing to a strings.Builder cannot fail
	return b.String()
}
