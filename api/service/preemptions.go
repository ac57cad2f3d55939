package service

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
)

// These are the states of a victim, which is a job that is being preempted.
const (
	yieldWaiting  = "waiting" // the nomination names the job, but it has not been asked to stop yet
	yieldStopping = "stopping"
	yieldGone     = "gone"
)

// ListPreemptions implements apipb.JobServiceServer.
func (d *jobService) ListPreemptions(ctx context.Context, req *apipb.ListPreemptionsRequest) (*apipb.ListPreemptionsResponse, error) {
	f := cache.PreemptionFilter{Tenant: req.GetTenantId(), Job: ares.JobID(req.GetJobId())}
	if f.Job != "" {
		if err := pipeline.CheckJobID(req.GetJobId()); err != nil {
			return nil, err
		}
	}
	if s := req.GetSince(); s != nil {
		if !s.IsValid() {
			return nil, ares.Errorf(ares.Invalid, "since: must be a time such as 2026-01-31T18:00:00Z").At("since")
		}
		f.Since = s.AsTime()
	}
	to := visibilityOf(ctx).within(req.GetTenantId())
	all, revision := d.Cfg.View.Preemptions(f)
	all = slices.DeleteFunc(all, func(p cache.Preemption) bool { return !to.job(p.Job) && !d.named(to, p.Details.Tenant, p.Details.To) })
	resp := &apipb.ListPreemptionsResponse{Total: int32(len(all)), Revision: strconv.FormatInt(revision, 10)}
	lost := int64(0) // in thousandths, because a sum of floats would have rounding errors
	for _, p := range all {
		if to.job(p.Job) {
			lost += p.Details.Lost
		}
	}
	resp.GpuSecondsLost = gpus(lost)
	if t := req.GetPageToken(); t != "" {
		after, err := readPreemptionToken(t)
		if err != nil {
			return nil, err
		}
		first, found := slices.BinarySearchFunc(all, after, cache.Preemption.Compare)
		if found {
			first++
		}
		all = all[first:]
	}
	limit := int(req.GetPageSize())
	if limit == 0 {
		limit = DefaultPageSize
	}
	size := 0
	for i, p := range all {
		m := d.newPreemption(p, to)
		if size += proto.Size(m); i == limit || size > MaxPageBytes && i > 0 {
			resp.NextPageToken = preemptionToken(all[i-1])
			break
		}
		resp.Preemptions = append(resp.Preemptions, m)
	}
	return resp, nil
}

// preemptionToken returns a page token that names the last preemption of a
// page.
func preemptionToken(p cache.Preemption) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s/%d", p.At.UnixMicro(), p.Job.ID, p.Attempt.Number))
}

func readPreemptionToken(token string) (p cache.Preemption, err error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.Split(string(data), "/")
	if err != nil || len(parts) != 3 || !ares.ValidJobID(parts[1]) {
		return p, badPageToken()
	}
	micros, err := strconv.ParseInt(parts[0], 10, 64)
	number, bad := strconv.Atoi(parts[2])
	if err != nil || bad != nil {
		return p, badPageToken()
	}
	return cache.Preemption{At: time.UnixMicro(micros), Job: &ares.Job{ID: ares.JobID(parts[1])}, Attempt: &ares.Attempt{Number: number}}, nil
}

// newPreemption converts a preemption to its public form. The result reveals
// nothing about jobs that the caller may not see. If the victim is hidden, its
// losses are hidden too, because they tell when its run began. If the preemptor
// is hidden, so is the number of GPUs that it requested.
func (d *Services) newPreemption(p cache.Preemption, to Visibility) *apipb.Preemption {
	y := p.Details
	m := &apipb.Preemption{
		State: yieldStopping, At: apipb.Timestamp(p.At), Why: string(y.Why), Gpus: gpus(y.Milli),
	}
	if p.Gone {
		m.State = yieldGone
	}
	if to.job(p.Job) {
		m.JobId, m.TenantId, m.Name, m.PriorityClass = string(p.Job.ID), p.Job.Tenant, p.Job.Name, string(p.Job.PriorityClass)
		m.Attempt, m.GpuSecondsLost, m.RestartGpuSeconds = int32(p.Attempt.Number), y.GPUSeconds(), gpus(y.Restart)
		m.CheckpointedAt = apipb.Timestamp(p.Attempt.CheckpointedAt)
	}
	if d.named(to, y.Tenant, y.To) {
		m.ByJobId, m.ByTenantId, m.AskedGpus = string(y.To), y.Tenant, gpus(y.Asked)
	}
	if by := d.Cfg.View.Job(y.To); by != nil { // a priority class is not secret
		m.ByPriorityClass, m.PriorityClass = string(by.Job.PriorityClass), string(p.Job.PriorityClass)
	}
	m.Text = preemptionText(m, p.Attempt)
	return m
}

// The function `gpus` converts thousandths of GPUs to a number of GPUs.
func gpus(milli int64) float64 { return float64(milli) / 1000 }

// preemptionText describes a preemption and its cost in one sentence.
func preemptionText(m *apipb.Preemption, a *ares.Attempt) string {
	words := &strings.Builder{}
	if m.State == yieldGone {
		words.WriteString("was preempted by ")
	} else {
		words.WriteString("is being preempted by ")
	}
	if m.ByJobId == "" {
		words.WriteString(ares.HiddenJob)
	} else {
		fmt.Fprintf(words, "job %s of tenant %s", m.ByJobId, m.ByTenantId)
	}
	fmt.Fprintf(words, " (%s)", rightOf(m))
	if m.JobId == "" {
		fmt.Fprintf(words, ": %s", gpuWords(m.Gpus))
		return words.String()
	}
	fmt.Fprintf(words, ": %s, %s GPU-seconds", gpuWords(m.Gpus), number(max(m.GpuSecondsLost-m.RestartGpuSeconds, 0)))
	switch {
	case m.CheckpointedAt != nil:
		fmt.Fprintf(words, " since its last checkpoint at %s", a.CheckpointedAt.UTC().Format(time.RFC3339))
	case !a.StartedAt.IsZero():
		fmt.Fprintf(words, " since its start at %s", a.StartedAt.UTC().Format(time.RFC3339))
	default:
		words.WriteString(", it had not started")
	}
	if m.RestartGpuSeconds > 0 {
		fmt.Fprintf(words, ", and %s for the restart", number(m.RestartGpuSeconds))
	}
	return words.String()
}

// gpuWords formats a number of GPUs with its unit, such as "2 GPUs".
func gpuWords(n float64) string {
	if n == 1 {
		return "1 GPU"
	}
	return number(n) + " GPUs"
}

// rightOf describes in words why one job may preempt another.
func rightOf(m *apipb.Preemption) string {
	switch ares.PreemptionBasis(m.Why) {
	case ares.PreemptByClass:
		if m.ByPriorityClass != "" && m.PriorityClass != "" {
			return m.ByPriorityClass + " over " + m.PriorityClass
		}
		return "by its class"
	case ares.PreemptByQuota:
		return "its tenant reclaims its quota"
	case ares.PreemptByOrder:
		return "by the order of their queue"
	case ares.PreemptByMove:
		return "so that both run"
	}
	return m.Why
}

// The function `number` formats a number with at most three decimals and
// without trailing zeros.
func number(f float64) string { return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64) }

// newNomination converts a nomination to its public form. newNomination returns nil if there is no nomination.
func (d *Services) newNomination(to Visibility, n *ares.Nomination) *apipb.Nomination {
	if n == nil {
		return nil
	}
	m := &apipb.Nomination{Why: string(n.Why), At: apipb.Timestamp(n.At), Until: apipb.Timestamp(n.Until)}
	var nodes []string
	for i := range n.Seats {
		s := newSeat(&n.Seats[i])
		m.Seats = append(m.Seats, &apipb.KeptSeat{Rank: s.Rank, Node: s.Node, Gpus: s.Gpus})
		if !slices.Contains(nodes, s.Node) {
			nodes = append(nodes, s.Node)
		}
	}
	left := 0
	for i := range n.Victims {
		v := d.newVictim(to, &n.Victims[i])
		if v.State != yieldGone {
			left++
		}
		m.Victims = append(m.Victims, v)
	}
	const most = 8 // maximum number of names in a sentence
	where := strings.Join(nodes[:min(len(nodes), most)], ", ")
	if more := len(nodes) - most; more > 0 {
		where += fmt.Sprintf(" and %d more", more)
	}
	m.Text = fmt.Sprintf("%s kept on %s until %s", are(len(n.Seats), "seat"), where, n.Until.UTC().Format(time.RFC3339))
	if len(n.Victims) > 0 {
		m.Text += fmt.Sprintf(", while %d of %s still to stop", left, are(len(n.Victims), "job"))
	}
	return m
}

// The function `are` formats a count and a noun, followed by "is" or "are".
func are(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " is"
	}
	return fmt.Sprintf("%d %ss are", n, thing)
}

// newVictim describes how far the preemption of one victim has progressed.
func (d *Services) newVictim(to Visibility, v *ares.Victim) *apipb.Preemption {
	p := cache.Preemption{Job: &ares.Job{ID: v.Job}, Attempt: &ares.Attempt{Fence: v.Fence}, Details: &v.Preemption, Gone: true}
	waits := false
	if e := d.Cfg.View.Job(v.Job); e != nil {
		p.Job = e.Job
		for i := range e.Run.Attempts {
			a := &e.Run.Attempts[i]
			if a.Fence != v.Fence {
				continue
			}
			p.Attempt, p.At, p.Gone = a, a.EndedAt, a.Free()
			switch stop := e.Run.Stop; {
			case a.Ended() && a.Preemption != nil:
				p.Details = a.Preemption
			case a.Ended():
			case stop == nil:
				waits = true
			default:
				p.At = stop.At
			}
		}
	}
	m := d.newPreemption(p, to)
	if waits {
		m.State = yieldWaiting
	}
	return m
}
