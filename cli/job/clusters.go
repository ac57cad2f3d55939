package job

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
)

// writeHubPlan shows the plan of a job at a hub.
func (a *commands) writeHubPlan(w io.Writer, p *apipb.PlanJobResponse) {
	switch first := p.GetClusters()[0]; {
	case p.GetPlaced():
		output.Printf(w, "The hub would offer the job to cluster %s first, which could start it now.\n", output.Clean(first.GetCluster()))
	case len(p.GetExplanation().GetBlockers()) > 0:
		output.Printf(w, "The job would wait at the hub.\n")
	case first.GetRank() > 0:
		output.Printf(w, "The job would wait: no cluster has enough free capacity now.\n")
	default:
		output.Printf(w, "The job would wait: no cluster can run it now.\n")
	}
	output.NewSheet(w).List("Policies", p.GetPolicyNotes())
	if e := p.GetExplanation(); len(e.GetBlockers()) > 0 {
		a.writeExplanation(w, e)
	}
	writeOutlook(output.NewSheet(w), p.GetDeadline())
	a.writeClusters(w, p.GetClusters())
}

// writeClusters shows what a hub expects of each cluster for a job, and why it is not offered to the others.
func (a *commands) writeClusters(w io.Writer, all []*apipb.ClusterOutlook) {
	if len(all) == 0 {
		return
	}
	t := output.Table{Head: []string{"CLUSTER", "REGION", "VERDICT", "GPUS", "STARTS", "COST", "COMPUTE", "EGRESS", "WAITING", "TRANSFER"}}
	var blockers []string
	for _, c := range all {
		row := []string{c.GetCluster(), dash(c.GetRegion()), c.GetVerdict(), dash(c.GetGpuModel()), a.clusterStart(c)}
		if m := c.GetCost(); m != nil {
			for _, micros := range []int64{m.GetTotalMicros(), m.GetComputeMicros(), m.GetEgressMicros(), m.GetWaitingMicros(), m.GetTransferMicros()} {
				row = append(row, money(micros))
			}
		} else {
			row = append(row, "-", "-", "-", "-", "-")
		}
		t.Add(row...)
		for _, b := range c.GetBlockers() {
			blockers = append(blockers, c.GetCluster()+": "+b.GetDetail())
		}
	}
	output.Printf(w, "\n")
	a.WriteTable(w, &t)
	if len(blockers) > 0 {
		output.Printf(w, "\n")
		output.NewSheet(w).List("Blockers", blockers)
	}
}

// clusterStart says when a cluster is expected to start a job.
func (a *commands) clusterStart(c *apipb.ClusterOutlook) string {
	switch {
	case c.GetStartsAt() == nil:
		return "-"
	case c.GetFits():
		return "now"
	}
	in := c.GetStartsAt().AsTime().Sub(a.Now()).Round(time.Minute)
	if in <= 0 {
		return "soon"
	}
	return "in about " + output.Duration(in)
}

// clusterWait says what a job waits for that only needs a cluster.
func clusterWait(all []*apipb.ClusterOutlook) string {
	var offered []string
	for _, c := range all {
		if c.GetOffered() {
			offered = append(offered, c.GetCluster())
		}
	}
	switch {
	case len(offered) > 0:
		return "an answer from " + strings.Join(offered, ", ")
	case all[0].GetFits():
		return "the next offer, to " + all[0].GetCluster()
	case all[0].GetRank() > 0:
		return "free capacity in a cluster that may run it"
	}
	return "a cluster that can run it"
}

// money formats an amount in millionths with two digits, and a smaller amount so that it is not shown as nothing.
func money(micros int64) string {
	if micros > 0 && micros < 10_000 {
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", float64(micros)/1e6)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
