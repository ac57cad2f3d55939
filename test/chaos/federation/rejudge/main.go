// Command rejudge judges old records of the federation suite again: `go run ./test/chaos/federation/rejudge DIR...`. It prints totals
// and violations, and the history of each job with a violation. It exits with 1 if there is a violation, and with 2 if a record cannot
// be read.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) //nolint:forbidigo // this is a main
}

// stories is the largest number of jobs whose history is printed.
const stories = 5

func run(dirs []string, out, errs io.Writer) int {
	if len(dirs) == 0 {
		fmt.Fprintln(errs, "usage: rejudge DIR...")
		return 2
	}
	code := 0
	for _, dir := range dirs {
		r, err := verdict.Load(dir)
		if err != nil {
			fmt.Fprintln(errs, err)
			return 2
		}
		report := verdict.Judge(r)
		fmt.Fprintf(out, "%s: seed %d\n", dir, r.Meta.Seed)
		report.Print(out)
		told := map[string]bool{"": true}
		for _, v := range report.Violations() {
			code = 1
			if !told[v.Job] && len(told) <= stories {
				told[v.Job] = true
				verdict.Story(r, v.Job, out)
			}
		}
	}
	return code
}
