package store

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ares-scheduler/ares/store/storepb"
)

// maxDependents limits the writes of one transaction that accepts jobs with dependencies. Each job
// writes one key, plus one key for every job it depends on.
const maxDependents = 100

// splitByDependencies splits a batch into groups of jobs. The jobs of one group may share a
// transaction. One group holds the jobs without dependencies, and the other groups hold jobs with
// dependencies.
func splitByDependencies(batch []*creation) [][]*creation {
	var plain, group []*creation
	var out [][]*creation
	writes := 0
	for _, c := range batch {
		if len(c.after) == 0 {
			plain = append(plain, c)
			continue
		}
		if writes += 1 + len(c.after); writes > maxDependents && len(group) > 0 {
			out, group, writes = append(out, group), nil, 1+len(c.after)
		}
		group = append(group, c)
	}
	for _, some := range [][]*creation{plain, group} {
		if len(some) > 0 {
			out = append(out, some)
		}
	}
	return out
}

// This method returns comparisons that check that the job's dependencies are live. The method
// also returns writes that mark each dependency as a job on which other jobs depend. A live
// job's record is never rewritten, so the record's revision identifies the job.
func (c *creation) awaits() (cmps []clientv3.Cmp, puts []clientv3.Op) {
	if len(c.after) == 0 {
		return nil, nil
	}
	mark, err := marshal(&storepb.Record{Body: &storepb.Record_Awaited{Awaited: &storepb.Awaited{}}})
	if err != nil {
		panic("store: an empty record does not encode: " + err.Error())
	}
	for id, revision := range c.after { // order-free: the order of writes to different keys in a transaction does not matter
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(jobKey(id)), "=", revision))
		puts = append(puts, clientv3.OpPut(awaitedKeyOf(id), mark))
	}
	return cmps, puts
}
