package archtest

import (
	"go/ast"
	"go/types"
	"strings"
)

// orderFree is a comment on a loop over a map. It states that the order of the loop cannot
// change a scheduling decision. The text after the mark says why the order does not matter.
const orderFree = "// order-free: "

// checkMaps requires that no scheduling decision depends on the iteration order of a map. checkMaps
// type-checks the packages to find the maps.
func checkMaps(t *Tree) []string {
	r := reporter{tree: t}
	c := t.typeChecker()
	for _, p := range t.Packages {
		if !mapsOrdered[p.Component()] || p.ForTests() {
			continue
		}
		if _, err := c.check(p); err != nil {
			r.add(p.Files[0].AST.Package, "cannot find ranges over maps: %v", err)
			continue
		}
		p.source(func(f *File) {
			reasons := orderFreeLines(t, f)
			ast.Inspect(f.AST, func(n ast.Node) bool {
				loop, ok := n.(*ast.RangeStmt)
				if ok && isMap(c.info.TypeOf(loop.X)) && !reasons[t.Fset.Position(loop.Pos()).Line] {
					r.add(loop.Pos(), "%s must not range over a map: the order differs between runs. "+
						"Range over sorted keys, or write on the line why the order does not matter (%sreason)", p, orderFree)
				}
				return true
			})
		})
	}
	return r.problems
}

// orderFreeLines returns the lines of a file that have an orderFree mark with a reason.
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

// isMap reports whether a range over a value of this type has a random order. A
// type parameter counts as a map if its constraint allows a map.
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
