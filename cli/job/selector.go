package job

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// selecting is the section of the help that says how to change many jobs.
const selecting = `Instead of naming jobs, select them: --name, --state, --label, --user, --mine, --queue and
--tenant-id can be combined, and a job must meet all of them. --all alone selects every job that
you may see and that has not ended. The command says how many jobs match and asks before it
changes them; without a terminal, it needs --yes. --dry-run only lists them. Repeating the
command is harmless: jobs that have already ended are counted and left as they are.`

// A selector chooses jobs by their properties. It finds only jobs that have not ended.
type selector struct {
	filter apipb.ListJobsRequest
	who    userFlags
	all    bool
	yes    bool
	dryRun bool
	states []string // the states of the jobs on which the command can act
}

func (s *selector) add(c *cobra.Command, verb string) {
	f := c.Flags()
	f.StringVar(&s.filter.NamePattern, "name", "", "select jobs whose name matches this pattern, such as 'sweep-*'; ? stands for one character")
	f.StringSliceVar(&s.filter.State, "state", nil, "select jobs in these states, such as pending")
	f.StringArrayVar(&s.filter.Labels, "label", nil, "select jobs with this label, KEY=VALUE or KEY; can be repeated")
	f.StringVar(&s.filter.Queue, "queue", "", "select jobs of this queue")
	f.StringVar(&s.filter.TenantId, "tenant-id", "", "select jobs of this tenant")
	s.who.add(c)
	f.Lookup("user").Usage, f.Lookup("mine").Usage = `select jobs that this user submitted; "me" for your own`, "select jobs that you submitted; the same as --user me"
	f.BoolVar(&s.all, "all", false, "select every job that has not ended")
	f.BoolVarP(&s.yes, "yes", "y", false, verb+" the selected jobs without asking")
	f.BoolVar(&s.dryRun, "dry-run", false, "only list the selected jobs")
	output.Must(c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(command.PhaseNames(), cobra.ShellCompDirectiveNoFileComp)))
}

// selects reports whether the command line has a flag that selects jobs.
func (s *selector) selects() bool {
	return s.all || s.filter.GetNamePattern() != "" || len(s.filter.GetState()) > 0 || len(s.filter.GetLabels()) > 0 ||
		s.filter.GetQueue() != "" || s.filter.GetTenantId() != "" || s.who.user != "" || s.who.mine
}

// The method `check` rejects a command line that does not say clearly which jobs it means.
func (s *selector) check(verb string, names []string) error {
	switch {
	case len(names) > 0 && s.selects():
		return exit.Usagef("name the jobs to %s, or select them with flags such as --name and --state, but not both", verb)
	case len(names) == 0 && !s.selects():
		return exit.Usagef("which jobs? Name them, or select them with --name, --state, --label, --user, --mine, --queue, --tenant-id or --all; list yours with: ares ps --mine")
	case s.all && (len(s.filter.GetState()) > 0 || s.filter.GetNamePattern() != "" || len(s.filter.GetLabels()) > 0):
		return exit.Usagef("--all selects every job: leave it out, and the other flags select the jobs")
	}
	for _, text := range s.filter.GetState() {
		p, err := ares.ParsePhase(text)
		if err != nil {
			return exit.Usagef("--state: %s", err)
		}
		if p.Final() {
			return exit.Usagef("--state %s: a job that has ended cannot be changed: use one of %s", text, strings.Join(s.states, ", "))
		}
	}
	for _, text := range s.filter.GetLabels() {
		if strings.HasPrefix(text, "=") || text == "" {
			return exit.Usagef("--label %q: write KEY=VALUE, or KEY for any value", text)
		}
	}
	return nil
}

// The method `find` lists the selected jobs.
func (s *selector) find(ctx context.Context, c *client.Client) (*apipb.ListJobsResponse, error) {
	if err := s.who.fill(&s.filter); err != nil {
		return nil, err
	}
	if len(s.filter.GetState()) == 0 {
		s.filter.State = s.states
	}
	return listJobs(ctx, c, &s.filter, 0)
}

// maxExamples is how many jobs the question names.
const maxExamples = 3

// describeJobs says how many jobs are selected, with a few examples and how many users and tenants they have.
func describeJobs(jobs []*apipb.Job) string {
	users, tenants := map[string]bool{}, map[string]bool{}
	var examples []string
	for _, j := range jobs {
		users[j.GetSubmittedBy()], tenants[j.GetTenantId()] = true, true
		if len(examples) < maxExamples {
			examples = append(examples, output.Clean(strings.TrimSpace(j.GetName()+" "+j.GetJobId())))
		}
	}
	text := output.Count(int32(len(jobs)), "job")
	if len(users) > 1 {
		text += fmt.Sprintf(" of %d users", len(users))
	}
	if len(tenants) > 1 {
		text += fmt.Sprintf(" in %d tenants", len(tenants))
	}
	text += ": " + strings.Join(examples, ", ")
	if more := len(jobs) - len(examples); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}
