package federation

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/store"
)

// These are the states in which a cluster gets no offers, as kinds of blockers. The states that an administrator decides have
// the names that store.ClusterState gives them.
const (
	unreachable choose.BlockerKind = "unreachable"
	flapping    choose.BlockerKind = "flapping"
	unlisted    choose.BlockerKind = "unlisted"
	restored    choose.BlockerKind = "restored"
)

// closedBy returns why a cluster gets no offers, or an empty blocker if it gets them. The text `to` says to what the cluster is
// connected or not. The reasons that an administrator gave are not in the result: every user may read it.
func closedBy(c *store.Cluster, connected bool, to string) choose.Blocker {
	detail := ""
	switch c.Decided {
	case store.ClusterReady:
	case store.ClusterRegistered:
		detail = "it has not joined yet"
	case store.ClusterCordoned:
		detail = "it is cordoned"
	case store.ClusterDraining:
		detail = "it is being drained"
	case store.ClusterDead:
		detail = "it was declared dead"
	case store.ClusterLeft:
		detail = "it has left the hub"
	default:
		detail = "it is " + string(c.Decided)
	}
	switch {
	case detail != "":
		return choose.Blocker{Kind: choose.BlockerKind(c.Decided), Detail: detail}
	case !connected && c.Unreachable && !c.HealthSince.IsZero():
		return choose.Blocker{Kind: unreachable, Detail: "it cannot be reached since " + c.HealthSince.UTC().Format(time.RFC3339)}
	case !connected:
		return choose.Blocker{Kind: unreachable, Detail: "it is not connected " + to}
	case c.Damped:
		return choose.Blocker{Kind: flapping, Detail: "its connection was lost too often: it gets no offers until the connection was stable for a while, or until an administrator runs `ares cluster uncordon " + c.Name + "`"}
	case !c.Known:
		return choose.Blocker{Kind: unlisted, Detail: "it is new, and its name is not stored outside of the hub yet"}
	}
	return choose.Blocker{}
}

// Outlook returns what the hub expects of each cluster for a job that no cluster owns, the best first. The run is nil if the job is
// only planned, and the prediction is nil if there is none. Every server of the hub can answer: the leader by its sessions, and
// another server by the connections over which the clusters answer its users.
func (h *Hub) Outlook(ctx context.Context, job *ares.Job, run *ares.Run, predicted *ares.RuntimePredicted) ([]*apipb.ClusterOutlook, error) {
	if h.Chooser == nil {
		return nil, nil
	}
	list, err := h.Store.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	verdicts := h.verdicts(list, job, run, predicted)
	now, g := h.Now(), (*ares.Grant)(nil)
	if run != nil {
		g = h.grant(job.ID)
	}
	out := make([]*apipb.ClusterOutlook, 0, len(verdicts))
	for i := range verdicts {
		m := newOutlook(&verdicts[i], now)
		m.Offered = g != nil && g.IsOpenTo(m.GetCluster())
		out = append(out, m)
	}
	return out, nil
}

// The method `verdicts` asks the Chooser, after it was told what is known of the clusters.
func (h *Hub) verdicts(list []store.Cluster, job *ares.Job, run *ares.Run, predicted *ares.RuntimePredicted) []choose.Verdict {
	h.choosing.Lock()
	defer h.choosing.Unlock()
	if t := h.term.Load(); t != nil {
		t.mu.Lock()
		for i := range list {
			h.showCluster(&list[i], t.known(&list[i]))
		}
		t.mu.Unlock()
	} else {
		for i := range list {
			h.showCluster(&list[i], h.knownHere(&list[i]))
		}
	}
	return h.Chooser.Explain(job, run, predicted)
}

// The verdicts of a ClusterOutlook.
const (
	verdictChosen    = "chosen"
	verdictCandidate = "candidate"
	verdictPossible  = "possible"
	verdictBlocked   = "blocked"
)

func newOutlook(v *choose.Verdict, now time.Time) *apipb.ClusterOutlook {
	m := &apipb.ClusterOutlook{Cluster: v.Cluster, Region: v.Region, Verdict: verdictBlocked, Rank: int32(v.Rank)}
	for _, b := range v.Blockers {
		m.Blockers = append(m.Blockers, &apipb.ClusterBlocker{Kind: string(b.Kind), Detail: b.Detail})
	}
	if v.Best == nil {
		return m
	}
	switch v.Rank {
	case 0:
		m.Verdict = verdictPossible
	case 1:
		m.Verdict = verdictChosen
	default:
		m.Verdict = verdictCandidate
	}
	cost := v.Best.Cost
	m.GpuModel, m.Fits, m.StartsAt = v.Best.Model, v.Best.Fits, apipb.Timestamp(now.Add(v.Best.Quote.StartDelay))
	m.Cost = &apipb.ClusterCost{
		TotalMicros: cost.Total(), ComputeMicros: cost.Compute, EgressMicros: cost.Egress, WaitingMicros: cost.Waiting, TransferMicros: cost.Transfer,
	}
	return m
}
