package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// decisionsDir is the package that is compiled in both source trees.
const decisionsDir = "test/bench/turns/decisions"

// A version is a source tree and the programs that were built from it.
type version struct {
	name            string
	tree            string
	ares, decisions string // programs
	server          *server
}

// figures holds one figure for each round, for each version, by the name of what was measured.
type figures map[string]*[2]rounds.Figures

func (f figures) add(name string, version int, value float64) {
	if f[name] == nil {
		f[name] = &[2]rounds.Figures{}
	}
	f[name][version] = append(f[name][version], value)
}

func main() {
	o := options{}
	flag.StringVar(&o.old, "old", "", "commit to compare with")
	flag.IntVar(&o.rounds, "rounds", 7, "number of rounds; both versions run once in each round")
	flag.IntVar(&o.submissions, "submissions", 6400, "submissions of 64 callers in a round; fewer with one caller")
	flag.IntVar(&o.nodes, "nodes", 10_000, "nodes of the cluster on which decisions are made")
	flag.IntVar(&o.waiting, "waiting", 100_000, "jobs that wait when decisions are made")
	flag.StringVar(&o.only, "only", "", "submissions or decisions; both if it is empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	old, only                           string
	rounds, submissions, nodes, waiting int
}

func run(ctx context.Context, o options) (err error) {
	if o.old == "" || !slices.Contains([]string{"", "submissions", "decisions"}, o.only) || min(o.rounds, o.submissions, o.nodes, o.waiting) < 1 {
		return errors.New("say -old commit, -only submissions or decisions, and numbers above 0")
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "ares-turns-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // it is below the directory for temporary files
	tree := filepath.Join(scratch, "old")
	if err = command(ctx, root, "git", "worktree", "add", "--detach", tree, o.old); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, command(context.WithoutCancel(ctx), root, "git", "worktree", "remove", "--force", tree))
	}()
	versions := []*version{{name: o.old, tree: tree}, {name: "this version", tree: root}}
	for i, v := range versions {
		if err = v.build(ctx, root, filepath.Join(scratch, fmt.Sprint("bin", i))); err != nil {
			return err
		}
	}
	if o.only != "decisions" {
		if err = compareSubmissions(ctx, versions, o, scratch); err != nil {
			return err
		}
	}
	if o.only != "submissions" {
		return compareDecisions(ctx, versions, o)
	}
	return nil
}

// The method `build` compiles the programs of a version. The package decisions is copied into the other source tree.
func (v *version) build(ctx context.Context, root, bin string) error {
	if v.tree != root {
		if err := os.CopyFS(filepath.Join(v.tree, decisionsDir), os.DirFS(filepath.Join(root, decisionsDir))); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	v.ares, v.decisions = filepath.Join(bin, "ares"), filepath.Join(bin, "decisions")
	return errors.Join(
		command(ctx, v.tree, "go", "build", "-o", v.ares, "./cmd/ares"),
		command(ctx, v.tree, "go", "build", "-o", v.decisions, "./"+decisionsDir),
	)
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// inTurns calls a function for each version in each round. The version that is first alternates.
func inTurns(ctx context.Context, count int, do func(round, version int) error) error {
	for round := range count {
		for k := range 2 {
			if err := do(round, (round+k)%2); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

func compareDecisions(ctx context.Context, versions []*version, o options) error {
	all := figures{}
	err := inTurns(ctx, o.rounds, func(_, i int) error {
		cmd := exec.CommandContext(ctx, versions[i].decisions, "-nodes", fmt.Sprint(o.nodes), "-waiting", fmt.Sprint(o.waiting))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("decisions of %s: %w", versions[i].name, err)
		}
		var got map[string]float64
		if err := json.Unmarshal(out, &got); err != nil {
			return err
		}
		for name, value := range got { // order-free: each has its own figures
			all.add(name, i, value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return all.print(versions, o, fmt.Sprintf("Decisions, %d waiting; processor time of the thread", o.waiting))
}

// The method `print` prints two tables: with the median of all rounds, and with the best round of each version. On a busy
// machine the second is steadier, because other programs can only make a round slower.
func (f figures) print(versions []*version, o options, title string) error {
	head := []string{"", versions[0].name, versions[1].name, "this ÷ " + versions[0].name}
	medians, best := [][]string{head}, [][]string{head}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		v := f[name]
		medians = append(medians, []string{name, v[0].String(), v[1].String(), v[1].Over(v[0]).Text(1, 2)})
		of := func(values rounds.Figures) rounds.Figures {
			if isRate(name) {
				return rounds.Figures{slices.Max(values)}
			}
			return rounds.Figures{slices.Min(values)}
		}
		old, this := of(v[0]), of(v[1])
		best = append(best, []string{name, old.String(), this.String(), this.Over(old).Text(1, 3)})
	}
	if err := rounds.Table(os.Stdout, fmt.Sprintf("%s; in turns, median of %d rounds (range)", title, o.rounds), medians); err != nil {
		return err
	}
	return rounds.Table(os.Stdout, fmt.Sprintf("%s; in turns, the best of %d rounds", title, o.rounds), best)
}

// isRate reports whether more is better.
func isRate(name string) bool { return strings.Contains(name, "/s") }
