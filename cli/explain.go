package cli

import (
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
	"github.com/ares-scheduler/ares/client"
)

func (a *app) jobExplainCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "explain JOB", Short: "Say why a job waits, what would help, and who is before it", Args: exactly("JOB"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Explain(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeExplanation(w, m.(*apipb.Explanation)) })
		}),
	})
}

// startsWords says when a waiting job is thought to start, "" when nothing was
// worked out.
func (a *app) startsWords(e *apipb.Eta) string {
	at := func(t *timestamppb.Timestamp) string {
		return t.AsTime().In(a.now().Location()).Format("2006-01-02 15:04 MST")
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
		basis = strings.TrimSuffix("a place is kept; "+basis, "; ")
	}
	if basis != "" {
		text += " (" + basis + ")"
	}
	return text
}

func (a *app) jobPlanCommand() *cobra.Command {
	s := &submission{app: a}
	c := &cobra.Command{
		Use:   "plan [flags] -- command args... | plan -f FILE",
		Short: "Say where a job would go now, or why it would wait; nothing is submitted",
		Long: `Takes a job as "ares job submit" does, and says where it would be placed at this
moment, with what speaks for the place, or everything that would keep it waiting: who
is before it, when it would start, what would help, and how many jobs would give way to
it at what cost. Of several jobs each is looked at by itself, as if the others were not
there.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			specs, err := s.specs(cmd, args)
			if err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error { return s.plan(ctx, c, specs) })(cmd, args)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "file with the job, YAML or JSON; - for standard input")
	s.flags.add(f)
	completeConstraint(c)
	s.out.addOutput(c)
	return c
}

func (s *submission) plan(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	for i, spec := range specs {
		got, err := c.Plan(ctx, spec)
		if err != nil && len(specs) > 1 {
			return fmt.Errorf("job %d (%s): %w", i+1, clean(spec.GetName()), err)
		}
		if err != nil {
			return err
		}
		err = s.app.print(&s.out, got, func(w io.Writer, _ proto.Message) {
			if len(specs) > 1 {
				say(w, "%sJob %d %s\n", map[bool]string{true: "\n"}[i > 0], i+1, clean(spec.GetName()))
			}
			s.app.writePlan(w, got)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) writePlan(w io.Writer, p *apipb.PlanJobResponse) {
	if !p.GetPlaced() {
		say(w, "It would wait.\n")
		sheet{w}.list("Policies", p.GetPolicyNotes())
		a.writeExplanation(w, p.GetExplanation())
		writeOutlook(sheet{w}, p.GetDeadline())
		return
	}
	say(w, "It would be placed now.\n")
	sheet{w}.list("Policies", p.GetPolicyNotes())
	writeOutlook(sheet{w}, p.GetDeadline())
	writePlacementScore(sheet{w}, p.GetScore(), p.GetPlacementScore())
	t := table{head: []string{"RANK", "NODE", "GPUS"}}
	for _, seat := range p.GetSeats() {
		t.add(fmt.Sprint(seat.GetRank()), seat.GetNode(), deviceList(seat.GetGpus()))
	}
	say(w, "\n")
	t.write(w, a.color)
}

func (a *app) writeExplanation(w io.Writer, e *apipb.Explanation) {
	s := sheet{w}
	s.line("Job", e.GetJobId())
	s.line("Queue", e.GetQueue())
	s.line("In line", inLine(e))
	waits := e.GetState() == "" || ares.Phase(e.GetState()).Waiting() || len(e.GetBlockers()) > 0
	s.line("Starts", a.startsWords(e.GetEta()))
	if blockers := blockerWords(e); len(blockers) > 0 {
		s.list("Waits for", blockers)
	} else if waits && e.GetNomination() == nil {
		s.line("Waits for", "nothing: it may be in the next plan")
	} else if !waits {
		s.line("Waits for", "nothing: it is "+e.GetState())
	}
	s.list("Policies", e.GetPolicyNotes())
	s.writeYields(e.GetPreemptions(), e.GetNomination())
	var helps []string
	for _, r := range e.GetRemedies() {
		helps = append(helps, remedyWords(r))
	}
	if len(helps) == 0 && len(e.GetBlockers()) > 0 && e.GetJobId() != "" { // of one that is only planned nothing is worked out
		helps = []string{"no change, and no pair of changes, that is known"}
	}
	s.list("Would help", helps)
	var ahead []string
	for _, x := range e.GetAhead() {
		if x.GetTenantId() == "" {
			ahead = append(ahead, fmt.Sprintf("%s of other tenants", count(x.GetJobs(), "job")))
		} else {
			ahead = append(ahead, strings.TrimSuffix(fmt.Sprintf("%s of tenant %s, next %s", count(x.GetJobs(), "job"), x.GetTenantId(), x.GetFirst()), ", next "))
		}
	}
	s.list("Ahead", ahead)
	var held []string
	for _, h := range e.GetHolders() {
		held = append(held, fmt.Sprintf("%s on %s by %s", count(h.GetGpus(), "GPU"), count(h.GetNodes(), "node"), firstOf(h.GetJobId(), firstOf(h.GetTenantId(), "other tenants"))))
	}
	s.list("Held", held)
	writeOutlook(s, e.GetDeadline())
}

// deadlineKept says of a job that has ended whether it met its deadline, "" where
// there is nothing to say: only success in time meets one.
func deadlineKept(j *apipb.Job) string {
	due, ended := j.GetSpec().GetDeadline(), j.GetFinishedAt()
	if due == nil || ended == nil {
		return ""
	}
	at := due.AsTime().UTC().Format(time.RFC3339)
	switch late := ended.AsTime().Sub(due.AsTime()); {
	case late > 0:
		return fmt.Sprintf("%s: missed, it ended %s late", at, span(late))
	case j.GetState() == string(ares.Succeeded):
		return at + ": met"
	}
	return at + ": it ended before, without success"
}

// writeOutlook shows how a job stands to its deadline.
func writeOutlook(s sheet, o *apipb.DeadlineOutlook) {
	if o == nil {
		return
	}
	s.line("Deadline", strings.TrimPrefix(o.GetText(), "deadline "))
	if o.GetNoted() == string(ares.LatenessMissed) {
		s.line("", "it is past")
	}
}

func count[N int | int32](n N, thing string) string {
	stem, y := strings.CutSuffix(thing, "y")
	switch {
	case n == 1:
		return "1 " + thing
	case y: // policies
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// inLine is a job's place in its queue, "" when it has none.
func inLine(e *apipb.Explanation) string {
	if e.GetRank() == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d in queue %s", e.GetRank(), e.GetOf(), e.GetQueue())
}

func blockerWords(e *apipb.Explanation) []string {
	var out []string
	for _, b := range e.GetBlockers() {
		out = append(out, ares.Blocker{Kind: b.GetKind(), Count: int(b.GetCount()), Of: int(b.GetOf()), Detail: b.GetDetail()}.String())
	}
	return out
}

func remedyWords(r *apipb.Remedy) string {
	var steps []string
	for _, s := range r.GetSteps() {
		steps = append(steps, firstOf(s.GetText(), strings.TrimSpace(s.GetKind()+" "+s.GetTarget())))
	}
	return strings.Join(steps, ", and ")
}

// writePlacementScore shows a placement's score by parts, as far as they are known.
func writePlacementScore(s sheet, score int32, m *apipb.PlacementScore) {
	if score != 0 {
		s.line("Score", fmt.Sprint(score))
	}
	if m == nil {
		return
	}
	s.line("Within", strings.TrimSpace(m.GetLevel()+" "+m.GetDomain()))
	if m.GetWeighted() != 0 {
		s.line("Domain", fmt.Sprintf("%d of 1000: availability %d, alignment %d, utilization %d, history %d",
			m.GetWeighted(), m.GetAvailability(), m.GetAlignment(), m.GetUtilization(), m.GetHistory()))
	}
	if n := m.GetStrandedMilli(); n != 0 {
		s.line("Strands", fmt.Sprintf("%+.3f GPUs", float64(n)/1000))
	}
	if n := m.GetBandwidthMbps(); n != 0 {
		text := fmt.Sprintf("%d MB/s at the slowest link", n)
		if f := m.GetFirstFitMbps(); f > 0 {
			text += fmt.Sprintf(", %.2f times a first fit's %d", float64(n)/float64(f), f)
		}
		s.line("Bandwidth", text)
	}
}
