package store

import (
	"context"
	"maps"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store/storepb"
)

// storedGrant is the grant of a node and the revision of the record that holds it. The revision is 0
// if the node has no such record, because it connects with the shared node token.
type storedGrant struct {
	grant    ares.NodeGrant
	revision int64
}

// readGrant returns the grant of a node. It may return a grant that was read before. A transaction
// that depends on the grant must therefore compare its revision, and delete the remembered grant if
// the comparison fails.
func (s *Store) readGrant(ctx context.Context, node string) (g storedGrant, remembered bool, err error) {
	if known, ok := s.grants.Load(node); ok {
		return known.(storedGrant), true, nil
	}
	got, err := s.get(ctx, joinedNodeKey(node))
	if err != nil {
		return g, false, err
	}
	if len(got.Kvs) > 0 {
		rec, err := unmarshal(joinedNodeKey(node), got.Kvs[0].Value)
		if err != nil {
			return g, false, err
		}
		g = storedGrant{rec.GetJoined().GetGrant().Grant(), got.Kvs[0].ModRevision}
	}
	s.grants.Store(node, g)
	return g, false, nil
}

// admitNode checks what a node claims against its grant. It returns the node's record with the granted
// labels, and the comparison that the record depends on.
func (s *Store) admitNode(ctx context.Context, node ares.Node) (value string, granted clientv3.Cmp, err error) {
	g, remembered, err := s.readGrant(ctx, node.ID)
	if err != nil {
		return "", granted, err
	}
	admitted, err := g.grant.Admit(node, s.cfg.ReservedLabels)
	if err != nil && remembered { // another server may have granted more
		s.grants.Delete(node.ID)
		if g, _, err = s.readGrant(ctx, node.ID); err == nil {
			admitted, err = g.grant.Admit(node, s.cfg.ReservedLabels)
		}
	}
	if err != nil {
		return "", granted, err
	}
	admitted.SessionCut = false
	value, err = marshal(&storepb.Record{Body: &storepb.Record_Node{Node: apipb.NewNodeInfo(&admitted)}})
	return value, clientv3.Compare(clientv3.ModRevision(joinedNodeKey(node.ID)), "=", g.revision), err
}

// GrantChange is the effect of LabelNode on a node's grant.
type GrantChange struct {
	Before, After ares.NodeGrant
	Revision      int64
}

// LabelNode sets and removes labels in a node's grant. If the node is connected, its record gets the
// labels at once. If the node reports a removed label itself, the label returns with the node's next
// report, unless its key is reserved.
func (s *Store) LabelNode(ctx context.Context, node string, set map[string]string, remove []string) (GrantChange, error) {
	return Retry(maxTries, func() (c GrantChange, err error) {
		keys := []string{joinedNodeKey(node), nodeKey(node), sessionKey(node)}
		var reads []clientv3.Op
		for _, key := range keys {
			reads = append(reads, clientv3.OpGet(key))
		}
		resp, err := s.txn(ctx, "read node", nil, reads, nil)
		if err != nil {
			return c, err
		}
		var revisions [3]int64
		var records [3]*storepb.Record
		var same []clientv3.Cmp
		for i, key := range keys {
			if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
				revisions[i] = kvs[0].ModRevision
				if records[i], err = unmarshal(key, kvs[0].Value); err != nil {
					return c, err
				}
			}
			same = append(same, clientv3.Compare(clientv3.ModRevision(key), "=", revisions[i]))
		}
		joined, record, session := records[0], records[1], records[2]
		if joined == nil && record == nil {
			return c, ares.Errorf(ares.NotFound, "there is no node %s: list the nodes with `ares node list`", node).At("node_id")
		}
		if joined == nil {
			joined = &storepb.Record{Body: &storepb.Record_Joined{Joined: &storepb.Joined{}}}
		}
		c.Before = joined.GetJoined().GetGrant().Grant()
		c.After, c.Revision = c.Before.Relabelled(set, remove), resp.Header.Revision
		if err = c.After.Check("grant"); err != nil || len(set) == 0 && len(remove) == 0 {
			return c, err
		}
		writes, err := labelWrites(node, joined, record, session != nil, &c)
		if err != nil {
			return c, err
		}
		if resp, err = s.txn(ctx, "label node", same, writes, nil); err != nil {
			return c, err
		}
		if !resp.Succeeded {
			return c, Conflict{ares.Errorf(ares.Exhausted, "label node %s: the node's record keeps changing: try again", node)}
		}
		s.grants.Delete(node)
		c.Revision = resp.Header.Revision
		return c, nil
	})
}

// labelWrites returns the writes of a change of labels. The record of a node without a session is not
// written, so that a running timer for the node's loss continues. Its next session gets the labels.
func labelWrites(node string, joined, record *storepb.Record, connected bool, c *GrantChange) ([]clientv3.Op, error) {
	grant := apipb.NewNodeGrant(c.After)
	if grant != nil && joined.GetJoined().GetGrant() != nil {
		copyUnknownFields(grant, joined.GetJoined().GetGrant())
	}
	joined.GetJoined().Grant = grant
	value, err := marshal(joined)
	if err != nil {
		return nil, err
	}
	writes := []clientv3.Op{clientv3.OpPut(joinedNodeKey(node), value)}
	if record == nil || !connected {
		return writes, nil
	}
	info := record.GetNode()
	labels := maps.Clone(info.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	for k := range c.Before.Labels {
		if _, stays := c.After.Labels[k]; !stays {
			delete(labels, k)
		}
	}
	maps.Copy(labels, c.After.Labels)
	if len(labels) > ares.MaxLabels {
		return nil, ares.Errorf(ares.Invalid, "labels: a node has at most %d labels, and node %s would have %d: remove some with `ares node label %s KEY-`", ares.MaxLabels, node, len(labels), node).At("labels")
	}
	info.Labels = labels
	value, err = marshal(record)
	return append(writes, clientv3.OpPut(nodeKey(node), value)), err
}
