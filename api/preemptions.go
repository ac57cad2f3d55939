package api

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
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
)

// The states of one that gives way.
const (
	yieldWaiting  = "waiting" // named by the nomination, and not asked to stop yet
	yieldStopping = "stopping"
	yieldGone     = "gone"
)

// ListPreemptions implements apipb.JobServiceServer.
func (d *jobDoor) ListPreemptions(ctx context.Context, req *apipb.ListPreemptionsRequest) (*apipb.ListPreemptionsResponse, error) {
	f := control.PreemptionFilter{Tenant: req.GetTenantId(), Job: ares.JobID(req.GetJobId())}
	if f.Job != "" {
		if err := jobID(req.GetJobId()); err != nil {
			return nil, err
		}
	}
	if s := req.GetSince(); s != nil {
		if !s.IsValid() {
			return nil, ares.Errorf(ares.Invalid, "since: want a time such as 2026-01-31T18:00:00Z").At("since")
		}
		f.Since = s.AsTime()
	}
	to := eyesOf(ctx).within(req.GetTenantId())
	all, revision := d.cfg.View.Preemptions(f)
	all = slices.DeleteFunc(all, func(p control.Preemption) bool { return !to.job(p.Job) && !d.named(to, p.Yield.Tenant, p.Yield.To) })
	resp := &apipb.ListPreemptionsResponse{Total: int32(len(all)), Revision: strconv.FormatInt(revision, 10)}
	lost := int64(0) // thousandths: sums of fractions show what nobody lost
	for _, p := range all {
		lost += p.Yield.Lost
	}
	resp.GpuSecondsLost = gpus(lost)
	if t := req.GetPageToken(); t != "" {
		after, err := readPreemptionToken(t)
		if err != nil {
			return nil, err
		}
		first, found := slices.BinarySearchFunc(all, after, control.Preemption.Compare)
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

// preemptionToken says behind which preemption the next page begins.
func preemptionToken(p control.Preemption) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s/%d", p.At.UnixMicro(), p.Job.ID, p.Attempt.Number))
}

func readPreemptionToken(token string) (p control.Preemption, err error) {
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
	return control.Preemption{At: time.UnixMicro(micros), Job: &ares.Job{ID: ares.JobID(parts[1])}, Attempt: &ares.Attempt{Number: number}}, nil
}

// newPreemption is a preemption in its public form: of jobs that may not be shown
// nothing is told.
func (d *Doors) newPreemption(p control.Preemption, to eyes) *apipb.Preemption {
	y := p.Yield
	m := &apipb.Preemption{
		Attempt: int32(p.Attempt.Number), State: yieldStopping, At: apipb.Timestamp(p.At),
		Why: string(y.Why), Gpus: gpus(y.Milli), AskedGpus: gpus(y.Asked),
		GpuSecondsLost: y.GPUSeconds(), RestartGpuSeconds: gpus(y.Restart),
		CheckpointedAt: apipb.Timestamp(p.Attempt.CheckpointedAt),
	}
	if p.Gone {
		m.State = yieldGone
	}
	if to.job(p.Job) {
		m.JobId, m.TenantId, m.Name, m.PriorityClass = string(p.Job.ID), p.Job.Tenant, p.Job.Name, string(p.Job.PriorityClass)
	}
	if d.named(to, y.Tenant, y.To) {
		m.ByJobId, m.ByTenantId = string(y.To), y.Tenant
	}
	if by := d.cfg.View.Job(y.To); by != nil { // a class is nobody's secret
		m.ByPriorityClass, m.PriorityClass = string(by.Job.PriorityClass), string(p.Job.PriorityClass)
	}
	m.Text = preemptionText(m, p.Attempt)
	return m
}

// gpus writes thousandths as a number.
func gpus(milli int64) float64 { return float64(milli) / 1000 }

// preemptionText is the whole reckoning in a sentence.
func preemptionText(m *apipb.Preemption, a *ares.Attempt) string {
	words := &strings.Builder{}
	if m.State == yieldGone {
		words.WriteString("gave way to ")
	} else {
		words.WriteString("gives way to ")
	}
	if m.ByJobId == "" {
		words.WriteString("a job of another tenant")
	} else {
		fmt.Fprintf(words, "job %s of tenant %s", m.ByJobId, m.ByTenantId)
	}
	fmt.Fprintf(words, " (%s)", rightOf(m))
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

// gpuWords is so many GPUs in words.
func gpuWords(n float64) string {
	if n == 1 {
		return "1 GPU"
	}
	return number(n) + " GPUs"
}

// rightOf says by what right one job makes another give way.
func rightOf(m *apipb.Preemption) string {
	switch ares.PreemptionBasis(m.Why) {
	case ares.PreemptByClass:
		if m.ByPriorityClass != "" && m.PriorityClass != "" {
			return m.ByPriorityClass + " over " + m.PriorityClass
		}
		return "by its class"
	case ares.PreemptByQuota:
		return "its tenant takes back its quota"
	case ares.PreemptByOrder:
		return "by the order of their queue"
	case ares.PreemptByMove:
		return "so that both run"
	}
	return m.Why
}

// number writes a number as people do: to a thousandth, and without a fraction
// that says nothing.
func number(f float64) string { return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64) }

// newNomination is a nomination in its public form, nil for none.
func (d *Doors) newNomination(to eyes, n *ares.Nomination) *apipb.Nomination {
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
	const most = 8 // names in a sentence
	where := strings.Join(nodes[:min(len(nodes), most)], ", ")
	if more := len(nodes) - most; more > 0 {
		where += fmt.Sprintf(" and %d more", more)
	}
	m.Text = fmt.Sprintf("%s kept on %s until %s", are(len(n.Seats), "seat"), where, n.Until.UTC().Format(time.RFC3339))
	if len(n.Victims) > 0 {
		m.Text += fmt.Sprintf(", while %d of %s still to give way", left, are(len(n.Victims), "job"))
	}
	return m
}

// are counts things that are.
func are(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " is"
	}
	return fmt.Sprintf("%d %ss are", n, thing)
}

// newVictim tells how far one is that gives way to a job.
func (d *Doors) newVictim(to eyes, v *ares.Victim) *apipb.Preemption {
	p := control.Preemption{Job: &ares.Job{ID: v.Job}, Attempt: &ares.Attempt{Fence: v.Fence}, Yield: &v.Yield, Gone: true}
	waits := false
	if e := d.cfg.View.Job(v.Job); e != nil {
		p.Job = e.Job
		for i := range e.Run.Attempts {
			a := &e.Run.Attempts[i]
			if a.Fence != v.Fence {
				continue
			}
			p.Attempt, p.At, p.Gone = a, a.EndedAt, a.Free()
			switch stop := e.Run.Stop; {
			case a.Ended() && a.Yield != nil:
				p.Yield = a.Yield
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
