// Command filegraph prints which files of a package refer to each other in a
// cycle, so that the cycle can be broken.
//
//	go run ./archtest/filegraph engine
//	go run ./archtest/filegraph -edges engine
//	go run ./archtest/filegraph -without 'explain.go,state.go>decide.go' engine
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/archtest"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "filegraph:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("filegraph", flag.ContinueOnError)
	edges := flags.Bool("edges", false, "print every edge with the names that make it; * marks an edge inside a cycle")
	without := flags.String("without", "", "leave out these edges, separated by commas: a.go (all of a file) or 'a.go>b.go'")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no package directory given; usage: filegraph [-edges] [-without LIST] DIR")
	}
	dir := flags.Arg(0)
	if err := flags.Parse(flags.Args()[1:]); err != nil { // flags may also follow the directory
		return err
	}
	root, rel, err := moduleRoot(dir)
	if err != nil {
		return err
	}
	if err = os.Chdir(root); err != nil { // packages of other modules are found from here
		return err
	}
	tree, err := archtest.Load(os.DirFS(root))
	if err != nil {
		return err
	}
	at := slices.IndexFunc(tree.Packages, func(p *archtest.Package) bool { return p.Path == rel })
	if at < 0 {
		return fmt.Errorf("%s is not a package of the module in %s", dir, root)
	}
	graph, err := tree.Graph(tree.Packages[at])
	if err != nil {
		fmt.Fprintf(os.Stderr, "filegraph: some uses are missing: %v\n", err)
	}
	show(out, graph.Without(strings.Split(*without, ",")...), rel, *edges)
	return nil
}

// moduleRoot finds the directory above `dir` that contains go.mod. It also
// returns the path of `dir` relative to that directory.
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
			return "", "", fmt.Errorf("no go.mod in %s or above it", abs)
		}
	}
	rel, err = filepath.Rel(root, abs)
	return root, filepath.ToSlash(rel), err
}

func show(out io.Writer, g *archtest.FileGraph, name string, edges bool) {
	cycles := g.Cycles()
	cycleOf := map[string]int{} // number of a file's cycle, from 1
	for i, files := range cycles {
		for _, f := range files {
			cycleOf[f] = i + 1
		}
	}
	fmt.Fprintf(out, "%s: %d files, cycles: %d, files in the largest: %d\n", name, len(g.Files), len(cycles), len(g.LargestCycle()))
	for i, files := range cycles {
		fmt.Fprintf(out, "cycle %d (%d files): %s\n", i+1, len(files), strings.Join(files, " "))
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
			fmt.Fprintf(out, "%s %s → %s: %s\n", mark, from, to, strings.Join(names, " "))
		}
	}
}
