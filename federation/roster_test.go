package federation_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// A noRosters is a stream of the hub that loses rosters while the switch is on.
type noRosters struct {
	grpc.ServerStream

	on *atomic.Bool
}

func (s *noRosters) SendMsg(m any) error {
	if sent, is := m.(*apipb.HubMessage); is && sent.GetRoster() != nil && s.on.Load() {
		return nil
	}
	return s.ServerStream.SendMsg(m)
}

// TestNewMember lets a cluster join whose name the other member has not stored. The hub must offer it nothing until the other
// member has.
func TestNewMember(t *testing.T) {
	rounds := make(chan []string)
	var lost atomic.Bool
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &noRosters{stream, &lost})
		}))
		h.choose = func(job *ares.Job, run *ares.Run, clusters []federation.Candidate) []string {
			var names []string
			for i := range clusters {
				names = append(names, clusters[i].Name)
			}
			select {
			case rounds <- names:
			default:
			}
			return federation.ChooseAny(job, run, clusters)
		}
	})
	a := newIdleMember(t, h, "a")
	a.awaitMode(grant.Federated)
	lost.Store(true)
	id := h.submit(inB)
	b := newMember(t, h, "b")
	close(b.gate)
	b.awaitMode(grant.Federated)
	for range 3 { // the first may be of a round that began before b was connected
		select {
		case names := <-rounds:
			if slices.Contains(names, "b") {
				t.Fatalf("the hub offers jobs to %v, and only the hub knows that b has joined", names)
			}
		case <-time.After(time.Minute):
			t.Fatal("the hub chooses no cluster")
		}
	}
	lost.Store(false)
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	a.wire.set(false)
	h.awaitKnown("b")
	h.await(id, ares.Succeeded)
	kept, err := a.s.Roster(t.Context())
	if err != nil || kept == nil || !slices.ContainsFunc(kept.Clusters, func(e store.RosterEntry) bool { return e.Name == "b" }) {
		t.Errorf("a keeps the roster %+v, %v", kept, err)
	}
}

// TestRosterInHistory runs a hub with history. Even the first cluster must get no job before history has its name.
func TestRosterInHistory(t *testing.T) {
	var down atomic.Bool
	var recorded atomic.Pointer[store.Roster]
	tried := make(chan struct{}, 1)
	down.Store(true)
	h := newHub(t, func(h *hub) {
		h.record = func(_ context.Context, r *store.Roster) error {
			if down.Load() {
				select {
				case tried <- struct{}{}:
				default:
				}
				return errors.New("history does not answer")
			}
			recorded.Store(r)
			return nil
		}
	})
	a := newMember(t, h, "a")
	close(a.gate)
	id := h.submit()
	a.awaitMode(grant.Federated)
	for range 3 {
		<-tried
	}
	if c, err := h.s.Cluster(t.Context(), "a"); err != nil || c.Known {
		t.Errorf("only the hub knows that a has joined, and its record is %+v, %v", c, err)
	}
	down.Store(false)
	h.await(id, ares.Succeeded)
	if r := recorded.Load(); r == nil || len(r.Clusters) != 1 || r.Clusters[0].Name != "a" {
		t.Errorf("history has %+v", r)
	}
	controltest.CaughtUp(t, h.s, h.view)
}
