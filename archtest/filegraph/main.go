// Command filegraph prints which files of a package refer to each other in a
// cycle, so that the cycle can be broken.
//
//	go run ./archtest/filegraph engine
//	go run ./archtest/filegraph engine -edges
//	go run ./archtest/filegraph engine -without 'explain.go,state.go>decide.go'
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/archtest"
)

func main() {
	var (
		flags   = flag.NewFlagSet("filegraph", flag.ExitOnError)
		edges   = flags.Bool("edges", false, "print every edge with the names that make it; * marks an edge inside a cycle")
		without = flags.String("without", "", "leave out these edges, separated by commas: a.go (all of a file) or 'a.go>b.go'")
	)
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: filegraph DIR [-edges] [-without LIST]")
		flags.PrintDefaults()
	}
	// Flags may come before or after the directory.
	_ = flags.Parse(os.Args[1:])
	dir := flags.Arg(0)
	if flags.NArg() > 1 {
		_ = flags.Parse(flags.Args()[1:])
	}
	if dir == "" || flags.NArg() > 1 {
		flags.Usage()
		os.Exit(2)
	}
	if err := run(dir, *edges, strings.Split(*without, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "filegraph:", err)
		os.Exit(1)
	}
}

func run(dir string, edges bool, without []string) error {
	root, rel, err := moduleRoot(dir)
	if err != nil {
		return err
	}
	if err = os.Chdir(root); err != nil { // packages outside the module are found from here
		return err
	}
	tree, err := archtest.Load(os.DirFS(root))
	if err != nil {
		return err
	}
	at := slices.IndexFunc(tree.Packages, func(p *archtest.Package) bool { return p.Path == rel })
	if at < 0 {
		return fmt.Errorf("%s holds no package of the module at %s", dir, root)
	}
	graph, err := tree.Graph(tree.Packages[at])
	if err != nil {
		fmt.Fprintf(os.Stderr, "filegraph: some uses are missing: %v\n", err)
	}
	show(graph.Without(without...), rel, edges)
	return nil
}

// moduleRoot finds the directory with go.mod above dir, and dir's path from there.
func moduleRoot(dir string) (root, rel string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	for root = abs; ; root = filepath.Dir(root) {
		if _, err = os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return "", "", fmt.Errorf("no go.mod above %s", abs)
		}
	}
	rel, err = filepath.Rel(root, abs)
	return root, filepath.ToSlash(rel), err
}

func show(g *archtest.FileGraph, name string, edges bool) {
	cycles := g.Cycles()
	largest := 0
	cycleOf := map[string]int{} // from 1
	for i, files := range cycles {
		largest = max(largest, len(files))
		for _, f := range files {
			cycleOf[f] = i + 1
		}
	}
	fmt.Printf("%s: %d files, %d cycles, the largest of %d files\n", name, len(g.Files), len(cycles), largest)
	for i, files := range cycles {
		fmt.Printf("cycle %d (%d files): %s\n", i+1, len(files), strings.Join(files, " "))
	}
	if !edges {
		return
	}
	for _, from := range g.Files {
		for _, to := range g.Files {
			names := g.Names(from, to)
			if len(names) == 0 {
				continue
			}
			mark := " "
			if cycleOf[from] != 0 && cycleOf[from] == cycleOf[to] {
				mark = "*"
			}
			fmt.Printf("%s %s → %s: %s\n", mark, from, to, strings.Join(names, " "))
		}
	}
}
