package store

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ares-scheduler/ares/store/storepb"
)

// maxDependents bounds the writes of one transaction that accepts jobs which
// come after others: each writes a key, and one for every job before it.
const maxDependents = 100

// apart splits a batch into what may share a transaction: jobs without others
// before them, and groups of those with some.
func apart(batch []*creation) [][]*creation {
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

// awaits compares that the jobs before this one live, and marks them awaited. A
// live job's record is never rewritten, so its revision tells.
func (c *creation) awaits() (cmps []clientv3.Cmp, puts []clientv3.Op) {
	if len(c.after) == 0 {
		return nil, nil
	}
	mark, err := marshal(&storepb.Record{Body: &storepb.Record_Awaited{Awaited: &storepb.Awaited{}}})
	if err != nil {
		panic("store: an empty record does not encode: " + err.Error())
	}
	for id, revision := range c.after { // order-free: a transaction has no order of different keys
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(jobKey(id)), "=", revision))
		puts = append(puts, clientv3.OpPut(awaitedOf(id), mark))
	}
	return cmps, puts
}
