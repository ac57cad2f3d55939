package federation_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// A copied is what a store keeps about the clusters of a hub: their regions by the hub's word, and their nodes by their own.
type copied struct {
	regions map[string]string
	reasons map[string]string // of its state, by the hub's word
	nodes   map[string]int32
}

func copyIn(t *testing.T, s *store.Store, hub *store.Store) copied {
	t.Helper()
	id, _, err := hub.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.ClusterMetadata(t.Context(), id.Store)
	if err != nil {
		t.Fatal(err)
	}
	out := copied{map[string]string{}, map[string]string{}, map[string]int32{}}
	for _, e := range list {
		if e.ByHub {
			c, err := store.DecodeClusterCopy(e.Cluster, e.Value)
			if err != nil {
				t.Fatal(err)
			}
			out.regions[e.Cluster], out.reasons[e.Cluster] = c.Region, c.Reason
			continue
		}
		d := &apipb.ClusterDescription{}
		if err := proto.Unmarshal([]byte(e.Value), d); err != nil {
			t.Fatal(err)
		}
		out.nodes[e.Cluster] = d.GetNodes()
	}
	return out
}

// describe changes what administrators of the hub wrote about a cluster.
func (h *hub) describe(name string, change func(*store.Cluster)) {
	h.t.Helper()
	if _, err := h.s.UpdateCluster(h.t.Context(), name, func(c *store.Cluster) error {
		change(c)
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// A lossyNews is a stream that loses messages about metadata, or sends them again later.
type lossyNews struct {
	grpc.ServerStream

	say  func() int // what becomes of the next one
	late *apipb.HubMessage
}

func (s *lossyNews) SendMsg(m any) error {
	sent, is := m.(*apipb.HubMessage)
	if !is || sent.GetMetadata() == nil {
		return s.ServerStream.SendMsg(m)
	}
	again := s.late
	if again == nil {
		s.late = sent
	}
	switch s.say() {
	case lose:
		return nil
	case repeatLate:
		if again != nil {
			if err := s.ServerStream.SendMsg(m); err != nil {
				return err
			}
			s.late = nil
			return s.ServerStream.SendMsg(again)
		}
	}
	return s.ServerStream.SendMsg(m)
}

const (
	deliver = iota
	lose
	repeatLate // after the message, an earlier one is sent again
)

// TestMetadataConverges changes regions at the hub and nodes in three clusters, while messages are lost and repeated, links are cut
// and the hub is started anew. When the links work again, the hub and all clusters must have the last word of each of them.
func TestMetadataConverges(t *testing.T) {
	var calm atomic.Bool
	var turn atomic.Int64
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &lossyNews{ServerStream: stream, say: func() int {
				if calm.Load() {
					return deliver
				}
				return int(turn.Add(1)*7919/13) % 3
			}})
		}))
	})
	members := []*member{newIdleMember(t, h, "a"), newIdleMember(t, h, "b"), newIdleMember(t, h, "c")}
	want := copied{map[string]string{}, map[string]string{}, map[string]int32{}}
	for step := range 24 {
		m := members[step*step%len(members)]
		want.regions[m.name], want.nodes[m.name] = fmt.Sprintf("region-%d", step), int32(step)
		h.describe(m.name, func(c *store.Cluster) { c.Region = want.regions[m.name] })
		m.nodes.Store(int32(step))
		cut := members[step/6%len(members)]
		switch step % 6 {
		case 1:
			cut.wire.set(true)
			cut.awaitMode(grant.Autonomous)
		case 3:
			cut.wire.set(false)
			cut.awaitMode(grant.Federated)
		case 5:
			h.stop()
			h.start(h.addr)
		}
	}
	calm.Store(true)
	for _, m := range members { // one more session each
		m.wire.set(true)
		m.awaitMode(grant.Autonomous)
		m.wire.set(false)
	}
	for _, m := range members {
		if _, known := want.nodes[m.name]; !known {
			want.nodes[m.name], want.regions[m.name] = 0, ""
		}
	}
	for _, m := range members {
		controltest.Await(t, m.view, m.name+" to have the last words", func() bool {
			got := copyIn(t, m.s, h.s)
			return maps.Equal(got.regions, want.regions) && maps.Equal(got.nodes, want.nodes)
		})
	}
	if got := copyIn(t, h.s, h.s); !maps.Equal(got.nodes, want.nodes) {
		t.Errorf("the hub has %v, want %v", got.nodes, want.nodes)
	}
}

// TestRestoredHubRecalls restores a hub from a backup that does not know cluster b, and has an older region of a. What
// administrators wrote since must come back from the clusters: b gets jobs again without joining again. What is written after the
// restore counts more.
func TestRestoredHubRecalls(t *testing.T) {
	seal := func(cluster string, revision int64, word string) []byte {
		sum := sha256.Sum256(fmt.Append(nil, "key", cluster, revision, word))
		return sum[:]
	}
	for name, forged := range map[string]bool{"own words": false, "words of another hub": true} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, func(h *hub) { h.seal = seal })
			a := newIdleMember(t, h, "a")
			h.awaitKnown("a")
			h.describe("a", func(c *store.Cluster) { c.Region = "old" })
			file := backup(t, h.s)
			b := newIdleMember(t, h, "b")
			h.awaitKnown("b")
			h.describe("a", func(c *store.Cluster) { c.Region = "new" })
			h.describe("b", func(c *store.Cluster) {
				c.Region, c.Labels, c.Prices, c.LocalTenants = "eu", map[string]string{"tier": "gold"}, map[string]int64{"H100": 7}, []string{"lab"}
			})
			h.describe("b", func(c *store.Cluster) { c.Decided, c.Stops, c.Reason = store.ClusterDraining, true, "tired" })
			controltest.Await(t, a.view, "the copies", func() bool { return copyIn(t, a.s, h.s).reasons["b"] == "tired" })
			h.describe("b", func(c *store.Cluster) { c.Decided, c.Stops, c.Reason = store.ClusterReady, false, "rested" })
			controltest.Await(t, b.view, "the later copy", func() bool { return copyIn(t, b.s, h.s).reasons["b"] == "rested" })
			h.stop()

			h.s = restore(t, file)
			if forged {
				h.seal = func(cluster string, revision int64, word string) []byte { return seal("x"+cluster, revision, word) }
			}
			h.start(h.addr)
			b.awaitMode(grant.Federated)
			h.awaitKnown("b")
			get := func(name string) store.Cluster {
				t.Helper()
				c, err := h.s.Cluster(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			c := get("b")
			if forged {
				if c.Decided != store.ClusterCordoned || c.Region != "" || get("a").Region != "old" {
					t.Errorf("the hub believes words that it has not sealed: %+v, %+v", c, get("a"))
				}
				return
			}
			if c.Region != "eu" || c.Labels["tier"] != "gold" || c.Prices["H100"] != 7 || c.Runs("lab") || !c.Runs("other") || get("a").Region != "new" {
				t.Errorf("the restored hub has %+v, %+v", c, get("a"))
			}
			if c.Decided != store.ClusterReady || c.Reason != "rested" {
				t.Errorf("b is %s, %q: it must not stay cordoned", c.Decided, c.Reason)
			}
			id := h.submit(inB)
			controltest.Await(t, h.view, "an offer to b", func() bool {
				grants, _, err := h.s.Grants(t.Context())
				return err == nil && len(grants) == 1 && grants[0].Job == id
			})
			h.describe("b", func(c *store.Cluster) { c.Region = "later" })
			for _, m := range []*member{a, b} {
				controltest.Await(t, m.view, "the words of the restored hub", func() bool { return copyIn(t, m.s, h.s).regions["b"] == "later" })
			}
		})
	}
}
