package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// ScoresAtOnce is the maximum number of node scores for one call of SaveScores. In the worst case
// each score needs a nested transaction, and etcd allows 128 operations in total.
const ScoresAtOnce = 60

// SaveScores stores the scores of nodes, and deletes each score that has no samples. SaveScores
// skips nodes that were removed. SaveScores fails if another server has become leader.
func (s *Store) SaveScores(ctx context.Context, lead *Leadership, scores []ares.NodeScore) error {
	each := make([]clientv3.Op, len(scores))
	for i := range scores {
		node := scores[i].Node
		op := clientv3.OpDelete(scoreKey(node))
		if scores[i].Samples > 0 {
			value, err := marshal(scoreRecord(&scores[i]))
			if err != nil {
				return err
			}
			op = clientv3.OpPut(scoreKey(node), value)
		}
		known := clientv3.Compare(clientv3.CreateRevision(nodeKey(node)), ">", 0)
		each[i] = clientv3.OpTxn([]clientv3.Cmp{known}, []clientv3.Op{op}, nil)
	}
	resp, err := s.txn(ctx, "keep scores of nodes", []clientv3.Cmp{lead.leads()}, each, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Fenced, "this server is no longer the leader: its node scores were rejected")
	}
	return err
}

func scoreRecord(r *ares.NodeScore) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Score{Score: &storepb.Score{
		Score: int64(r.Score), Samples: r.Samples, Failures: r.Failures, Own: r.Own, Slowdown: int64(r.Slowdown), Timed: r.Timed, Logs: r.Logs,
		Stragglers: r.Stragglers, Gangs: r.Gangs, At: micros(r.At), Until: micros(r.Until), Families: r.Families, Why: r.Why,
	}}}
}

func scoreOf(m *storepb.Score, node string, revision int64) *ares.NodeScore {
	return &ares.NodeScore{
		Node: node, Score: int(m.GetScore()), Samples: m.GetSamples(), Failures: m.GetFailures(), Own: m.GetOwn(),
		Slowdown: int(m.GetSlowdown()), Timed: m.GetTimed(), Logs: m.GetLogs(), Stragglers: m.GetStragglers(), Gangs: m.GetGangs(),
		At: fromMicros(m.GetAt()), Until: fromMicros(m.GetUntil()), Families: m.GetFamilies(), Why: m.GetWhy(), Revision: revision,
	}
}
