package archtest

import (
	"slices"
	"strings"
)

// layerOf returns a component's layer. layerOf returns false if the table has
// no layer for the component.
func layerOf(component string) (int, bool) {
	if strings.HasPrefix(component, "cmd/") {
		component = "cmd/"
	}
	layer, ok := layers[component]
	return layer, ok
}

// checkComponents requires that every component has a layer, and that no directory has a name in
// vagueNames.
func checkComponents(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		if _, ok := layerOf(p.Component()); !ok && !unlayered[p.Component()] {
			r.add(p.Files[0].AST.Package, "%s has no layer: give it one in archtest/tables.go and docs/design/architecture.md", p.Component())
		}
		for name := range strings.SplitSeq(p.Path, "/") {
			if vagueNames[name] {
				r.add(p.Files[0].AST.Package, "the name %s is too general: name the package after its purpose", name)
			}
		}
	}
	return r.problems
}

// checkLayers requires that a component imports only lower layers. In a
// component without ranks, a package must not import the package of its parent
// directory.
func checkLayers(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		if unlayered[p.Component()] {
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				if to, ok := inModule(im.Path); ok {
					checkImport(&r, p, to, im)
				}
			}
		})
	}
	return r.problems
}

// checkImport reports the rules that package p breaks if it imports the package with the path
// `to`.
func checkImport(r *reporter, p *Package, to string, im Import) {
	target := Package{Path: to}
	from := p.Component()
	if target.ForTests() && !p.ForTests() {
		r.add(im.Pos, "%s must not import %s: that package is for tests", p, &target)
	}
	if unlayered[target.Component()] {
		r.add(im.Pos, "%s must not import %s: nothing may import a component outside the layers", p, &target)
		return
	}
	if supervisor[p.Path] {
		return // checkSupervisor checks it
	}
	if from == target.Component() {
		if isBelow(p.Path, to) && !p.ForTests() && ranks[from] == nil { // for ranked components, checkRanks checks it
			r.add(im.Pos, "%s must not import %s: the parent directory imports its children, not the reverse", p, &target)
		}
		return
	}
	own, ok := layerOf(from)
	its, known := layerOf(target.Component())
	switch {
	case !ok || !known: // checkComponents reports it
	case its > own:
		r.add(im.Pos, "%s (layer %d) must not import %s (layer %d): a package imports only lower layers", p, own, &target, its)
	case its == own:
		r.add(im.Pos, "%s must not import %s: both are in layer %d, and a package imports only lower layers", p, &target, own)
	}
	for _, rule := range forbidden {
		if slices.Contains(rule.from, from) && slices.Contains(rule.to, target.Component()) {
			r.add(im.Pos, "%s must not import %s: %s", p, &target, rule.why)
		}
	}
}

// checkRanks requires that the ranks table contains every package of a
// component with ranks. Each package may import only packages below it in
// that table.
func checkRanks(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		list := ranks[p.Component()]
		if list == nil || unranked[p.Path] != "" {
			continue
		}
		own := slices.Index(list, p.Path)
		if own < 0 {
			r.add(p.Files[0].AST.Package, "%s has no rank: give it one in archtest/tables.go", p)
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				to, ok := inModule(im.Path)
				if !ok || componentOf(to) != p.Component() {
					continue
				}
				switch at := slices.Index(list, to); {
				case (&Package{Path: to}).ForTests(): // checkLayers reports it
				case unranked[to] != "":
					r.add(im.Pos, "%s must not import %s: %s", p, to, unranked[to])
				case optional[to] != "":
					r.add(im.Pos, "%s must not import %s: %s", p, to, optional[to])
				case at >= 0 && at <= own:
					r.add(im.Pos, "%s must not import %s: it ranks above, and a package imports only lower ranks", p, to)
				}
			}
		})
	}
	return r.problems
}

// checkSoleImporters requires that each external dependency in the table is
// imported by one component only.
func checkSoleImporters(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		if unlayered[p.Component()] {
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				for _, rule := range soleImporters {
					switch {
					case !isBelow(im.Path, rule.path) || p.Component() == rule.component:
					case rule.component == "":
						r.add(im.Pos, "%s must not import %s: %s", p, im.Path, rule.why)
					default:
						r.add(im.Pos, "%s must not import %s, only %s may: %s", p, im.Path, rule.component, rule.why)
					}
				}
			}
		})
	}
	return r.problems
}

// checkSupervisor requires that the supervisor's packages import only the packages in
// supervisorImports.
func checkSupervisor(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		if !supervisor[p.Path] {
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				if !slices.Contains(supervisorImports, im.Path) {
					r.add(im.Pos, "%s must not import %s: the supervisor outlives the agent, so it stays small", p, im.Path)
				}
			}
		})
	}
	return r.problems
}

// checkPureImports requires that a pure package imports only the packages that the table `pure` allows.
func checkPureImports(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		allowed, ok := pureImports(p)
		if !ok || p.ForTests() {
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				if !allows(allowed, im.Path) {
					r.add(im.Pos, "%s must not import %s: a pure package imports only what archtest/tables.go lists", p, im.Path)
				}
			}
		})
	}
	return r.problems
}

// pureImports returns what a pure package may import. It returns false if the package is not pure.
func pureImports(p *Package) ([]string, bool) {
	if allowed, ok := pure[p.Path]; ok {
		return allowed, true
	}
	allowed, ok := pure[p.Component()]
	return allowed, ok
}

// The function `allows` reports whether a list of imports contains a path or a parent directory of it.
func allows(allowed []string, importPath string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		return a == importPath || strings.HasSuffix(a, "/") && strings.HasPrefix(importPath+"/", a)
	})
}
