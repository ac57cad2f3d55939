package archtest

import "slices"

// The variable `rules` lists every rule that Check applies to a source tree.
var rules = []struct {
	name  string
	check func(*Tree) []string
}{
	{"components", checkComponents},
	{"layers", checkLayers},
	{"ranks", checkRanks},
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
	{"map", checkMap},
	{"paths", checkPaths},
	{"links", checkLinks},
}

// Check applies every rule to a source tree and returns the problems, sorted by
// file.
func Check(t *Tree) []string {
	var problems []string
	for _, rule := range rules {
		problems = append(problems, rule.check(t)...)
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}
