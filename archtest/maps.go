package archtest

import (
	"go/ast"
	"go/types"
	"strings"
)

// orderFree marks a range over a map whose order cannot reach a decision; the
// reason follows it.
const orderFree = "// order-free: "

// checkMaps wants no decision to depend on the order of a map. It needs types,
// so it checks the packages as the compiler does.
func checkMaps(t *Tree) []string {
	s := sayer{tree: t}
	c := t.typeChecker()
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
