package planner

import (
	"fmt"
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// Assignment is the plan for one pod.
type Assignment struct {
	Node     string
	Devices  []int // indexes of its GPUs
	Rank     int
	Fence    int64
	Sequence int64  // orders the plans
	Domain   string // the narrowest domain that holds the whole unit, such as leaf/leaf-1
	Score    int
	// Leader is the pod of the unit that is bound first. Only its binding carries the gang's plan.
	Leader string
	// LeaderBound is true if the leader is bound already.
	LeaderBound bool
	Gang        []watch.PlannedPod
}

// Assignment returns the plan for a pod, or false if there is none.
func (p *Planner) Assignment(uid string) (Assignment, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.pods[uid]
	if o == nil || o.unit == nil || o.unit.fence == 0 || o.unit.leaving {
		return Assignment{}, false
	}
	u := o.unit
	seat := u.seat(o.rank)
	if seat == nil {
		return Assignment{}, false
	}
	a := Assignment{Node: seat.Node, Devices: indexes(seat), Rank: o.rank, Fence: int64(u.fence), Sequence: u.sequence}
	attempt := u.run.Last()
	a.Score = attempt.Score
	if s := attempt.PlacementScore; s.Domain != "" {
		a.Domain = string(s.Level) + "/" + s.Domain
	}
	for _, other := range u.ranks {
		if other != nil {
			a.Leader, a.LeaderBound = other.UID, other.Node != ""
			break
		}
	}
	if a.Leader == uid && len(u.ranks) > 1 {
		for rank, other := range u.ranks {
			if s := u.seat(rank); other != nil && s != nil {
				a.Gang = append(a.Gang, watch.PlannedPod{Pod: other.Name, UID: other.UID, Rank: rank, Node: s.Node, Devices: indexes(s)})
			}
		}
	}
	return a, true
}

// PlannedNode returns the node on which a pod is planned, "" if it has no plan.
func (p *Planner) PlannedNode(uid string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.pods[uid]; o != nil && o.unit != nil && o.unit.fence != 0 && !o.unit.leaving {
		return o.seatNode()
	}
	return ""
}

func indexes(s *ares.SeatStatus) []int {
	out := make([]int, len(s.Shares))
	for i, share := range s.Shares {
		out[i] = share.Index
	}
	return out
}

// Order returns the position of a pod's plan among all plans, and its rank. It reports whether the pod has a plan.
func (p *Planner) Order(uid string) (sequence int64, rank int, planned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.pods[uid]; o != nil && o.unit != nil && o.unit.fence != 0 {
		return o.unit.sequence, o.rank, true
	}
	return 0, 0, false
}

// Arrive records that a pod is ready to be bound. When the last pod of the unit arrives, it returns all pods of the unit
// that wait to be bound.
func (p *Planner) Arrive(uid string) (release []string, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.pods[uid]
	if o == nil || o.unit == nil || o.unit.arrived == nil {
		return nil, false
	}
	o.unit.arrived[uid] = true
	for _, u := range o.unit.party() {
		for _, other := range u.ranks {
			if other == nil || other.Node != "" {
				continue
			}
			if !u.arrived[other.UID] {
				return nil, false
			}
			release = append(release, other.UID)
		}
	}
	return release, true
}

// A pod that could not be bound is tried again on the same node after departDelay, up to departuresBorne times.
const (
	departDelay     = time.Second
	departuresBorne = 3
)

// Depart records that a pod that had arrived cannot be bound now. It is tried again on the same node after a while. If
// that does not help, or the rest of its gang has no plan, the whole gang is planned again, so that it does not keep devices
// for nothing. A gang that is bound in part keeps its plan.
func (p *Planner) Depart(uid string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.pods[uid]
	if o == nil || o.unit == nil || o.Node != "" || o.unit.fence == 0 {
		return
	}
	delete(o.unit.arrived, uid)
	for _, u := range o.unit.party() {
		if u.fence == 0 {
			p.release(o, nil)
			return
		}
	}
	if o.departures++; o.departures > departuresBorne && !o.unit.partyBound() {
		p.release(o, nil) // dissolves the units of the gang
		return
	}
	p.departed = append(p.departed, departure{o, now.Add(departDelay)})
}

// A departure is a pod that could not be bound, and when it is tried again.
type departure struct {
	pod *pod
	at  time.Time
}

// returning returns the pods that are tried again now, and when the next one is due.
func (p *Planner) returning(now time.Time) (refs []Ref, next time.Time) {
	var later []departure
	for _, d := range p.departed {
		switch o := d.pod; {
		case p.pods[o.UID] != o || o.unit == nil || o.unit.fence == 0 || o.Node != "":
		case d.at.After(now):
			later = append(later, d)
		default:
			refs = append(refs, Ref{o.UID, o.Namespace, o.Name})
		}
	}
	p.departed = later
	for _, d := range later {
		next = earlier(next, d.at)
	}
	return refs, next
}

// A node may reject a pod only because this process has not seen yet that another pod has left it. So a rejected pod is
// tried again on the same node a few times, after longer and longer delays, before the node is excluded for it.
const (
	rejectionsBorne = 3
	rejectDelay     = 200 * time.Millisecond // doubled with each rejection
	// excludedFor is how long a node stays excluded for a pod, unless the node changes before.
	excludedFor = time.Minute
)

// Reject records that the cluster does not accept a pod on its planned node. After some tries, the node is excluded for the
// pod for a while. Then, if no pod of the gang is bound, the whole gang is planned again; otherwise only this pod is.
func (p *Planner) Reject(uid string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.pods[uid]
	if o == nil || o.unit == nil || o.Node != "" || o.unit.fence == 0 {
		return
	}
	if o.rejections++; o.rejections <= rejectionsBorne {
		delete(o.unit.arrived, uid)
		p.departed = append(p.departed, departure{o, now.Add(rejectDelay << (o.rejections - 1))})
		return
	}
	o.rejections = 0
	p.exclude(o, o.seatNode(), now)
	p.release(o, nil) // dissolves the units of the gang if none of its pods is bound
	if o.unit != nil {
		o.unit = nil
		p.changed[o.gang] = true
		p.withdrawn = append(p.withdrawn, Ref{o.UID, o.Namespace, o.Name})
	}
}

// exclude keeps a pod from a node for a while.
func (p *Planner) exclude(o *pod, node string, now time.Time) {
	if o.excluded == nil {
		o.excluded = map[string]time.Time{}
	}
	o.excluded[node] = now.Add(excludedFor)
	p.hasExclusions = true
}

// readmitLater lets pods use nodes again whose exclusion is over, and returns when the next one ends.
func (p *Planner) readmitLater(now time.Time) (next time.Time) {
	if !p.hasExclusions {
		return next
	}
	p.hasExclusions = false
	for _, o := range p.pods {
		p.hasExclusions = p.hasExclusions || len(o.excluded) > 0
	}
	for _, u := range p.units {
		if u.fence != 0 {
			continue
		}
		over := false
		for _, o := range u.ranks {
			for name, until := range o.excluded {
				if until.After(now) {
					next = earlier(next, until)
					continue
				}
				delete(o.excluded, name)
				over = true
			}
		}
		if over {
			p.startAgain(u)
		}
	}
	return next
}

// readmit lets pods use a node again that rejected them, because the node changed.
func (p *Planner) readmit(name string) {
	for _, u := range p.units {
		for _, o := range u.ranks {
			if o == nil || u.fence != 0 || o.excluded[name].IsZero() {
				continue
			}
			delete(o.excluded, name)
			p.startAgain(u)
			break
		}
	}
}

func formatFence(f int64) string { return strconv.FormatInt(f, 10) }

// String names a pod for logs.
func (r Ref) String() string { return fmt.Sprintf("%s/%s", r.Namespace, r.Name) }
