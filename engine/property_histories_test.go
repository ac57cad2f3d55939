package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestHistories simulates random histories: tenants with quotas, queues, classes, gangs, shares, slices and arrays,
// and failures of all kinds. The laws must hold for every plan and for the history as a whole. A restarted leader
// must make the same decisions. After the last event, every job that can run must run. Each history is a script;
// see package enginetest. If a history breaks a law, it is reduced to the necessary lines, so that it can be added
// to testdata.
//
// The environment variable ARES_STEPS is the number of cycles and events to simulate, and ARES_SEED is the first
// random seed.
func TestHistories(t *testing.T) { testHistories(t, 20_000, drawHistory) }

// TestHistoriesOfStartConditions is TestHistories with jobs that are held, that begin later, that depend on other jobs
// and that are updated while they wait.
func TestHistoriesOfStartConditions(t *testing.T) {
	testHistories(t, 10_000, func(seed uint64) []string { return drawLines(seed, true) })
}

func testHistories(t *testing.T, steps int, drawHistory func(seed uint64) []string) {
	if text := os.Getenv("ARES_STEPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		steps = n
	}
	first := uint64(1)
	if text := os.Getenv("ARES_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first = n
	}
	var sum historyCounts
	for seed := first; sum.steps < steps; seed++ {
		lines := drawHistory(seed)
		one, err := runHistory(lines)
		if err != nil {
			few := shrink(lines)
			_, err := runHistory(few)
			t.Fatalf("seed %d, reduced from %d lines to %d: %v\n%s\n----", seed, len(lines), len(few), err, strings.Join(few, "\n"))
		}
		sum.add(&one)
	}
	t.Log(sum.String())
}

// historyCounts counts how often each kind of event occurred in several histories.
type historyCounts struct {
	histories, steps, jobs, ended, nominations, withdrawn, restarts, most, met, moved int

	why map[ares.PreemptionBasis]int
}

func (s *historyCounts) add(o *historyCounts) {
	if s.why == nil {
		s.why = map[ares.PreemptionBasis]int{}
	}
	s.histories, s.steps, s.jobs, s.ended = s.histories+1, s.steps+o.steps, s.jobs+o.jobs, s.ended+o.ended
	s.nominations, s.withdrawn, s.restarts, s.most = s.nominations+o.nominations, s.withdrawn+o.withdrawn, s.restarts+o.restarts, max(s.most, o.most)
	s.met, s.moved = s.met+o.met, s.moved+o.moved
	for why, n := range o.why {
		s.why[why] += n
	}
}

func (s *historyCounts) String() string {
	return fmt.Sprintf("%d histories, %d steps, %d jobs, %d of them ended; victims by basis %v, at most %d preemptions of one job; %d nominations, %d withdrawn; %d firm planned starts met, %d moved by an event; %d restarts",
		s.histories, s.steps, s.jobs, s.ended, s.why, s.most, s.nominations, s.withdrawn, s.met, s.moved, s.restarts)
}

// runHistory runs the lines of a script, and then simulates until all jobs end.
func runHistory(lines []string) (historyCounts, error) {
	w := enginetest.NewCluster()
	out := historyCounts{why: map[ares.PreemptionBasis]int{}}
	for i, line := range lines {
		if err := w.RunLine(line); err != nil {
			return out, fmt.Errorf("%s: %w", line, err)
		}
		if i == 0 {
			w.UseFastChecks() // after the configuration, which is the first line
		}
		if line == "change-leader" {
			out.restarts++
		}
	}
	err := runToEnd(w)
	seen := w.Preemptions()
	for i := range seen.Preemptions {
		out.why[seen.Preemptions[i].Why]++
	}
	out.steps, out.most, out.nominations, out.withdrawn = len(lines)+w.DecisionCount(), seen.MaxPerJob(), seen.Nominations, seen.Withdrawals
	out.met, out.moved = w.PlannedStarts().Met, w.PlannedStarts().Moved
	for _, run := range w.State.Jobs() {
		out.jobs++
		if run != nil && run.Phase.Final() {
			out.ended++
		}
	}
	return out, err
}

// drainTime is the time that is simulated after the last event. drainTime is long enough
// for all jobs to run one after the other, even if each job is preempted as often as
// allowed.
const drainTime = 400 * 24 * time.Hour

// runToEnd simulates until nothing more happens. At the end, no job may be running. If a job still waits at the
// end, it must be a job that would not fit even if no other job waited.
func runToEnd(w *enginetest.Cluster) error {
	for _, id := range historyNodes {
		for _, line := range []string{"session return " + id, "uncordon " + id, "clean-node " + id} {
			if err := w.RunLine(line); err != nil {
				return err
			}
		}
	}
	if err := w.Simulate(drainTime, func(string) {}); err != nil {
		return err
	}
	if err := enginetest.CheckState(w.State); err != nil {
		return err
	}
	if err := w.RunLine("change-leader"); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	for job, run := range w.State.Jobs() {
		if run != nil && run.Current() != nil && !job.IsArray() {
			return fmt.Errorf("%s is %s at the end", job.ID, run.Phase)
		}
	}
	for job, run := range w.State.Jobs() {
		if run != nil && run.Phase.Final() || job.IsArray() {
			continue
		}
		if job.Start != nil {
			if waitsForNothing(w, job, run) {
				return fmt.Errorf("%s still waits at the end, though its start conditions are met", job.ID)
			}
			continue
		}
		if alone(w, job.ID) {
			why := engine.Explain(w.State, job.ID, w.Now).Refusal
			return fmt.Errorf("%s still waits at the end, though it fits (%s)", job.ID, &why)
		}
	}
	return nil
}

// waitsForNothing reports whether a waiting job with start conditions is not held, depends on no job that has not ended, and
// would be placed without its start conditions if no other job existed.
func waitsForNothing(w *enginetest.Cluster, job *ares.Job, run *ares.Run) bool {
	if run.IsHeld(job) {
		return false
	}
	for _, d := range job.Start.Dependencies {
		other, _ := w.State.Run(d.Job)
		if _, known := w.State.Job(d.Job); d.Type == ares.Singleton || !known || d.Type.State(other.Phase, other.HasStarted()) != ares.DependencyMet {
			return false
		}
	}
	return alone(w, job.ID)
}

// The function `alone` reports whether a waiting job would be placed if no other job existed.
func alone(w *enginetest.Cluster, id ares.JobID) bool {
	others := map[ares.JobID]bool{}
	for job, run := range w.State.Jobs() {
		others[job.ID] = job.ID != id && (run == nil || !run.Phase.Final())
	}
	b := w.State.Snapshot()
	b.Events = slices.DeleteFunc(b.Events, func(ev ares.Event) bool {
		return ev.Job != nil && others[ev.Job.ID] || ev.Run != nil && others[ev.Run.Job] || ev.Forecast != nil && others[ev.Forecast.Job]
	})
	s := engine.NewWith(w.State.Config())
	s.Apply(b)
	plan := engine.Decide(s, w.Now)
	placed := slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == id })
	return placed || slices.Contains(plan.Ready, id)
}

// The function `shrink` removes the lines that are not needed to break a law. It first tries to remove halves of
// the script, then quarters, and finally single lines.
func shrink(lines []string) []string {
	for size := len(lines) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(lines); {
			less := slices.Delete(slices.Clone(lines), at, at+size)
			if _, err := runHistory(less); err != nil {
				lines = less
			} else {
				at += size
			}
		}
	}
	return lines
}

var historyNodes = []string{"a", "b", "c", "d", "e"}

// drawHistory draws the lines of a history.
func drawHistory(seed uint64) []string { return drawLines(seed, false) }

func drawLines(seed uint64, starts bool) []string {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 7)), starts: starts}
	d.config()
	for _, id := range historyNodes[:2+d.IntN(4)] {
		d.node(id)
	}
	for _, id := range historyTenants {
		d.tenant(id)
	}
	for range 40 + d.IntN(160) {
		d.step()
		if starts && d.jobs > 0 && d.IntN(4) == 0 {
			d.say("%s j%d", d.of("hold", "hold", "unhold"), d.IntN(d.jobs))
		}
		if starts && d.jobs > 0 && d.IntN(4) == 0 {
			d.say("update j%d%s%s", d.IntN(d.jobs), d.maybe(2, "priority=%s", d.of("100", "500", "1000", "1500", "2500")), d.maybe(2, "max-runtime-minutes=%s", d.of("0", "5", "600")))
		}
		if seed%3 == 0 { // in some histories single ranks end before the rest of their gang
			d.rank()
		}
	}
	for i := range d.jobs {
		if starts {
			d.say("unhold j%d", i)
		}
	}
	return d.lines
}

// startConditions draws the start conditions of a job.
func (d *dice) startConditions() string {
	if !d.starts || d.IntN(2) == 0 {
		return ""
	}
	out := d.maybe(4, "hold") + d.maybe(4, "begin=%s", d.of("1h", "10m", "30h")) + d.maybe(3, "name=%s", d.of("x", "y")) + d.maybe(3, "unmet=wait")
	var list []string
	for range d.IntN(4) {
		if d.jobs > 0 {
			list = append(list, fmt.Sprintf("%s:j%d", d.of("afterok", "afterany", "afternotok", "after", "aftercorr"), d.IntN(d.jobs)))
		}
	}
	if strings.Contains(out, "name=") {
		list = append(list, "singleton")
	}
	if len(list) > 0 {
		out += " dependency=(" + strings.Join(list, ",") + ")"
	}
	return out
}

// The method `rank` adds two lines with a probability of 1 in 4. These lines end and release one rank of a
// random job.
func (d *dice) rank() {
	if d.jobs == 0 || d.IntN(4) > 0 {
		return
	}
	j, rank := d.IntN(d.jobs), d.IntN(3)
	d.say("finish j%d rank=%d", j, rank)
	d.say("release j%d rank=%d", j, rank)
}

var historyTenants = []string{"ann", "bob", "eve"}

// The type `dice` draws random values for the lines of a history.
type dice struct {
	*rand.Rand
	jobs   int
	lines  []string
	starts bool // jobs have start conditions
}

func (d *dice) say(format string, args ...any) {
	d.lines = append(d.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// The method `of` draws one of the given words.
func (d *dice) of(words ...string) string { return words[d.IntN(len(words))] }

// The method `maybe` returns the text with a probability of 1 in n, where n is the argument `in`. Otherwise the
// method returns "".
func (d *dice) maybe(in int, format string, args ...any) string {
	if d.IntN(in) > 0 {
		return ""
	}
	return " " + fmt.Sprintf(format, args...)
}

func (d *dice) config() {
	d.say("config%s%s%s%s%s%s%s", d.maybe(4, "ageing-step=%s", d.of("1s", "1m")), d.maybe(4, "half-life=%s", d.of("1h", "100h")),
		d.maybe(3, "preemption-ceiling=%s", d.of("1000", "2000", "8000", "0")), d.maybe(3, "max-preemptions=%s", d.of("1", "2", "10", "0")), d.maybe(3, "preemption-cooldown=%s", d.of("0s", "1m", "1h")),
		d.maybe(4, "max-preemptions-per-hour=%s", d.of("1", "3", "0")), d.maybe(4, "restart-cost=%s", d.of("0s", "10m")))
}

func (d *dice) node(id string) {
	d.say("node %s gpus=%s cpus=%s memory-mb=64000 model=%s leaf=%s%s", id, d.of("4", "8", "2", "1"), d.of("32", "8"), d.of("H100", "A100"), d.of("l0", "l1"), d.maybe(6, "mig-slices=2"))
}

func (d *dice) tenant(id string) {
	quota := ""
	if d.IntN(3) > 0 {
		quota = fmt.Sprintf(" quota=(all:%d:%s:%s)", d.IntN(7), d.of("any", "0", "2", "4"), d.of("any", "any", "0", "1", "2"))
		if d.IntN(4) == 0 {
			quota = fmt.Sprintf(" quota=(H100:%d:any,A100:%d:%s)", d.IntN(5), d.IntN(5), d.of("any", "0"))
		}
	}
	d.say("tenant %s weight=%s%s%s%s%s", id, d.of("1", "2"), d.maybe(2, "preempt"), quota, d.maybe(6, "gpus=%d", 2+d.IntN(8)), d.maybe(12, "gpu-hours=%d", 20+d.IntN(100)))
}

func (d *dice) job() {
	size := "gpus=" + d.of("1", "1", "2", "4", "8")
	switch d.IntN(8) {
	case 0:
		size = "gpu-milli=" + d.of("250", "500", "700")
	case 1:
		size = "mig-profile=1g.10gb"
	case 2:
		size = ""
	case 3:
		size = fmt.Sprintf("members=%d gpus=%s%s", 2+d.IntN(3), d.of("1", "2", "4"), d.maybe(3, "min-members=1"))
	}
	d.say("job j%d tenant=%s%s %s cpus=%d priority=%s runtime=%s%s%s%s%s%s%s%s%s%s", d.jobs, d.of(historyTenants...), d.maybe(4, "queue=%s", d.of("q1", "q2")), size, d.IntN(5),
		d.of("500", "0", "100", "300", "500", "1000", "1500", "2000", "2500"), d.of("10m", "1m", "1h", "5h", "30h"),
		d.maybe(2, "checkpoint"), d.maybe(8, "latency-sensitive"), d.maybe(3, "max-runtime-minutes=%s", d.of("5", "60", "600")), d.maybe(10, "model=%s", d.of("h100", "a100")),
		d.maybe(12, "after=(j%d)", d.IntN(max(d.jobs, 1))), d.maybe(12, "array=%d parallelism=%d", 2+d.IntN(4), 1+d.IntN(2)), d.maybe(15, "required-level=leaf"), d.maybe(20, "mode=at_most_once"), d.startConditions())
	if d.IntN(2) == 0 {
		d.say("estimate j%d p50=%s", d.jobs, d.of("10m", "1m", "1h", "5h", "30h"))
	}
	d.jobs++
}

// The method `step` draws one random event. Most events submit a job or advance the time.
func (d *dice) step() {
	j, n := fmt.Sprintf("j%d", d.IntN(max(d.jobs, 1))), historyNodes[d.IntN(len(historyNodes))]
	switch k := d.IntN(100); {
	case k < 45:
		d.job()
	case k < 70:
		d.say("simulate %s quiet grace=%s", d.of("10m", "5s", "1s", "1m", "10m", "1h", "3h"), d.of("10s", "1s", "30s", "10s", "1s", "5m"))
	case k < 74:
		d.say("cancel %s", j)
	case k < 76:
		d.say("preempt %s", j)
	case k < 78:
		d.say("drain %s", j)
	case k < 80:
		d.say("session end %s", n)
	case k < 82:
		d.say("void-node %s", n)
	case k < 85:
		d.say("session return %s", n)
		d.say("clean-node %s", n)
	case k < 87:
		d.say("%s %s", d.of("cordon", "uncordon"), n)
	case k < 90:
		d.tenant(d.of(historyTenants...))
	case k < 92:
		d.say("unhealthy %s%s", n, d.maybe(2, "%d", d.IntN(4)))
	case k < 93:
		d.say("checkpoint %s", j)
	case k < 94:
		d.say("estimate %s p50=%s", j, d.of("10m", "1m", "1h", "5h", "30h"))
	case k < 95:
		d.say("queue %s/%s parent=%s quota=(all:%d:any)", d.of(historyTenants...), d.of("q1", "q2"), d.of("", "q2", "q1"), d.IntN(4))
	case k < 97:
		d.say("reservation w%d in=%s for=%s nodes=(%s)%s%s%s", d.IntN(3), d.of("1h", "0s", "20m", "10h"), d.of("1h", "10m", "20h"), n,
			d.maybe(2, "tenant=%s", d.of(historyTenants...)), d.maybe(2, "drain"), d.maybe(3, "force"))
	case k < 98:
		d.say("delete %s", d.of("reservation w0", "reservation w1", "queue ann/q1", "queue bob/q2"))
	default:
		d.say("change-leader")
	}
}
