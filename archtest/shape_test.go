package archtest

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestShapeExceptions(t *testing.T) {
	t.Parallel()
	body := "// Package engine decides which jobs run where.\npackage engine\n\ntype State struct {\n\t_" +
		strings.Repeat(", _", maxFields) + " int\n}\n"
	tree := load(t, fstest.MapFS{"engine/state.go": {Data: []byte(body)}})

	if problems := checkShapesBut(tree, nil); len(problems) != 1 {
		t.Errorf("a struct of %d fields: got %q, want one problem", maxFields+1, problems)
	}
	if problems := checkShapesBut(tree, map[string]int{"engine.State": maxFields + 1}); len(problems) != 0 {
		t.Errorf("an excepted struct: got %q, want none", problems)
	}
	if problems := staleShapes(tree, map[string]int{"engine.State": maxFields + 1}); len(problems) != 0 {
		t.Errorf("an exception in use: got %q, want none", problems)
	}
	for _, key := range []string{"engine cycle", "engine files", "engine.Gone", "engine/gone files"} {
		want := []string{key + ": no longer exceeds the limit: remove its exception from archtest/tables.go"}
		if problems := staleShapes(tree, map[string]int{key: 99}); !slices.Equal(problems, want) {
			t.Errorf("an unneeded exception: got %q, want %q", problems, want)
		}
	}
}

func TestFileGraph(t *testing.T) {
	t.Parallel()
	tree := load(t, fstest.MapFS{
		"engine/a.go": {Data: []byte("package engine\n\ntype A struct{ b B }\n\nfunc (a A) size() int { return a.b.n + Max }\n")},
		"engine/b.go": {Data: []byte("package engine\n\ntype B struct{ n int }\n\nfunc whole(a A) int { return a.size() }\n")},
		"engine/c.go": {Data: []byte("package engine\n\nconst Max = 3\n")},
	})
	g, err := tree.Graph(tree.Packages[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.Cycles(), [][]string{{"a.go", "b.go"}}; len(got) != 1 || !slices.Equal(got[0], want[0]) {
		t.Errorf("cycles: got %q, want %q", got, want)
	}
	for _, edge := range []struct {
		from, to string
		names    []string
	}{
		{"a.go", "b.go", []string{"B", "B.n"}},
		{"b.go", "a.go", []string{"A", "A.size"}},
		{"a.go", "c.go", []string{"Max"}},
		{"c.go", "a.go", nil},
		{"a.go", "a.go", nil},
	} {
		if got := g.Names(edge.from, edge.to); !slices.Equal(got, edge.names) {
			t.Errorf("%s uses of %s: got %q, want %q", edge.from, edge.to, got, edge.names)
		}
	}
	for _, cut := range []string{"a.go", "b.go", "a.go>b.go", "b.go>a.go"} {
		if got := g.Without(cut).Cycles(); len(got) != 0 {
			t.Errorf("cycles without %s: got %q, want none", cut, got)
		}
	}
	if got := g.Without("a.go>c.go").LargestCycle(); len(got) != 2 {
		t.Errorf("largest cycle without a.go>c.go: got %q, want two files", got)
	}
}
