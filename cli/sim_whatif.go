package cli

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
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/sim"
)

// whatIfFlags are the flags of ares sim what-if.
type whatIfFlags struct {
	quotas, weights []string
	add, remove     []string
	reserve         []string
	policy          string
	recording       string
	horizon, assume string
	jobs            int
	out             readFlags
}

// maxAdded bounds the machines that are supposed.
const maxAdded = 10_000

func (a *app) simWhatIfCommand() *cobra.Command {
	var f whatIfFlags
	c := &cobra.Command{
		Use: "what-if", Short: "Run the live queue forward in a changed world, and say what would change for whom", Args: exactly(),
		Long: `Takes what a running server decides from, or the end of a recording, and runs it
forward twice in virtual time with the server's own engine: as it is, and changed.
Nothing is changed on the server, and nobody new arrives.

A job runs as long as is predicted from runs like it, else as long as its limit
allows, else for --runtime; one that has outlived all of these, as long again as it has. It ends
well, and is free at once. What runs on a node that is removed is lost and begins
anew elsewhere.

docs/what-if.md has the rules in full.`,
		Example: `  ares sim what-if --quota default=4
  ares sim what-if --add-nodes dgx-h100=4 --weight default=2 --horizon 72h
  ares sim what-if --reserve 'nodes=gpu-7,gpu-8; from=22:00; for=4h; drain'
  ares sim what-if --recording now.recording --remove-nodes "$(hostname)" -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.whatIf(cmd, args, &f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.quotas, "quota", nil, "GPUs a tenant or queue may have: TENANT=+8, TENANT/QUEUE=-4, TENANT=16, or TENANT:MODEL=+8 where it has\nseveral quotas; may be repeated")
	flags.StringArrayVar(&f.weights, "weight", nil, "share of a tenant or queue: TENANT=2, TENANT/QUEUE=0.5; may be repeated")
	flags.StringSliceVar(&f.add, "add-nodes", nil, "machines to add, PROFILE=COUNT as dgx-h100=4, or NODE=COUNT for more like one that is there")
	flags.StringSliceVar(&f.remove, "remove-nodes", nil, "machines to take away, by name")
	flags.StringArrayVar(&f.reserve, "reserve", nil, "nodes to set aside: 'nodes=a,b; from=+2h; for=4h; drain', with tenant=, queue=, selector=KEY=VALUE, domain=leaf/l1,\nuntil= and name= as in ares reservation create; may be repeated")
	flags.StringVar(&f.policy, "policy", "", "decide by this policy, as in ares sim run")
	flags.StringVar(&f.recording, "recording", "", "begin where this recording ends instead of with a running server")
	flags.StringVar(&f.horizon, "horizon", "24h", "how far to look, such as 12h or 7d")
	flags.StringVar(&f.assume, "runtime", "1h", "how long jobs run that have no limit, and no runs like them to predict from")
	flags.IntVar(&f.jobs, "jobs", 10, "how many jobs to list in the table")
	f.out.addOutput(c)
	must(c.MarkFlagFilename("recording"))
	return c
}

func (a *app) whatIf(cmd *cobra.Command, args []string, f *whatIfFlags) error {
	horizon, err := whatIfSpan("--horizon", f.horizon)
	if err != nil {
		return err
	}
	assume, err := whatIfSpan("--runtime", f.assume)
	if err != nil {
		return err
	}
	if f.jobs < 0 {
		return usagef("--jobs %d: it cannot be less than none", f.jobs)
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
		if ares.CodeOf(err) == ares.NotFound { // a name in a flag, as that of a profile or policy
			return usagef("%s", err)
		}
		if err != nil {
			return err
		}
		return a.printValue(f.out.output, w, func(to io.Writer) { a.writeWhatIf(to, w, f) })
	}
	if f.recording != "" {
		data, err := os.ReadFile(f.recording)
		if err != nil {
			return usagef("--recording: %s", err)
		}
		s, err := sim.ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", f.recording, err)
		}
		return ask(cmd.Context(), s)
	}
	return a.with(func(ctx context.Context, c *client.Client, _ []string) error {
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

// whatIfSpan is parseSpan with the name of its flag.
func whatIfSpan(flag, text string) (time.Duration, error) {
	d, err := parseSpan(text)
	if err != nil || d <= 0 || d > 366*24*time.Hour {
		return 0, usagef("%s %q: write a time up to a year, such as 90m, 72h or 14d", flag, text)
	}
	return d, nil
}

// edit reads the changes that need no look at the fleet.
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
				return nil, usagef("%s %q: write %s", list.flag, text, list.write)
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

// addedNodes makes the machines that are to be added.
func addedNodes(ctx context.Context, s *sim.Snapshot, asked []string) ([]sim.Addition, error) {
	var out []sim.Addition
	for _, text := range asked {
		name, figure, _ := strings.Cut(text, "=")
		count, err := strconv.Atoi(figure)
		if err != nil || count < 1 || count > maxAdded {
			return nil, usagef("--add-nodes %s: write PROFILE=COUNT, such as dgx-h100=4, up to %d", text, maxAdded)
		}
		if slices.ContainsFunc(out, func(a sim.Addition) bool { return name == a.Profile || name == a.Like }) {
			return nil, usagef("--add-nodes %s: %s is there twice: write one sum", text, name)
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
			near := apipb.Nearest(name, append(gpu.Profiles(), s.Nodes()...))
			if near != "" {
				return nil, usagef("--add-nodes %s: there is neither a profile nor a node %q: did you mean %s?", text, name, near)
			}
			return nil, usagef("--add-nodes %s: there is neither a profile nor a node %q: the profiles are %s", text, name, strings.Join(gpu.Profiles(), ", "))
		}
		out = append(out, sim.Addition{Like: name, Nodes: made})
	}
	return out, nil
}

func (a *app) writeWhatIf(w io.Writer, r *sim.WhatIf, f *whatIfFlags) {
	s := sheet{w}
	s.list("What if", r.Changes)
	s.line("Queue of", fmt.Sprintf("%s: %d run, %d wait; looked %s ahead", r.Taken.Format(time.RFC3339), r.Running, r.Waiting, f.horizon))
	s.line("Runtimes", basisWords(r, f.assume))
	s.line("GPUs", fmt.Sprintf("%d, %.1f %% used → %d, %.1f %% used", r.Now.GPUs, r.Now.Use, r.Then.GPUs, r.Then.Use))
	s.line("Started", fmt.Sprintf("%d → %d of %d that wait", r.Now.Started, r.Then.Started, r.Waiting))
	s.line("Mean wait", fmt.Sprintf("%s → %s", spanSeconds(r.Now.Wait), spanSeconds(r.Then.Wait)))
	if r.Now.Late+r.Then.Late > 0 {
		s.line("Late", fmt.Sprintf("%d → %d jobs miss their deadline", r.Now.Late, r.Then.Late))
	}
	if r.Now.Stops+r.Then.Stops > 0 {
		s.line("Gave way", fmt.Sprintf("%d → %d times", r.Now.Stops, r.Then.Stops))
	}
	say(w, "\n")
	t := table{head: []string{"TENANT", "WAIT", "START NOW", "THEN", "MEAN WAIT NOW", "THEN", "GPU-HOURS NOW", "THEN", "SOONER", "LATER"}}
	for i := range r.Tenants {
		x := &r.Tenants[i]
		t.add(x.Tenant, strconv.Itoa(x.Waiting), strconv.Itoa(x.Now.Started), strconv.Itoa(x.Then.Started), spanSeconds(x.Now.Wait), spanSeconds(x.Then.Wait),
			fmt.Sprintf("%.1f", x.Now.GPUHours), fmt.Sprintf("%.1f", x.Then.GPUHours), strconv.Itoa(x.Sooner), strconv.Itoa(x.Later))
	}
	t.write(w, a.color)
	if len(r.Jobs) == 0 {
		say(w, "\nNo job would start at another time.\n")
		return
	}
	shown := r.Jobs[:min(f.jobs, len(r.Jobs))]
	say(w, "\n")
	t = table{head: []string{"JOB", "NAME", "TENANT", "GPUS", "STARTS NOW", "THEN", "CHANGE"}}
	for i := range shown {
		j := &shown[i]
		t.add(j.Job, j.Name, j.Tenant, strconv.FormatFloat(j.GPUs, 'g', -1, 64), startWords(r, j.Now, f), startWords(r, j.Then, f), shiftWords(j))
	}
	t.write(w, a.color)
	if more := len(r.Jobs) - len(shown); more > 0 {
		say(w, "and %s more (--jobs)\n", count(more, "job"))
	}
}

// basisWords says where the runtimes come from.
func basisWords(r *sim.WhatIf, assumed string) string {
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

func spanSeconds(s float64) string { return span(seconds(s)) }

func startWords(r *sim.WhatIf, at *time.Time, f *whatIfFlags) string {
	switch {
	case at == nil:
		return "not in " + f.horizon
	case !at.After(r.Taken):
		return "at once"
	}
	return "in " + span(at.Sub(r.Taken))
}

func shiftWords(j *sim.JobShift) string {
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
		out += ", loses its place"
	}
	return out
}
