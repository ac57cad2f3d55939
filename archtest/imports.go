package archtest

import (
	"slices"
	"strings"
)

// layerOf ranks a room; false means that the room has no place yet.
func layerOf(room string) (int, bool) {
	if strings.HasPrefix(room, "cmd/") {
		room = "cmd/"
	}
	rank, ok := layers[room]
	return rank, ok
}

// checkRooms wants a place for every room and a telling name for every directory.
func checkRooms(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		if _, ok := layerOf(p.Room()); !ok && !beside[p.Room()] {
			s.at(p.Files[0].AST.Package, "%s has no layer: give it one in archtest/laws.go and docs/architecture.md", p.Room())
		}
		for name := range strings.SplitSeq(p.Path, "/") {
			if noNames[name] {
				s.at(p.Files[0].AST.Package, "the name %s says nothing: name the package after what it is for", name)
			}
		}
	}
	return s.said
}

// checkLayers wants imports to descend, and pieces not to know what they are part of.
func checkLayers(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		if beside[p.Room()] {
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				if to, ok := local(im.Path); ok {
					checkImport(&s, p, to, im)
				}
			}
		})
	}
	return s.said
}

func checkImport(s *sayer, p *Package, to string, im Import) {
	target := Package{Path: to}
	from := p.Room()
	if target.Helper() && !p.Helper() {
		s.at(im.Pos, "%s must not import %s: it is for tests", p, &target)
	}
	if beside[target.Room()] {
		s.at(im.Pos, "%s must not import %s: it stands beside the product", p, &target)
		return
	}
	if supervisor[p.Path] {
		return // has a list of its own
	}
	if from == target.Room() {
		if under(p.Path, to) && !p.Helper() && ancestors[p.Path] == "" {
			s.at(im.Pos, "%s must not import %s: it is a piece that %s is built from", p, &target, &target)
		}
		return
	}
	mine, ok := layerOf(from)
	its, known := layerOf(target.Room())
	switch {
	case !ok || !known: // checkRooms says so
	case its > mine:
		s.at(im.Pos, "%s (layer %d) must not import %s (layer %d): imports descend", p, mine, &target, its)
	case its == mine:
		s.at(im.Pos, "%s must not import %s: both are in layer %d, and equals do not know each other", p, &target, mine)
	}
	for _, law := range strangers {
		if slices.Contains(law.from, from) && slices.Contains(law.to, target.Room()) {
			s.at(im.Pos, "%s must not import %s: %s", p, &target, law.why)
		}
	}
}

// checkSoleImporters wants each outside thing behind one room.
func checkSoleImporters(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		if beside[p.Room()] {
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				for _, law := range soleImporters {
					if under(im.Path, law.path) && p.Room() != law.room {
						s.at(im.Pos, "%s must not import %s, only %s may: %s", p, im.Path, law.room, law.why)
					}
				}
			}
		})
	}
	return s.said
}

// checkSupervisor wants the process that outlives the agent to stay small.
func checkSupervisor(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		if !supervisor[p.Path] {
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				if !slices.Contains(supervisorImports, im.Path) {
					s.at(im.Pos, "%s must not import %s: the supervisor outlives the agent, so it stays small", p, im.Path)
				}
			}
		})
	}
	return s.said
}

// checkPureImports wants the pure packages to import nothing that could act.
func checkPureImports(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		allowed, ok := pure[p.Room()]
		if !ok || p.Helper() {
			continue
		}
		p.source(func(f *File) {
			for _, im := range f.Imports {
				if !allows(allowed, im.Path) {
					s.at(im.Pos, "%s must not import %s: it is a pure package (the list is in archtest/laws.go)", p, im.Path)
				}
			}
		})
	}
	return s.said
}

func allows(allowed []string, importPath string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		return a == importPath || strings.HasSuffix(a, "/") && strings.HasPrefix(importPath+"/", a)
	})
}
