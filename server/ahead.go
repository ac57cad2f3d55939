package server

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// aheadFor is how long the server shows an alert about an agent that claimed a revision of the future.
const aheadFor = time.Hour

// maxAhead limits the nodes that are named in such an alert.
const maxAhead = 8

// The type `aheadNodes` contains the nodes that were refused because they claim to have seen a revision that the store has not
// reached. A claim of an agent never has another effect than the refusal and this alert. If several nodes make such a claim, a
// rollback that the server itself cannot see is likely, for example of the whole machine.
type aheadNodes struct {
	mu    sync.Mutex
	nodes map[string]time.Time // when the node was refused
	more  bool                 // other nodes were refused too
}

// The method `note` records whether the claim of a node was refused.
func (a *aheadNodes) note(node string, refused bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(now)
	if !refused {
		delete(a.nodes, node)
		return
	}
	if a.nodes == nil {
		a.nodes = map[string]time.Time{}
	}
	if _, known := a.nodes[node]; !known && len(a.nodes) >= maxAhead {
		a.more = true
		return
	}
	a.nodes[node] = now
}

func (a *aheadNodes) expire(now time.Time) {
	for node, at := range a.nodes {
		if now.Sub(at) >= aheadFor {
			delete(a.nodes, node)
		}
	}
	a.more = a.more && len(a.nodes) > 0
}

// The method `alert` returns a warning about refused nodes, or "" if there are none.
func (a *aheadNodes) alert(now time.Time) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expire(now); len(a.nodes) == 0 {
		return ""
	}
	names := strings.Join(slices.Sorted(maps.Keys(a.nodes)), ", ")
	if a.more {
		names += " and others"
	}
	return "these nodes get no session, because they report a revision that the store has not reached: " + names +
		". If there are several, the store and this server may both have been rolled back: see the server's log. " +
		"If it is one, its agent's record of the store is wrong, or somebody else controls the node"
}

// revisionClaimed notes the claim of an agent that opens a session.
func (s *Server) revisionClaimed(node string, refused *ares.Error) {
	if refused != nil {
		s.log.Warn("a node gets no session", "node", node, "why", refused)
	}
	s.ahead.note(node, refused != nil, time.Now())
}
