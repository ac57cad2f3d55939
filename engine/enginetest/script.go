package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// Run runs one script: commands, a line each, then ---- and what they say. A
// block may hold many commands. With -rewrite the answers are written anew;
// keep them only if you understand what changed them. README.md lists the
// commands. At the end the world must settle, and replay alike.
func Run(t *testing.T, path string) {
	w := NewWorld()
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		run := func(name string, args []datadriven.CmdArg) {
			said, err := execute(w, name, args)
			if missed, broken := (unmet{}), (laws.Violation{}); errors.As(err, &missed) || errors.As(err, &broken) {
				d.Fatalf(t, "%s: %v", name, err)
			}
			if err != nil {
				said = fmt.Sprintf("%s: error: %v\n", name, err)
			}
			if err := Check(w.State); err != nil {
				d.Fatalf(t, "after %s: %v", name, err)
			}
			out.WriteString(said)
		}
		run(d.Cmd, d.CmdArgs)
		for line := range strings.Lines(d.Input) {
			name, args, err := datadriven.ParseLine(line)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			if name != "" && !strings.HasPrefix(name, "#") {
				run(name, args)
			}
		}
		return cmp.Or(out.String(), "ok\n")
	})
	if _, err := w.Settle(); err != nil {
		t.Errorf("%s: at the end: %v", path, err)
	}
	if err := w.Replay(); err != nil {
		t.Errorf("%s: replay: %v", path, err)
	}
}

// commands are the words of the script language.
var commands map[string]func(*World, *words) (string, error)

func init() { // not a literal: the commands use execute
	commands = map[string]func(*World, *words) (string, error){
		"node": doNode, "session": doSession, "clean": doClean, "forget": doForget, "cordon": doCordon, "uncordon": doUncordon, "reservation": doReservation,
		"tenant": doTenant, "queue": doQueue, "usage": doUsage, "archive": doArchive, "fairness": doFairness, "config": doConfig,
		"topology": doTopology, "domain": doDomain, "switch": doSwitch, "heat": doHeat, "sick": doSick, "score": doScore,
		"job": doJob, "predict": doPredict, "whatif": doWhatIf, "merit": doMerit,
		"claim": doClaim, "finish": doFinish, "release": doRelease, "decline": doDecline, "void": doVoid, "checkpoint": doCheckpoint,
		"cancel": doStop, "preempt": doStop, "drain": doStop,
		"advance": doAdvance, "decide": doDecide, "settle": doSettle, "explain": doExplain, "show": doShow, "use": doUse,
		"live": doLive, "stream": doStream, "expect": doExpect, "stops": doStops, "promises": doPromises, "consolidate": doConsolidate, "restart": doRestart,
	}
}

func execute(w *World, name string, args []datadriven.CmdArg) (string, error) {
	do := commands[name]
	if do == nil {
		return "", fmt.Errorf("there is no such command")
	}
	in := &words{command: name}
	for _, a := range args {
		if len(a.Vals) == 0 {
			in.plain = append(in.plain, a.Key)
		} else {
			in.keyed = append(in.keyed, a)
		}
	}
	said, err := do(w, in)
	if err == nil {
		err = in.rest()
	}
	return said, err
}

// words are the arguments of one command: plain ones, and key=value ones,
// which are taken out as they are read so that a misspelt one is found.
type words struct {
	command string
	plain   []string
	keyed   []datadriven.CmdArg
	bad     error
}

func (w *words) name() string {
	if len(w.plain) == 0 {
		return ""
	}
	return w.plain[0]
}

// job is the ID of the job the command is about; NAME[3] is an element.
func (w *words) job() ares.JobID {
	name, rest, _ := strings.Cut(w.name(), "[")
	if index, err := strconv.Atoi(strings.TrimSuffix(rest, "]")); err == nil {
		return ares.ElementID(ares.JobID(name), index)
	}
	return ares.JobID(name)
}

func (w *words) has(flag string) bool { return len(w.plain) > 1 && slices.Contains(w.plain[1:], flag) }

func (w *words) list(key string) []string {
	for i, a := range w.keyed {
		if a.Key == key {
			w.keyed = slices.Delete(w.keyed, i, i+1)
			return a.Vals
		}
	}
	return nil
}

func (w *words) text(key, otherwise string) string {
	if v := w.list(key); len(v) > 0 {
		return v[0]
	}
	return otherwise
}

func (w *words) number(key string, otherwise int) int {
	v := w.text(key, "")
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		w.bad = fmt.Errorf("%s=%s is not a number", key, v)
	}
	return n
}

func (w *words) pairs(key string) map[string]string {
	var m map[string]string
	for _, v := range w.list(key) {
		if m == nil {
			m = map[string]string{}
		}
		k, value, _ := strings.Cut(v, ":")
		m[k] = value
	}
	return m
}

func (w *words) rest() error {
	if w.bad == nil && len(w.keyed) > 0 {
		return fmt.Errorf("%s takes no %s", w.command, w.keyed[0].Key)
	}
	return w.bad
}

func doSession(w *World, in *words) (string, error) {
	if len(in.plain) < 2 {
		return "", fmt.Errorf("write session end NODE or session return NODE")
	}
	for _, id := range in.plain[1:] {
		switch in.plain[0] {
		case "end":
			w.Put(ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: id}})
		case "return":
			w.Put(ares.Event{Session: &ares.Session{Node: id, Instance: "i", Revision: w.revision + 1}})
		default:
			return "", fmt.Errorf("a session can end or return")
		}
	}
	return "", nil
}

func doForget(w *World, in *words) (string, error) {
	if len(in.plain) != 2 {
		return "", fmt.Errorf("write forget KIND NAME")
	}
	w.Put(ares.Event{Gone: ares.Gone{Kind: ares.Kind(in.plain[0]), ID: in.plain[1]}})
	return "", nil
}

func doCordon(w *World, in *words) (string, error) {
	w.Put(ares.Event{Cordon: &ares.Cordon{Node: in.name(), By: "ann", Since: w.Now}})
	return "", nil
}

func doUncordon(w *World, in *words) (string, error) {
	w.Put(ares.Event{Gone: ares.Gone{Kind: ares.KindCordon, ID: in.name()}})
	return "", nil
}

func specOf(in *words) ares.Spec {
	s := ares.Spec{
		Name: in.name(), Tenant: in.text("tenant", ""), Queue: in.text("queue", ""), Labels: in.pairs("labels"), Members: in.number("members", 1),
		GPUs: in.number("gpus", 0), GPUMilli: in.number("milli", 0), GPUMemoryMB: in.number("gpumem", 0),
		CPUs: in.number("cpus", 0), MemoryMB: in.number("mem", 0),
		GPUModel: in.text("model", ""), AcceleratorType: in.text("type", ""), MIGProfile: in.text("mig", ""),
		NUMAPolicy: in.text("numa", ""), Mode: ares.Mode(in.text("mode", "")),
		Placement: ares.Placement{
			RequiredLevel: in.text("level", ""), NodeSelector: in.pairs("selector"), Regions: in.list("regions"),
			Strategy: in.text("strategy", ""), NetworkBandwidth: in.text("bandwidth", ""),
			PreferredLevel: in.text("prefer", ""), PreferredDomain: in.text("domain", ""), Tolerations: in.list("tolerates"),
			NodeAffinity: in.list("where"), PreferredNodeAffinity: in.list("like"), Affinity: in.list("near"), AntiAffinity: in.list("apart"),
		},
		After: in.list("after"), MinMembers: in.number("least", 0),
		Array: ares.Array{Count: in.number("array", 0), Parallelism: in.number("parallel", 0)},
	}
	s.Placement.LatencySensitive = in.has("latency-sensitive")
	if p := in.number("priority", -1); p >= 0 {
		s.Priority = &p
	}
	if in.has("no-gang") {
		s.Gang = new(false)
	}
	if r := in.number("retries", -1); r >= 0 {
		s.Retry.MaxRetries = &r
	}
	if g := in.number("grace", -1); g >= 0 {
		s.GraceSeconds = &g
	}
	s.MaxRuntimeMinutes, s.Checkpoint.Enabled = in.number("minutes", 0), in.has("checkpoint")
	s.Retry.InitialBackoffSeconds, s.MaxQueueMinutes = float64(in.number("backoff", 10)), in.number("patience", 0)
	return s
}

// due gives a job its deadline, so much after now.
func due(w *World, in *words, s *ares.Spec) error {
	text := in.text("deadline", "")
	if text == "" {
		return nil
	}
	within, err := time.ParseDuration(text)
	s.Deadline = w.Now.Add(within)
	return err
}

// doJob submits a job, or with count=N that many alike, named NAME000 and on.
func doJob(w *World, in *words) (string, error) {
	count := in.number("count", 0)
	spec, runs := specOf(in), in.text("runs", "")
	if err := due(w, in, &spec); err != nil {
		return "", err
	}
	ids := []ares.JobID{ares.JobID(in.name())}
	if count > 0 {
		ids = ids[:0]
	}
	for i := range count {
		ids = append(ids, ares.JobID(fmt.Sprintf("%s%03d", in.name(), i)))
	}
	for _, id := range ids {
		w.Submit(id, spec)
		if runs == "" {
			continue
		}
		d, err := time.ParseDuration(runs)
		if err != nil {
			return "", err
		}
		w.Need(id, d)
	}
	return "", nil
}

// doPredict says how long a job is thought to run.
func doPredict(w *World, in *words) (string, error) {
	p := &ares.RuntimePredicted{Job: in.job(), Basis: "script", Samples: in.number("samples", 1)}
	var err error
	if p.P50, err = time.ParseDuration(in.text("p50", "0s")); err != nil {
		return "", err
	}
	if p.P90, err = time.ParseDuration(in.text("p90", p.P50.String())); err != nil {
		return "", err
	}
	w.Put(ares.Event{Forecast: p})
	return "", nil
}

func doWhatIf(w *World, in *words) (string, error) {
	job := &ares.Job{Spec: specOf(in).WithDefaults(), ID: ares.JobID(in.name())}
	placing, why := engine.WhatIf(w.State, job, nil, w.Now)
	if why != nil {
		return fmt.Sprintf("%s would wait:\n%s", job.ID, blockers(why.Refusal)+w.standing(why)), nil
	}
	return fmt.Sprintf("%s would run on %s\n", job.ID, places(placing.Seats)), nil
}

func doAdvance(w *World, in *words) (string, error) {
	d, err := time.ParseDuration(in.name())
	w.Now = w.Now.Add(d)
	return "", err
}

func doDecide(w *World, _ *words) (string, error) {
	plan, err := w.Decide()
	if err != nil {
		return "", err
	}
	return describe(w, plan), w.Commit(plan)
}

func doSettle(w *World, _ *words) (string, error) {
	plans, err := w.Settle()
	var out strings.Builder
	for _, p := range plans {
		out.WriteString(describe(w, p))
	}
	return out.String(), err
}

func doExplain(w *World, in *words) (string, error) {
	e := engine.Explain(w.State, in.job(), w.Now)
	if len(e.Blockers) == 0 {
		return in.name() + " has no blockers\n", nil
	}
	return in.name() + " waits:\n" + blockers(e.Refusal) + helps(&e) + w.standing(&e), nil
}

// helps prints the remedies of an explanation.
func helps(e *ares.Explanation) string {
	var b strings.Builder
	for _, r := range e.Remedies {
		var steps []string
		for _, s := range r {
			steps = append(steps, fmt.Sprintf("%s (%s)", s.Text, s.Kind))
		}
		fmt.Fprintf(&b, "  would help: %s\n", strings.Join(steps, ", and "))
	}
	return cmp.Or(b.String(), "  would help: nothing that is known\n")
}

// standing prints where the job is in line, and who holds what it needs.
func (w *World) standing(e *ares.Explanation) string {
	var b strings.Builder
	if e.Rank > 0 {
		fmt.Fprintf(&b, "  in line: %d of %d in queue %s", e.Rank, e.Of, e.Queue)
		for _, a := range e.Ahead {
			if a.Tenant != "" {
				fmt.Fprintf(&b, ", behind %d of its tenant's, first %s", a.Jobs, a.First)
			} else {
				fmt.Fprintf(&b, ", behind %d of other tenants", a.Jobs)
			}
		}
		b.WriteString("\n")
	}
	if e.ETA.Known() {
		fmt.Fprintf(&b, "  starts: %s\n", w.starts(e.ETA))
	}
	for _, h := range e.Holders {
		fmt.Fprintf(&b, "  held: %d GPUs on %d nodes by %s\n", h.GPUs, h.Nodes, cmp.Or(string(h.Job), "other tenants"))
	}
	return b.String()
}

// starts prints when a job is thought to start.
func (w *World) starts(e ares.ETA) string {
	in := func(at time.Time) string {
		if at.IsZero() {
			return "?"
		}
		return at.Sub(w.Now).Round(time.Second).String()
	}
	kept := ""
	if e.Reserved {
		kept = "kept, "
	}
	return fmt.Sprintf("in %s to %s (%s%s)", in(e.Earliest), in(e.Latest), kept, e.Basis)
}

func doUse(w *World, in *words) (string, error) {
	_, u, ok := w.State.Tenant(in.name())
	if !ok {
		return "", fmt.Errorf("there is no tenant %s", in.name())
	}
	return fmt.Sprintf("%s uses %d GPUs, %d/1000, %d MB of GPU memory, %d cores, %d MB, %d jobs\n",
		in.name(), u.GPUs, u.GPUMilli, u.GPUMemoryMB, u.CPUs, u.MemoryMB, u.Jobs), nil
}

// label is what a script calls a job.
func (w *World) label(id ares.JobID) string {
	if job, ok := w.State.Job(id); ok && job.ArrayOf != "" {
		return job.Name
	}
	return string(id)
}

// describe prints a plan.
func describe(w *World, p ares.Plan) string {
	var b strings.Builder
	for _, id := range p.Ready {
		fmt.Fprintf(&b, "%s is ready\n", w.label(id))
	}
	for _, step := range p.Arrays {
		if step.Phase != "" {
			fmt.Fprintf(&b, "%s is %s: %s\n", step.Job, step.Phase, step.Reason)
		}
	}
	for _, stop := range p.Stop {
		fmt.Fprintf(&b, "%s is to stop: %s by %s\n", w.label(stop.Job), stop.Stop.Why, stop.Stop.By)
	}
	for _, n := range p.Nominate {
		fmt.Fprintf(&b, "%s is kept %s\n", n.Job, reckoning(w, &n.Nomination))
	}
	for _, n := range p.Withdraw {
		fmt.Fprintf(&b, "%s has no seats kept any more: %s\n", n.Job, n.Why)
	}
	for i, pl := range p.Place {
		if i == 10 {
			fmt.Fprintf(&b, "and %d more\n", len(p.Place)-i)
			break
		}
		name := w.label(pl.Job)
		if pl.ArrayOf != "" {
			name = fmt.Sprintf("%s[%d]", pl.ArrayOf, pl.Index)
		}
		fmt.Fprintf(&b, "%s on %s, score %d\n", name, places(pl.Seats), pl.Score)
	}
	for _, n := range p.Note {
		fmt.Fprintf(&b, "of %s is noted: %s\n", w.label(n.Job), n.Text)
	}
	for _, r := range p.Refuse {
		fmt.Fprintf(&b, "%s waits: %s\n", w.label(r.Job), r)
	}
	if !p.Wake.IsZero() {
		fmt.Fprintf(&b, "wake in %s\n", p.Wake.Sub(p.Now).Round(time.Millisecond))
	}
	return cmp.Or(b.String(), "nothing to do\n")
}

// reckoning prints what is kept for a job, and what that costs whom.
func reckoning(w *World, n *ares.Nomination) string {
	out := fmt.Sprintf("%s by %s", places(n.Seats), n.Why)
	for i, v := range n.Victims {
		if i == 10 {
			return out + fmt.Sprintf(" and %d more", len(n.Victims)-i)
		}
		out += fmt.Sprintf(", %s gives %d/1000 and loses %.0f GPU-seconds (%s)", w.label(v.Job), v.Yield.Milli, v.Yield.GPUSeconds(), v.Yield.Why)
	}
	return out
}

func blockers(r ares.Refusal) string {
	var b strings.Builder
	for _, bl := range r.Blockers {
		fmt.Fprintf(&b, "  %s: %s\n", bl.Kind, bl)
	}
	return b.String()
}

// places prints seats as node[devices], a share with its thousandths.
func places(seats []ares.Seat) string {
	var parts []string
	for _, s := range seats {
		var devices []string
		for _, sh := range s.Shares {
			d := strconv.Itoa(sh.Index)
			if sh.Milli < 1000 {
				d += fmt.Sprintf(":%d", sh.Milli)
			}
			devices = append(devices, d)
		}
		parts = append(parts, s.Node+"["+strings.Join(devices, " ")+"]")
	}
	return strings.Join(parts, " ")
}
