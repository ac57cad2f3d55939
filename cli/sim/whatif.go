package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/sim"
)

// whatIfFlags are the flags of `ares sim what-if`.
type whatIfFlags struct {
	quotas, weights []string
	add, remove     []string
	reserve         []string
	policy          string
	recording       string
	horizon, assume string
	jobs            int
	out             output.Flags
}

// maxAdded is the maximum number of nodes that a what-if simulation can add.
const maxAdded = 10_000

func (a *commands) simWhatIfCommand() *cobra.Command {
	var f whatIfFlags
	c := &cobra.Command{
		Use: "what-if", Short: "Simulate a change to the cluster and show its effect on jobs", Args: command.ExactArgs(),
		Long: `Simulate the queue with the server's engine, in virtual time. The queue comes either from a
running server or from the end of a recording. The command simulates the queue once as it is and
once with the change. The running server stays unchanged, and no new jobs arrive in the
simulation.

A simulated job runs for the predicted runtime of similar jobs. A job without a prediction runs
for its time limit. A job with neither a prediction nor a time limit runs for the time set by
--runtime. If a running job has already run longer than every estimate, its total runtime is
twice its runtime so far. Every simulated job succeeds, and releases its devices as soon as it
ends. Jobs on a removed node are lost and start again elsewhere.

docs/guide/what-if.md lists all the rules of the simulation.`,
		Example: `  ares sim what-if --add-nodes dgx-h100=4 --weight default=2 --horizon 72h
  ares sim what-if --reserve 'nodes=gpu-1; from=22:00; for=4h; drain'`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.whatIf(cmd, args, &f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.quotas, "quota", nil, "GPU limit of a tenant or queue: TENANT=+8, TENANT/QUEUE=-4, TENANT=16, or TENANT:MODEL=+8 where it has\nseveral quotas; may be repeated")
	flags.StringArrayVar(&f.weights, "weight", nil, "weight of a tenant or queue: TENANT=2, TENANT/QUEUE=0.5; may be repeated")
	flags.StringSliceVar(&f.add, "add-nodes", nil, "nodes to add, PROFILE=COUNT such as dgx-h100=4, or NODE=COUNT for copies of a node")
	flags.StringSliceVar(&f.remove, "remove-nodes", nil, "nodes to remove, by name")
	flags.StringArrayVar(&f.reserve, "reserve", nil, "nodes to reserve: 'nodes=a,b; from=+2h; for=4h; drain', with tenant=, queue=, selector=KEY=VALUE, domain=leaf/l1,\nuntil= and name= as in ares reservation create; may be repeated")
	flags.StringVar(&f.policy, "policy", "", "scheduling policy, as in ares sim run")
	flags.StringVar(&f.recording, "recording", "", "start from the end of this recording instead of a running server")
	flags.StringVar(&f.horizon, "horizon", "24h", "time to simulate, such as 12h or 7d")
	flags.StringVar(&f.assume, "runtime", "1h", "runtime of jobs without a prediction and a time limit")
	flags.IntVar(&f.jobs, "jobs", 10, "number of jobs in the table")
	f.out.AddOutput(c)
	output.Must(c.MarkFlagFilename("recording"))
	return c
}

func (a *commands) whatIf(cmd *cobra.Command, args []string, f *whatIfFlags) error {
	horizon, err := whatIfSpan("--horizon", f.horizon)
	if err != nil {
		return err
	}
	assume, err := whatIfSpan("--runtime", f.assume)
	if err != nil {
		return err
	}
	if f.jobs < 0 {
		return exit.Usagef("--jobs %d: use 0 or more", f.jobs)
	}
	edit, err := f.edit()
	if err != nil {
		return err
	}
	ask := func(ctx context.Context, s *sim.Snapshot) error {
		if edit.Add, err = addedNodes(ctx, s, f.add); err != nil {
			return err
		}
		if edit.Reserve, err = supposedWindows(f.reserve, s.Taken); err != nil {
			return err
		}
		w, err := sim.RunWhatIf(ctx, s, edit, horizon, assume)
		if ares.CodeOf(err) == ares.NotFound { // a flag names an unknown object, such as a profile or policy
			return exit.Usagef("%s", err)
		}
		if err != nil {
			return err
		}
		return a.PrintValue(f.out.Format, w, func(to io.Writer) { a.writeWhatIf(to, w, f) })
	}
	if f.recording != "" {
		data, err := os.ReadFile(f.recording)
		if err != nil {
			return exit.Usagef("--recording: %s", err)
		}
		s, err := sim.ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", f.recording, err)
		}
		return ask(cmd.Context(), s)
	}
	return a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		var data bytes.Buffer
		if _, err := c.Record(ctx, &data); err != nil {
			return err
		}
		s, err := sim.ReadSnapshot(&data)
		if err != nil {
			return err
		}
		return ask(ctx, s)
	})(cmd, args)
}

// whatIfSpan parses a flag's duration. If the duration is invalid, the error
// names the flag.
func whatIfSpan(flag, text string) (time.Duration, error) {
	d, err := parseSpan(text)
	if err != nil || d <= 0 || d > 366*24*time.Hour {
		return 0, exit.Usagef("%s %q: use a duration up to a year, such as 90m, 72h or 14d", flag, text)
	}
	return d, nil
}

// The method `edit` parses the flags for those changes that do not depend on
// the cluster's nodes.
func (f *whatIfFlags) edit() (*sim.Edit, error) {
	e := &sim.Edit{Remove: f.remove}
	for _, list := range []struct {
		flag, write string
		from        []string
		to          *[]sim.Amount
	}{
		{"--quota", "TENANT=12, TENANT=+8 or TENANT/QUEUE=-4", f.quotas, &e.Quotas},
		{"--weight", "TENANT=2 or TENANT/QUEUE=0.5, or TENANT=+1 for one more than it has", f.weights, &e.Weights},
	} {
		for _, text := range list.from {
			amount, err := sim.ParseAmount(text)
			if err != nil {
				return nil, exit.Usagef("%s %q: use %s", list.flag, text, list.write)
			}
			*list.to = append(*list.to, amount)
		}
	}
	if f.policy != "" {
		p, err := loadPolicies([]string{f.policy})
		if err != nil {
			return nil, err
		}
		e.Policy, e.Config = p[0].Name, &p[0].Engine
	}
	return e, nil
}

// addedNodes creates the nodes that a what-if simulation adds.
func addedNodes(ctx context.Context, s *sim.Snapshot, asked []string) ([]sim.Addition, error) {
	var out []sim.Addition
	for _, text := range asked {
		name, figure, _ := strings.Cut(text, "=")
		count, err := strconv.Atoi(figure)
		if err != nil || count < 1 || count > maxAdded {
			return nil, exit.Usagef("--add-nodes %s: use PROFILE=COUNT, such as dgx-h100=4, up to %d", text, maxAdded)
		}
		if slices.ContainsFunc(out, func(a sim.Addition) bool { return name == a.Profile || name == a.Like }) {
			return nil, exit.Usagef("--add-nodes %s: %s appears twice: use one sum", text, name)
		}
		if slices.Contains(gpu.Profiles(), name) {
			like, err := machineOf(ctx, name)
			if err != nil {
				return nil, err
			}
			out = append(out, sim.Addition{Profile: name, Nodes: sim.NewNodes(like, name, count)})
			continue
		}
		made := s.Like(name, count)
		if made == nil {
			near := ares.Nearest(name, append(gpu.Profiles(), s.Nodes()...))
			if near != "" {
				return nil, exit.Usagef("--add-nodes %s: no profile or node %q: did you mean %s?", text, name, near)
			}
			return nil, exit.Usagef("--add-nodes %s: no profile or node %q: the profiles are %s", text, name, strings.Join(gpu.Profiles(), ", "))
		}
		out = append(out, sim.Addition{Like: name, Nodes: made})
	}
	return out, nil
}

func (a *commands) writeWhatIf(w io.Writer, r *sim.WhatIf, f *whatIfFlags) {
	s := output.NewSheet(w)
	s.List("What if", r.Changes)
	s.Line("Queue at", fmt.Sprintf("%s: %d run, %d wait; simulated %s", r.Taken.Format(time.RFC3339), r.Running, r.Waiting, f.horizon))
	s.Line("Runtimes", basisText(r, f.assume))
	s.Line("GPUs", fmt.Sprintf("%d, %.1f %% used → %d, %.1f %% used", r.Now.GPUs, r.Now.Use, r.Then.GPUs, r.Then.Use))
	s.Line("Started", fmt.Sprintf("%d → %d of %d waiting jobs", r.Now.Started, r.Then.Started, r.Waiting))
	s.Line("Mean wait", fmt.Sprintf("%s → %s", spanSeconds(r.Now.Wait), spanSeconds(r.Then.Wait)))
	if r.Now.Late+r.Then.Late > 0 {
		s.Line("Late", fmt.Sprintf("%d → %d jobs miss their deadline", r.Now.Late, r.Then.Late))
	}
	if r.Now.Stops+r.Then.Stops > 0 {
		s.Line("Preempted", fmt.Sprintf("%d → %d times", r.Now.Stops, r.Then.Stops))
	}
	output.Printf(w, "\n")
	t := output.Table{Head: []string{"TENANT", "WAIT", "START NOW", "THEN", "MEAN WAIT NOW", "THEN", "GPU-HOURS NOW", "THEN", "SOONER", "LATER"}}
	for i := range r.Tenants {
		x := &r.Tenants[i]
		t.Add(x.Tenant, strconv.Itoa(x.Waiting), strconv.Itoa(x.Now.Started), strconv.Itoa(x.Then.Started), spanSeconds(x.Now.Wait), spanSeconds(x.Then.Wait),
			fmt.Sprintf("%.1f", x.Now.GPUHours), fmt.Sprintf("%.1f", x.Then.GPUHours), strconv.Itoa(x.Sooner), strconv.Itoa(x.Later))
	}
	a.WriteTable(w, &t)
	if len(r.Jobs) == 0 {
		output.Printf(w, "\nNo job would start at a different time.\n")
		return
	}
	shown := r.Jobs[:min(f.jobs, len(r.Jobs))]
	output.Printf(w, "\n")
	t = output.Table{Head: []string{"JOB", "NAME", "TENANT", "GPUS", "STARTS NOW", "THEN", "CHANGE"}}
	for i := range shown {
		j := &shown[i]
		t.Add(j.Job, j.Name, j.Tenant, strconv.FormatFloat(j.GPUs, 'g', -1, 64), startText(r, j.Now, f), startText(r, j.Then, f), shiftText(j))
	}
	a.WriteTable(w, &t)
	if more := len(r.Jobs) - len(shown); more > 0 {
		output.Printf(w, "%s more: show them with --jobs\n", output.Count(more, "job"))
	}
}

// basisText says how many of the simulated runtimes come from each source, such
// as predictions or time limits.
func basisText(r *sim.WhatIf, assumed string) string {
	var parts []string
	for _, b := range []sim.Basis{sim.ByPrediction, sim.ByLimit, sim.ByAssumption} {
		n := r.Bases[b]
		switch {
		case n > 0 && b == sim.ByAssumption:
			parts = append(parts, fmt.Sprintf("%d assumed (--runtime %s)", n, assumed))
		case n > 0:
			parts = append(parts, fmt.Sprintf("%d by %s", n, b))
		}
	}
	return strings.Join(parts, ", ")
}

func spanSeconds(s float64) string { return output.Duration(output.Seconds(s)) }

func startText(r *sim.WhatIf, at *time.Time, f *whatIfFlags) string {
	switch {
	case at == nil:
		return "not in " + f.horizon
	case !at.After(r.Taken):
		return "at once"
	}
	return "in " + output.Duration(at.Sub(r.Taken))
}

func shiftText(j *sim.JobShift) string {
	word := "sooner"
	if j.Sooner < 0 {
		word = "later"
	}
	atLeast := ""
	if (j.Now == nil) != (j.Then == nil) {
		atLeast = "at least "
	}
	out := atLeast + spanSeconds(max(j.Sooner, -j.Sooner)) + " " + word
	if j.Sooner == 0 {
		out = "the same"
	}
	if j.Lost {
		out += ", loses its reserved start"
	}
	return out
}
