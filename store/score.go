package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// ScoresAtOnce is how many SaveScores takes: at worst each is a transaction
// inside another, and etcd allows 128 operations in all.
const ScoresAtOnce = 60

// SaveScores keeps how nodes do, and drops the scores of those without any
// samples. A node that was removed is passed over. It compares leadership.
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
		return ares.Errorf(ares.Fenced, "this server leads no more: its scores of nodes were refused")
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
