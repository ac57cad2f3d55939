// Command recheck checks old records of the robustness suite again: `go run
// ./test/chaos/robustness/recheck DIR...`. The command prints totals and
// violations. For each job with a violation, it prints the job's complete
// history. The command exits with 1 if there is a violation, and with 2 if a
// record cannot be read.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) //nolint:forbidigo // this is a main
}

// This function checks every record and returns the worst exit code.
func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("recheck", flag.ContinueOnError)
	flags.SetOutput(errs)
	stories := flags.Int("stories", 10, "how many jobs to tell the story of")
	job := flags.String("job", "", "tell the story of this job, whatever is found")
	sums := flags.Bool("table", false, "print a line for each record and the sums of all, in Markdown")
	flags.Usage = func() {
		fmt.Fprintln(errs, "usage: recheck [flags] DIR...")
		flags.PrintDefaults()
	}
	if flags.Parse(args) != nil {
		return 2 // the flag package has printed the reason
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return 2
	}
	if *sums {
		return table(out, errs, flags.Args())
	}
	code := 0
	for _, dir := range flags.Args() {
		code = max(code, recheck(out, errs, dir, *job, *stories))
	}
	return code
}

// This function checks one record and returns its exit code.
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
