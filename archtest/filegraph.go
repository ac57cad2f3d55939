package archtest

import (
	"go/ast"
	"go/types"
	"path"
	"slices"
)

// FileGraph says which files of one package refer to which other files. The graph ignores tests.
//
// File A refers to file B if A uses a function, type, method, field, variable or
// constant that B declares. A method refers to the file that declares its
// receiver's type.
type FileGraph struct {
	Files []string // base names, sorted

	// The field `names` lists, for each pair of files, the objects that the first file uses and
	// the second file declares. A file has no edge to itself.
	names map[[2]string]map[string]bool
}

// Graph type-checks a package and returns the graph of its files. If the package
// has type errors, Graph also returns the first error, and the graph contains
// only the uses that could be resolved.
func (t *Tree) Graph(p *Package) (*FileGraph, error) {
	c := t.typeChecker()
	_, err := c.check(p)
	g := &FileGraph{names: map[[2]string]map[string]bool{}}
	own := map[string]bool{}
	p.source(func(f *File) {
		own[f.Path] = true
		g.Files = append(g.Files, path.Base(f.Path))
	})
	slices.Sort(g.Files)
	owners := c.fieldOwners(p)
	p.source(func(f *File) {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if used := c.info.Uses[id]; used != nil {
				to := t.Fset.Position(used.Pos()).Filename
				if _, isImport := used.(*types.PkgName); own[to] && to != f.Path && !isImport {
					g.add(path.Base(f.Path), path.Base(to), objectName(used, owners))
				}
			}
			return true
		})
	})
	return g, err
}

func (g *FileGraph) add(from, to, name string) {
	edge := [2]string{from, to}
	if g.names[edge] == nil {
		g.names[edge] = map[string]bool{}
	}
	g.names[edge][name] = true
}

// Names returns a sorted list of the objects that file `from` uses and file
// `to` declares. Names returns nil if `from` does not refer to `to`.
func (g *FileGraph) Names(from, to string) []string {
	var names []string
	for name := range g.names[[2]string{from, to}] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fieldOwners maps each struct field of a package to the name of the declared
// type that contains it.
func (c *checker) fieldOwners(p *Package) map[types.Object]string {
	owners := map[types.Object]string{}
	p.source(func(f *File) {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			ast.Inspect(spec.Type, func(n ast.Node) bool {
				if field, ok := n.(*ast.Field); ok {
					for _, name := range field.Names {
						owners[c.info.Defs[name]] = spec.Name.Name
					}
				}
				return true
			})
			return false
		})
	})
	return owners
}

// objectName returns the name of an object as Func, Type.Method or Type.field.
func objectName(o types.Object, owners map[types.Object]string) string {
	owner := ""
	switch o := o.(type) {
	case *types.Func:
		recv := o.Signature().Recv()
		if recv == nil {
			return o.Name()
		}
		typ := recv.Type()
		if p, ok := typ.(*types.Pointer); ok {
			typ = p.Elem()
		}
		if named, ok := typ.(*types.Named); ok {
			owner = named.Obj().Name()
		}
	case *types.Var:
		if !o.IsField() {
			return o.Name()
		}
		owner = owners[o.Origin()]
	default:
		return o.Name()
	}
	return owner + "." + o.Name()
}

// Cycles returns the strongly connected components of the graph that have two or more files. In a
// strongly connected component, every file refers to every other file, directly or indirectly. The
// largest component comes first, and the files in each component are sorted.
func (g *FileGraph) Cycles() [][]string {
	s := componentSearch{graph: g, index: map[string]int{}, low: map[string]int{}, onStack: map[string]bool{}}
	for _, f := range g.Files {
		if s.index[f] == 0 {
			s.visit(f)
		}
	}
	slices.SortStableFunc(s.found, func(a, b []string) int { return len(b) - len(a) })
	return s.found
}

// Without returns a copy of the graph that lacks some edges. An argument such as "a.go"
// removes all edges of a file, and "a.go>b.go" removes a single edge.
func (g *FileGraph) Without(edges ...string) *FileGraph {
	less := &FileGraph{Files: g.Files, names: map[[2]string]map[string]bool{}}
	for edge, names := range g.names {
		if !slices.ContainsFunc(edges, func(e string) bool {
			return e == edge[0] || e == edge[1] || e == edge[0]+">"+edge[1]
		}) {
			less.names[edge] = names
		}
	}
	return less
}

// LargestCycle returns the largest cycle, or nil if there is none.
func (g *FileGraph) LargestCycle() []string {
	if cycles := g.Cycles(); len(cycles) > 0 {
		return cycles[0]
	}
	return nil
}

// componentSearch finds the strongly connected components of a graph with Tarjan's algorithm.
type componentSearch struct {
	graph   *FileGraph
	index   map[string]int // order of the first visit, from 1; 0 means not visited
	low     map[string]int // lowest index on the stack that a file reaches
	stack   []string
	onStack map[string]bool
	found   [][]string
}

func (s *componentSearch) visit(f string) {
	s.index[f] = len(s.index) + 1
	s.low[f] = s.index[f]
	s.stack = append(s.stack, f)
	s.onStack[f] = true
	for _, to := range s.graph.Files {
		if s.graph.names[[2]string{f, to}] == nil {
			continue
		}
		if s.index[to] == 0 {
			s.visit(to)
			s.low[f] = min(s.low[f], s.low[to])
		} else if s.onStack[to] {
			s.low[f] = min(s.low[f], s.index[to])
		}
	}
	if s.low[f] != s.index[f] {
		return
	}
	at := slices.Index(s.stack, f)
	files := slices.Clone(s.stack[at:])
	s.stack = s.stack[:at]
	for _, member := range files {
		s.onStack[member] = false
	}
	if len(files) > 1 {
		slices.Sort(files)
		s.found = append(s.found, files)
	}
}
