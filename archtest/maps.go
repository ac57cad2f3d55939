package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"path"
	"strings"
)

// orderFree marks a range over a map whose order cannot reach a decision; the
// reason follows it.
const orderFree = "// order-free: "

// checkMaps wants no decision to depend on the order of a map. It needs types,
// so it checks the packages as the compiler does.
func checkMaps(t *Tree) []string {
	s := sayer{tree: t}
	c := newChecker(t)
	for _, p := range t.Packages {
		if !ordered[p.Room()] || p.Helper() {
			continue
		}
		if _, err := c.check(p); err != nil {
			s.at(p.Files[0].AST.Package, "cannot look for ranges over maps: %v", err)
			continue
		}
		p.source(func(f *File) {
			reasons := orderFreeLines(t, f)
			ast.Inspect(f.AST, func(n ast.Node) bool {
				r, ok := n.(*ast.RangeStmt)
				if ok && isMap(c.info.TypeOf(r.X)) && !reasons[t.Fset.Position(r.Pos()).Line] {
					s.at(r.Pos(), "%s must not range over a map: its order differs from run to run. "+
						"Range over sorted keys, or say on the line why the order is free (%sreason)", p, orderFree)
				}
				return true
			})
		})
	}
	return s.said
}

// orderFreeLines are the lines of a file that carry a reason.
func orderFreeLines(t *Tree, f *File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.AST.Comments {
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(c.Text, orderFree); ok && strings.TrimSpace(reason) != "" {
				lines[t.Fset.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}

// isMap reports whether ranging over a value of this type has a random order.
// A type parameter counts if a map may stand in for it.
func isMap(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Union:
		for term := range u.Terms() {
			if isMap(term.Type()) {
				return true
			}
		}
	case *types.Interface:
		for e := range u.EmbeddedTypes() {
			if isMap(e) {
				return true
			}
		}
	}
	return false
}

// checker gives types to packages of the tree; it imports its own from the
// tree and all others from source.
type checker struct {
	tree *Tree
	std  types.Importer
	info *types.Info
	done map[string]*types.Package // nil while being checked
}

func newChecker(t *Tree) *checker {
	return &checker{
		tree: t,
		std:  importer.ForCompiler(t.Fset, "source", nil),
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}},
		done: map[string]*types.Package{},
	}
}

// Import implements types.Importer.
func (c *checker) Import(importPath string) (*types.Package, error) {
	dir, ok := local(importPath)
	if !ok {
		return c.std.Import(importPath)
	}
	for _, p := range c.tree.Packages {
		if p.Path == dir {
			return c.check(p)
		}
	}
	return nil, fmt.Errorf("%s is not in the tree", importPath)
}

func (c *checker) check(p *Package) (*types.Package, error) {
	if done, ok := c.done[p.Path]; ok {
		if done == nil {
			return nil, fmt.Errorf("%s is not well typed or imports itself", p.Path)
		}
		return done, nil
	}
	c.done[p.Path] = nil
	var files []*ast.File
	p.source(func(f *File) { files = append(files, f.AST) })
	conf := types.Config{Importer: c}
	checked, err := conf.Check(path.Join(module, p.Path), c.tree.Fset, files, c.info)
	if err != nil {
		return nil, fmt.Errorf("check types of %s: %w", p.Path, err)
	}
	c.done[p.Path] = checked
	return checked, nil
}
