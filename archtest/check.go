package archtest

import "slices"

// rules is every law of the tree.
var rules = []struct {
	name  string
	check func(*Tree) []string
}{
	{"rooms", checkRooms},
	{"layers", checkLayers},
	{"sole importers", checkSoleImporters},
	{"supervisor", checkSupervisor},
	{"pure imports", checkPureImports},
	{"clock and goroutines", checkClock},
	{"maps", checkMaps},
	{"dot imports", checkDotImports},
	{"sleep", checkSleep},
	{"docs", checkDocs},
	{"sizes", checkSizes},
	{"shapes", checkShapes},
}

// Check returns what is wrong with the shape of a tree, a sentence each, in
// the order of their places.
func Check(t *Tree) []string {
	var said []string
	for _, rule := range rules {
		said = append(said, rule.check(t)...)
	}
	slices.Sort(said)
	return slices.Compact(said)
}
