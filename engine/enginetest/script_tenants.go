package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// doConfig starts the script's cluster with another configuration. The command config must be the first
// command of a script.
func doConfig(w *Cluster, in *arguments) (string, error) {
	cfg := AgedConfig()
	order := in.text("order", "")
	if order == string(config.OrderExpectedWork) {
		cfg.Queue = config.Default().Queue
	}
	cfg.ThermalLimit, cfg.ThermalMargin = in.number("thermal-limit", cfg.ThermalLimit), in.number("thermal-margin", cfg.ThermalMargin)
	cfg.NodeRanks = in.number("max-ranks-per-node", 0)
	y := &cfg.Preemption
	y.Ceiling, y.MaxPreemptions, y.PerTenant = in.number("preemption-ceiling", y.Ceiling), in.number("max-preemptions", y.MaxPreemptions), in.number("max-preemptions-per-hour", y.PerTenant)
	y.Moving, y.MoveGain = slices.Contains(in.positional, "consolidation"), in.number("consolidation-gain", y.MoveGain)
	y.Enabled = !slices.Contains(in.positional, "no-preemption")
	for _, d := range []struct {
		key string
		of  *time.Duration
	}{
		{"ageing-step", &cfg.AgeingStep},
		{"half-life", &cfg.HalfLife},
		{"preemption-cooldown", &y.Cooldown},
		{"restart-cost", &y.Restart},
		{"backfill-after", &cfg.Backfill.After},
		{"backfill-drain-after", &cfg.Backfill.DrainAfter},
		{"backfill-slack", &cfg.Backfill.SlackLeast},
		{"preempt-peers-after", &cfg.Queue.PeersAfter},
		{"overdue-after", &cfg.Queue.OverdueAfter},
	} {
		if text := in.text(d.key, ""); text != "" {
			v, err := time.ParseDuration(text)
			if err != nil {
				return "", err
			}
			*d.of = v
		}
	}
	cfg.Backfill.First = in.number("backfill-reservations", cfg.Backfill.First)
	cfg.Backfill.HoldIdle = in.number("backfill-hold-idle", cfg.Backfill.HoldIdle)
	cfg.Backfill.SlackPercent = in.number("backfill-slack-percent", cfg.Backfill.SlackPercent)
	var err error
	if cfg.Queue.Order, err = config.ParseOrder(order); err != nil {
		return "", err
	}
	if cfg.Queue.Blocked, err = config.ParseBlocked(in.text("blocked", "")); err != nil {
		return "", err
	}
	cfg.Queue.OverdueShare = in.number("overdue-share-percent", cfg.Queue.OverdueShare)
	cfg.Backfill.MaxSpread = in.number("backfill-max-spread-percent", cfg.Backfill.MaxSpread)
	cfg.Queue.Attained, cfg.Queue.Preempt = in.number("attained-gpu-seconds", 0), slices.Contains(in.positional, "preempt-by-order")
	for model, weight := range in.pairs("model-weights") {
		n, err := strconv.Atoi(weight)
		if err != nil {
			return "", err
		}
		if cfg.ModelWeights == nil {
			cfg.ModelWeights = map[string]int{}
		}
		cfg.ModelWeights[model] = n
	}
	cfg.Placement, cfg.Seed = config.PlacementPolicy(in.text("placement", "")), int64(in.number("seed", 0))
	for _, text := range in.list("typical-jobs") {
		var t config.TypicalJob
		if _, err := fmt.Sscanf(text, "%d:%d:%d:%d", &t.GPUs, &t.Milli, &t.CPUs, &t.Count); err != nil {
			return "", fmt.Errorf("%q is not GPUS:MILLI:CPUS:COUNT", text)
		}
		cfg.Typical = append(cfg.Typical, t)
	}
	*w = *NewClusterWithConfig(cfg)
	return "", cfg.Check()
}

// parseLimits reads the limits of a tenant or queue.
func parseLimits(in *arguments) ares.Limits {
	l := ares.NoLimits()
	l.GPUs, l.GPUMemoryMB = in.number("gpus", l.GPUs), in.number("gpu-memory-mb", l.GPUMemoryMB)
	l.CPUs, l.MemoryMB = in.number("cpus", l.CPUs), in.number("memory-mb", l.MemoryMB)
	l.ConcurrentJobs = in.number("jobs", l.ConcurrentJobs)
	return l
}

// parseQuotas reads MODEL:NOMINAL, MODEL:NOMINAL:BORROW or MODEL:NOMINAL:BORROW:LEND, where
// "all" is every model and "any" is unlimited. By default a tenant borrows nothing and
// lends all its unused quota.
func parseQuotas(in *arguments) ([]ares.Quota, error) {
	var out []ares.Quota
	for _, text := range in.list("quota") {
		parts := strings.Split(text, ":")
		q := ares.Quota{Model: parts[0], Lend: ares.Unlimited}
		if q.Model == "all" {
			q.Model = ""
		}
		for i, to := range []*int{&q.Nominal, &q.Borrow, &q.Lend} {
			if i+1 >= len(parts) {
				break
			}
			n, err := strconv.Atoi(parts[i+1])
			if parts[i+1] == "any" {
				n, err = ares.Unlimited, nil
			}
			if err != nil {
				return nil, fmt.Errorf("%q is not MODEL:NOMINAL:BORROW:LEND", text)
			}
			*to = n
		}
		out = append(out, q)
	}
	return out, nil
}

// parseWeight reads a weight, which is 1 by default.
func parseWeight(in *arguments) (float64, error) {
	return strconv.ParseFloat(in.text("weight", "1"), 64)
}

// doTenant writes a tenant.
func doTenant(w *Cluster, in *arguments) (string, error) {
	t := &ares.Tenant{ID: in.first(), Limits: parseLimits(in), GPUHours: in.number("gpu-hours", 0), MayPreempt: in.hasFlag("preempt"), Revision: w.revision + 1}
	var err, wrong error
	t.Quotas, err = parseQuotas(in)
	t.Weight, wrong = parseWeight(in)
	if hours := in.number("hub-hours", 0); hours > 0 {
		t.Loan = &ares.Loan{GPUs: ares.Unlimited, Quota: ares.Unlimited, Budget: ares.LoanBudget{Hours: hours, Secs: 60 * int64(in.number("lent-minutes", 0))}}
	}
	w.PutEvents(ares.Event{Tenant: t})
	return "", cmp.Or(err, wrong)
}

// splitQueueName splits TENANT/QUEUE.
func splitQueueName(name string) (tenant, queue string) {
	tenant, queue, _ = strings.Cut(name, "/")
	return tenant, cmp.Or(queue, ares.DefaultQueue)
}

// doQueue writes a queue.
func doQueue(w *Cluster, in *arguments) (string, error) {
	q := &ares.Queue{Parent: in.text("parent", ""), Limits: parseLimits(in), Revision: w.revision + 1}
	q.Tenant, q.Name = splitQueueName(in.first())
	var err, wrong error
	q.Quotas, err = parseQuotas(in)
	q.Weight, wrong = parseWeight(in)
	w.PutEvents(ares.Event{Queue: q})
	return "", cmp.Or(err, wrong, q.Check())
}

// doArchivedUsage sets the usage of a queue's archived jobs until now, in GPU-hours.
func doArchivedUsage(w *Cluster, in *arguments) (string, error) {
	u := &ares.Usage{At: w.Now, Month: w.Now.UTC().Format("2006-01")}
	u.Tenant, u.Queue = splitQueueName(in.first())
	hours := int64(in.number("gpu-hours", 0))
	u.GPUMilliSecs, u.GPUSecs = hours*3_600_000, hours*3600
	w.PutEvents(ares.Event{Usage: u})
	return "", nil
}

// doArchive archives a finished job.
func doArchive(w *Cluster, in *arguments) (string, error) { return "", w.ArchiveJob(in.job()) }

// ArchiveJob removes a finished job and adds its usage to the archived usage of its queue, as the Archiver does.
func (w *Cluster) ArchiveJob(id ares.JobID) error {
	job, ok := w.State.Job(id)
	if !ok {
		return fmt.Errorf("there is no job %s", id)
	}
	if run, _ := w.State.Run(id); !run.Phase.Final() || !run.Free() {
		return fmt.Errorf("it is %s, or its devices are not free", run.Phase)
	}
	u := ares.Usage{Tenant: job.Tenant, Queue: job.Queue}
	for known := range w.State.Usages() {
		if known.Tenant == job.Tenant && known.Queue == job.Queue {
			u = known
		}
	}
	u = engine.FoldUsage(w.State, id, u, w.Now)
	w.PutEvents(ares.Event{Usage: &u}, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(id)}})
	return nil
}

// doFairness prints the shares of tenants and queues, in millionths.
func doFairness(w *Cluster, _ *arguments) (string, error) {
	var b strings.Builder
	f := engine.Fairness(w.State, w.Now)
	for _, s := range f.Shares {
		if s.Waiting == 0 && s.GPUMilli == 0 && s.CPUs == 0 && s.MemoryMB == 0 && s.PastShare == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s weight %v: %s %d, past %d, weighted %d, fair %d, %d waiting\n",
			strings.TrimSuffix(ares.QueueID(s.Tenant, s.Queue), "/"), s.Weight, cmp.Or(s.Resource, "nothing"), s.DominantShare, s.PastShare, s.WeightedShare, s.FairShare, s.Waiting)
	}
	fmt.Fprintf(&b, "Jain %d\n", f.Jain)
	return b.String(), nil
}

// doPlacementScore prints the score of a job's placement.
func doPlacementScore(w *Cluster, in *arguments) (string, error) {
	run, _ := w.State.Run(in.job())
	last := run.Last()
	if last == nil {
		return "", fmt.Errorf("%s was never placed", in.first())
	}
	m := last.PlacementScore
	network := ""
	if m.NetworkGbps > 0 {
		network = fmt.Sprintf("; network %d Gb/s, %d ns", m.NetworkGbps, m.NetworkLatencyNanos)
	}
	return fmt.Sprintf("%s in one %s (%s): availability %d, alignment %d, utilization %d, history %d, weighted %d; bandwidth %d MB/s, first fit %d%s\n",
		in.first(), cmp.Or(string(m.Level), "fleet"), m.Domain, m.Availability, m.Alignment, m.Utilization, m.History, m.Weighted, m.Bandwidth, m.FirstFit, network), nil
}
