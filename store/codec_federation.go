package store

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

func originHub(o *ares.Origin) string {
	if o == nil {
		return ""
	}
	return o.Hub
}

func originEpoch(o *ares.Origin) int64 {
	if o == nil {
		return 0
	}
	return o.Epoch
}

// grantRecord encodes a grant. The argument `base` is the run before the job was bound; it is nil for an offer. An epoch
// of 0 stands for the revision at which the record is created.
func grantRecord(g *ares.Grant, base *ares.Run) *storepb.Record {
	m := &storepb.JobGrant{
		State: string(g.State), Epoch: g.Epoch, Clusters: g.Clusters, Cluster: g.Cluster, Incarnation: g.Incarnation, At: micros(g.At),
	}
	if base != nil {
		m.Base = runRecord(base).GetRun()
	}
	return &storepb.Record{Body: &storepb.Record_JobGrant{JobGrant: m}}
}

func grantOf(m *storepb.JobGrant, id ares.JobID, created, revision int64) (g ares.Grant, base ares.Run) {
	g = ares.Grant{
		Job: id, State: ares.GrantState(m.GetState()), Epoch: m.GetEpoch(), Clusters: m.GetClusters(),
		Cluster: m.GetCluster(), Incarnation: m.GetIncarnation(), At: fromMicros(m.GetAt()), Revision: revision,
	}
	if g.Epoch == 0 {
		g.Epoch = created
	}
	if m.GetBase() != nil {
		base = bareRun(m.GetBase())
	}
	return g, base
}

// bareRun decodes a run that is part of another record, so that it has no revision of its own.
func bareRun(m *storepb.Run) ares.Run {
	return runOf(&storepb.Record{Body: &storepb.Record_Run{Run: m}}, 0)
}
