// Command recheck judges records of the robustness suite again, long after
// their runs: `go run ./test/robustness/recheck DIR...`. It prints what was
// done and what was found, and the whole story of each job that broke a
// promise. It exits with 1 when there is a violation, with 2 when a record
// cannot be read.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ares-scheduler/ares/test/robustness/check"
	"github.com/ares-scheduler/ares/test/robustness/trace"
)

func main() {
	stories := flag.Int("stories", 10, "how many jobs to tell the story of")
	job := flag.String("job", "", "tell the story of this job, whatever is found")
	sums := flag.Bool("table", false, "print a line for each record and the sums of all, in Markdown")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: recheck [flags] DIR...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *sums {
		os.Exit(table(os.Stdout, os.Stderr, flag.Args()))
	}
	code := 0
	for _, dir := range flag.Args() {
		code = max(code, recheck(os.Stdout, os.Stderr, dir, *job, *stories))
	}
	os.Exit(code)
}

// recheck judges one record and returns the exit code it asks for.
func recheck(out, errs io.Writer, dir, job string, stories int) int {
	r, err := trace.Load(dir)
	if err != nil {
		fmt.Fprintln(errs, err)
		return 2
	}
	report := check.Run(r)
	fmt.Fprintf(out, "%s: seed %d, version %s\n", dir, r.Meta.Seed, r.Meta.Version)
	report.Print(out)
	told := map[string]bool{"": true}
	if job != "" {
		told[job] = true
		check.Story(r, job, out)
	}
	for _, v := range append(report.Violations, report.Excused...) {
		if !told[v.Job] && stories > 0 {
			told[v.Job] = true
			stories--
			check.Story(r, v.Job, out)
		}
	}
	if len(report.Violations) > 0 {
		return 1
	}
	return 0
}
