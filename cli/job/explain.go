package job

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) jobExplainCommand() *cobra.Command {
	var o output.Flags
	return o.Add(&cobra.Command{
		Use: "explain JOB", Short: "Explain why a job waits, or why it ran where and when it did", Example: `  first=$(ares job submit -- sleep 30)
  job=$(ares job submit --after "$first" -- echo done)
  ares job explain "$job"`, Args: command.ExactArgs("JOB"),
		Long: `For a waiting job, show the reasons why it waits, the jobs ahead of it, its expected start, and
suggestions. For a job that runs or has ended, explain why it started when it did, and why on
these nodes. At a hub, the output for a job that no cluster owns says why each cluster does not
start it; other jobs are explained by the cluster that owns them.

` + addressing,
		RunE: a.withJobs(toRead, func(ctx context.Context, c *client.Client, args []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Explain(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeExplanation(w, m.(*apipb.Explanation)) })
		}),
	})
}

// holdText describes what it costs to hold nodes for a waiting job. holdText returns "" if nodes are never held for it.
func (a *commands) holdText(h *apipb.HoldOutlook) string {
	if h == nil {
		return ""
	}
	at := func(t *timestamppb.Timestamp) string {
		return t.AsTime().In(a.Now().Location()).Format("2006-01-02 15:04 MST")
	}
	text := "never: the configuration does not allow it"
	switch {
	case h.GetHeld():
		text = "nodes are held for it now"
	case h.GetBegins() != nil:
		text = "from " + at(h.GetBegins()) + " at the present cost"
	}
	text += fmt.Sprintf(": %d of its %d GPUs are free, the last by %s", h.GetFreeGpus(), h.GetGpus(), at(h.GetUntil()))
	if !h.GetEstimated() {
		text += " (without an estimate for some jobs there)"
	}
	return text + fmt.Sprintf("; holding them until then leaves %.1f GPU-hours idle and delays %s by %s on average",
		h.GetIdleGpuHours(), output.Count(int(h.GetDelayedJobs()), "waiting job"), output.Duration(output.Seconds(h.GetDelaySeconds())))
}

// startsText describes the ETA of a waiting job. startsText returns "" if the ETA is unknown.
func (a *commands) startsText(e *apipb.Eta) string {
	at := func(t *timestamppb.Timestamp) string {
		return t.AsTime().In(a.Now().Location()).Format("2006-01-02 15:04 MST")
	}
	text := ""
	switch early, late := e.GetEarliest(), e.GetLatest(); {
	case early != nil && late != nil && at(early) == at(late):
		text = "about " + at(late)
	case early != nil && late != nil:
		text = "between " + at(early) + " and " + at(late)
	case early != nil:
		text = "not before " + at(early)
	case late != nil:
		text = "by " + at(late)
	default:
		return e.GetBasis()
	}
	basis := e.GetBasis()
	if e.GetReserved() {
		basis = strings.TrimSuffix("resources are reserved; "+basis, "; ")
	}
	if basis != "" {
		text += " (" + basis + ")"
	}
	return text
}

func (a *commands) jobPlanCommand() *cobra.Command {
	s := &submission{app: a}
	c := &cobra.Command{
		Use:   "plan [flags] -- command args... | plan -f FILE",
		Short: "Show where a job would run now or why it would wait, without submitting it", Example: "  ares job plan --gpus 2 -- python train.py",
		Long: `Plan a job without submitting it. The command takes the same flags and files as "ares job
submit". If the job would start now, the output shows its nodes, its devices, and the score of
the placement. If the job would wait, the output shows the reasons, the jobs ahead of it, and
the ETA. The output also shows suggestions, and the preemptions that would let the job start.
Each preemption is shown with its cost. If a file has several jobs, each job is planned as if it
were submitted alone. At a hub, the output shows to which clusters the job would be offered, the
expected start and cost in each cluster, and why the other clusters cannot run it.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			specs, err := s.specs(cmd, args)
			if err != nil {
				return err
			}
			return a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := s.resolveDependencies(ctx, c, specs); err != nil {
					return err
				}
				return s.plan(ctx, c, specs)
			})(cmd, args)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "file with the job, YAML or JSON; - for standard input")
	s.flags.add(f)
	completeConstraint(c)
	s.out.AddOutput(c)
	return c
}

func (s *submission) plan(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	for i, spec := range specs {
		got, err := c.Plan(ctx, spec)
		err = s.located(i, err)
		if err != nil && len(specs) > 1 {
			return fmt.Errorf("job %d (%s): %w", i+1, output.Clean(spec.GetName()), err)
		}
		if err != nil {
			return err
		}
		err = s.app.Print(&s.out, got, func(w io.Writer, _ proto.Message) {
			if len(specs) > 1 {
				output.Printf(w, "%sJob %d %s\n", map[bool]string{true: "\n"}[i > 0], i+1, output.Clean(spec.GetName()))
			}
			s.app.writePlan(w, got)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *commands) writePlan(w io.Writer, p *apipb.PlanJobResponse) {
	if len(p.GetClusters()) > 0 {
		a.writeHubPlan(w, p)
		return
	}
	if !p.GetPlaced() {
		output.Printf(w, "The job would wait.\n")
		output.NewSheet(w).List("Policies", p.GetPolicyNotes())
		a.writeExplanation(w, p.GetExplanation())
		writeOutlook(output.NewSheet(w), p.GetDeadline())
		return
	}
	output.Printf(w, "The job would start now.\n")
	output.NewSheet(w).List("Policies", p.GetPolicyNotes())
	writeOutlook(output.NewSheet(w), p.GetDeadline())
	writePlacementScore(output.NewSheet(w), p.GetScore(), p.GetPlacementScore())
	t := output.Table{Head: []string{"RANK", "NODE", "GPUS"}}
	for _, seat := range p.GetSeats() {
		t.Add(fmt.Sprint(seat.GetRank()), seat.GetNode(), output.DeviceList(seat.GetGpus()))
	}
	output.Printf(w, "\n")
	a.WriteTable(w, &t)
}

func (a *commands) writeExplanation(w io.Writer, e *apipb.Explanation) {
	s := output.NewSheet(w)
	s.Line("Job", e.GetJobId())
	s.Line("Queue", e.GetQueue())
	s.Line("In line", inLine(e))
	s.Line("Order", e.GetOrder())
	waits := e.GetState() == "" || ares.Phase(e.GetState()).Waiting() || len(e.GetBlockers()) > 0
	s.Line("Starts", a.startsText(e.GetEta()))
	s.Line("Hold", a.holdText(e.GetHold()))
	if blockers := blockerText(e); len(blockers) > 0 {
		s.List("Waits for", blockers)
	} else if waits && len(e.GetClusters()) > 0 {
		s.Line("Waits for", clusterWait(e.GetClusters()))
	} else if waits && e.GetNomination() == nil {
		s.Line("Waits for", "nothing: the next cycle can place it")
	} else if !waits {
		s.Line("Waits for", "nothing: the job is "+strings.TrimSuffix(e.GetState()+" ("+e.GetEnded()+")", " ()"))
	}
	a.writePlacements(s, e)
	s.List("Policies", e.GetPolicyNotes())
	writeJobPreemptions(s, e.GetPreemptions(), e.GetNomination())
	var helps []string
	for _, r := range e.GetRemedies() {
		helps = append(helps, remedyText(r))
	}
	if len(helps) == 0 && len(e.GetBlockers()) > 0 && e.GetJobId() != "" && len(e.GetClusters()) == 0 { // no remedies are computed for a job that is only planned
		helps = []string{"no change or pair of changes was found"}
	}
	s.List("Would help", helps)
	var ahead []string
	for _, x := range e.GetAhead() {
		if x.GetTenantId() == "" {
			ahead = append(ahead, fmt.Sprintf("%s of other tenants", output.Count(x.GetJobs(), "job")))
		} else {
			ahead = append(ahead, strings.TrimSuffix(fmt.Sprintf("%s of tenant %s, next %s", output.Count(x.GetJobs(), "job"), x.GetTenantId(), x.GetFirst()), ", next "))
		}
	}
	s.List("Ahead", ahead)
	var held []string
	for _, h := range e.GetHolders() {
		held = append(held, fmt.Sprintf("%s on %s by %s", output.Count(h.GetGpus(), "GPU"), output.Count(h.GetNodes(), "node"), cmp.Or(h.GetJobId(), cmp.Or(h.GetTenantId(), "other tenants"))))
	}
	s.List("Held", held)
	writeOutlook(s, e.GetDeadline())
	a.writeClusters(w, e.GetClusters())
}

// deadlineKept describes whether a finished job met its deadline. deadlineKept returns "" if the
// job has no deadline. A job meets its deadline only if it succeeds before the deadline.
func deadlineKept(j *apipb.Job) string {
	due, ended := j.GetSpec().GetDeadline(), j.GetFinishedAt()
	if due == nil || ended == nil {
		return ""
	}
	at := due.AsTime().UTC().Format(time.RFC3339)
	switch late := ended.AsTime().Sub(due.AsTime()); {
	case late > 0:
		return fmt.Sprintf("%s: missed, the job ended %s late", at, output.Duration(late))
	case j.GetState() == string(ares.Succeeded):
		return at + ": met"
	}
	return at + ": the job ended before it, but did not succeed"
}

// writeOutlook shows whether a job is expected to meet its deadline.
func writeOutlook(s output.Sheet, o *apipb.DeadlineOutlook) {
	if o == nil {
		return
	}
	s.Line("Deadline", strings.TrimPrefix(o.GetText(), "deadline "))
	if o.GetNoted() == string(ares.LatenessMissed) {
		s.Line("", "the deadline has passed")
	}
}

// inLine describes a job's position in its queue, or returns "" if the job has no position.
func inLine(e *apipb.Explanation) string {
	if e.GetRank() == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d in queue %s", e.GetRank(), e.GetOf(), e.GetQueue())
}

func blockerText(e *apipb.Explanation) []string {
	var out []string
	for _, b := range e.GetBlockers() {
		out = append(out, ares.Blocker{Kind: b.GetKind(), Count: int(b.GetCount()), Of: int(b.GetOf()), Detail: ares.PlainText(b.GetDetail())}.String())
	}
	return out
}

func remedyText(r *apipb.Remedy) string {
	var steps []string
	for _, s := range r.GetSteps() {
		steps = append(steps, cmp.Or(s.GetText(), strings.TrimSpace(s.GetKind()+" "+s.GetTarget())))
	}
	return strings.Join(steps, ", and ")
}

// writePlacementScore shows all parts of a placement's score that are known.
func writePlacementScore(s output.Sheet, score int32, m *apipb.PlacementScore) {
	if score != 0 {
		s.Line("Score", fmt.Sprint(score))
	}
	if m.GetWeighted() != 0 {
		s.Line("Domain", fmt.Sprintf("%d of 1000: availability %d, alignment %d, utilization %d, history %d",
			m.GetWeighted(), m.GetAvailability(), m.GetAlignment(), m.GetUtilization(), m.GetHistory()))
	}
	if n := m.GetStrandedMilli(); n != 0 {
		s.Line("Strands", fmt.Sprintf("%+.3f GPUs", float64(n)/1000))
	}
	writePlacementFacts(s, m)
}

// writePlacementFacts shows the parts of a placement's score that say something about the job itself: where it runs, and
// how its GPUs and nodes are connected.
func writePlacementFacts(s output.Sheet, m *apipb.PlacementScore) {
	if m == nil {
		return
	}
	s.Line("Within", strings.TrimSpace(m.GetLevel()+" "+m.GetDomain()))
	if n := m.GetBandwidthMbps(); n != 0 {
		text := fmt.Sprintf("%d MB/s at the slowest link", n)
		if f := m.GetFirstFitMbps(); f > 0 {
			text += fmt.Sprintf(", %.2f times the %d of a first fit", float64(n)/float64(f), f)
		}
		s.Line("Bandwidth", text)
	}
	if n := m.GetNetworkLatencyNanos(); n != 0 {
		s.Line("Network", networkText(m.GetNetworkGbps(), n))
	}
}

// networkText describes the network between the nodes of a placement.
func networkText(gbps, latencyNanos int32) string {
	text := fmt.Sprintf("%g us between its most distant nodes", float64(latencyNanos)/1000)
	if gbps == 0 {
		return "bandwidth not declared, " + text
	}
	return fmt.Sprintf("%d Gb/s, %s", gbps, text)
}
