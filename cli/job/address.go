package job

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// addressing is the section of the help that says how to name a job.
const addressing = `A JOB is a job ID or the beginning of one (4 characters or more, with or without "job-"), the
name of a job, or @last for the newest job that you submitted. To name element 3 of an array,
write JOB[3].`

// A purpose says what a command does with the jobs that it is given. It decides which job a name means.
type purpose struct {
	unique bool     // never choose between several jobs of one name
	states []string // the states of the jobs on which the command can act; nil for all
}

// A command that only reads chooses between several jobs of one name. A command that ends or changes a job, or that
// makes another job depend on it, never does.
var (
	toRead   = purpose{}
	toCancel = purpose{unique: true, states: phaseNames(func(p ares.Phase) bool { return !p.Final() })}
	toRetry  = purpose{unique: true, states: phaseNames(ares.Phase.Final)}
	toAwait  = purpose{unique: true}
)

func phaseNames(are func(ares.Phase) bool) []string {
	var out []string
	for _, p := range ares.Phases() {
		if are(p) {
			out = append(out, string(p))
		}
	}
	return out
}

// withJobs is like WithClient for a command whose arguments name jobs. The command gets the IDs of the jobs. It gets none
// of them, and does nothing, if one of the arguments does not name exactly one job.
func (a *commands) withJobs(why purpose, run func(ctx context.Context, c *client.Client, ids []string) error) func(*cobra.Command, []string) error {
	return a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := a.resolveAll(ctx, c, args, why)
		if err != nil {
			return err
		}
		return run(ctx, c, ids)
	})
}

// resolveAll returns the IDs of the jobs that the references name.
func (a *commands) resolveAll(ctx context.Context, c *client.Client, references []string, why purpose) ([]string, error) {
	ids := make([]string, len(references))
	for i, text := range references {
		var err error
		if ids[i], err = a.resolve(ctx, c, text, why); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// The method `resolve` returns the ID of the job that a reference names. If several jobs match, it prints them, and the
// program ends with the exit code for wrong usage.
func (a *commands) resolve(ctx context.Context, c *client.Client, reference string, why purpose) (string, error) {
	if ares.ValidJobID(reference) || reference == "" { // the server says what is wrong with an empty one
		return reference, nil
	}
	answer, err := c.Resolve(ctx, &apipb.ResolveJobRequest{Reference: reference, Unique: why.unique, State: why.states})
	switch {
	case err != nil:
		return "", err
	case len(answer.GetMatches()) > 0:
		a.writeMatches(reference, answer)
		return "", &exit.Error{Code: exit.Usage}
	case answer.GetSeveral():
		output.Printf(a.Err, "note: several jobs have the name %s; this is %s\n", output.CommandLine([]string{output.Clean(reference)}), output.Clean(answer.GetJobId()))
	}
	return answer.GetJobId(), nil
}

// writeMatches lists the jobs that a reference matches.
func (a *commands) writeMatches(reference string, answer *apipb.ResolveJobResponse) {
	count := fmt.Sprint(len(answer.GetMatches()))
	if answer.GetMore() {
		count = "more than " + count
	}
	name := output.CommandLine([]string{output.Clean(reference)})
	what := "the ID of the one you mean"
	if _, index, ok := ares.CutElement(reference); ok {
		what += fmt.Sprintf(", such as %s[%d]", answer.GetMatches()[0].GetJobId(), index)
	}
	output.Printf(a.Err, "ares: %s matches %s jobs: write %s\n", name, count, what)
	t := output.Table{Head: []string{"ID", "NAME", "TENANT", "STATE", "USER", "AGE"}}
	for _, m := range answer.GetMatches() {
		t.Add(m.GetJobId(), m.GetName(), m.GetTenantId(), m.GetState(), m.GetSubmittedBy(), a.Age(m.GetCreatedAt()))
	}
	t.Write(a.Err, false)
}

// me is the user name that means the caller.
const me = "me"

// userFlags are the flags that limit a list to the jobs of one user.
type userFlags struct {
	user string
	mine bool
}

func (u *userFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&u.user, "user", "", `only jobs that this user submitted; "me" for your own`)
	c.Flags().BoolVar(&u.mine, "mine", false, "only jobs that you submitted; the same as --user me")
}

func (u *userFlags) fill(req *apipb.ListJobsRequest) error {
	if u.mine && u.user != "" && u.user != me {
		return exit.Usagef("--mine and --user %s contradict each other: use one of them", u.user)
	}
	if req.User = u.user; u.mine {
		req.User = me
	}
	return nil
}
