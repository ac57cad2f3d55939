package sim

import (
	"container/heap"
	"math/rand/v2"
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// federation simulates the clusters of several regions and a hub in one virtual time. A cluster is a World. Messages
// between hub and clusters take half a round trip. With ChooseOne there is one cluster and no hub.
type federation struct {
	spec    Regions
	choose  string
	policy  Policy
	regions []region
	members []*regionMember
	hub     *regionHub // nil if jobs are bound when they arrive
	random  *rand.Rand

	now      time.Time
	jobs     []regionJob
	next     int // index of the next arrival
	messages messageHeap
	sent     int
	unended  int
}

// regionMember is one cluster.
type regionMember struct {
	of     *federation
	index  int
	world  *World
	jobOf  []int // job of the federation by number of the cluster's job
	home   map[string]int
	offers map[int]*regionOffer
	// work is the work of the jobs that wait here, in thousandths of GPUs × time, and waiting is their number.
	work    float64
	waiting int

	changed  bool // since the last look at the open offers
	due      bool // a summary is on its way
	lastSent time.Time
}

func newFederation(r Regions, choose string, p Policy, whole *Fleet, regions []region) *federation {
	s := &federation{spec: r, choose: choose, policy: p, regions: regions, now: Epoch, random: rand.New(rand.NewPCG(r.Seed, 0xfed))} //nolint:gosec // reproducible on purpose
	if choose == ChooseOne {
		s.addMember(whole)
		for i := range regions {
			for _, n := range regions[i].fleet.nodes {
				s.members[0].home[n.ID] = i
			}
		}
		return s
	}
	for i := range regions {
		s.addMember(regions[i].fleet)
	}
	if choose == ChooseBoth || choose == ChooseSummary {
		s.hub = newRegionHub(s)
	}
	return s
}

func (s *federation) addMember(f *Fleet) {
	m := &regionMember{of: s, index: len(s.members), world: NewWorld(f, s.policy), offers: map[int]*regionOffer{}, home: map[string]int{}}
	m.world.moved = m.moved
	s.members = append(s.members, m)
}

// load takes the jobs of a trace and returns how many no region can run. Data that must stay in a region which cannot
// run its job may leave it after all, so that every way to choose has the same jobs.
func (s *federation) load(t *Trace) (left int) {
	checks := make([]*engine.StaticFeasibility, len(s.regions))
	for i := range s.regions {
		checks[i] = engine.NewStaticFeasibility()
		var events []ares.Event
		for _, n := range s.regions[i].fleet.nodes {
			events = append(events, ares.Event{Node: n})
		}
		checks[i].Apply(ares.Batch{Revision: 1, Events: events})
	}
	for _, a := range t.Arrivals {
		j := regionJob{arrival: a, data: s.spec.dataOf(&a), at: Epoch.Add(a.At - t.Arrivals[0].At), feasible: make([]bool, len(s.regions))}
		any := false
		for i := range checks {
			j.feasible[i] = checks[i].Infeasible(a.Spec.WithDefaults(), true) == nil
			any = any || j.feasible[i]
		}
		if !any || a.Runs <= 0 {
			left++
			continue
		}
		j.data.resident = j.data.resident && j.feasible[j.data.home]
		s.jobs = append(s.jobs, j)
	}
	s.unended = len(s.jobs)
	return left
}

// run simulates until every job has ended.
func (s *federation) run() error {
	for s.unended > 0 {
		at, ok := s.nextTime()
		if !ok {
			return ares.Errorf(ares.Invalid, "%d of %d jobs never start", s.unended, len(s.jobs))
		}
		s.now = at
		for s.next < len(s.jobs) && !s.jobs[s.next].at.After(at) {
			s.arrive(s.next)
			s.next++
		}
		for len(s.messages) > 0 && !s.messages[0].at.After(at) {
			heap.Pop(&s.messages).(message).do()
		}
		for _, m := range s.members {
			if err := m.advance(); err != nil {
				return err
			}
		}
		if s.hub != nil {
			s.hub.decide()
		}
	}
	return nil
}

// nextTime returns the time of the next arrival, message, end or decision.
func (s *federation) nextTime() (time.Time, bool) {
	var at time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if s.next < len(s.jobs) {
		earlier(s.jobs[s.next].at)
	}
	if len(s.messages) > 0 {
		earlier(s.messages[0].at)
	}
	for _, m := range s.members {
		earlier(m.world.nextTime(nil, false, 0))
	}
	return at, !at.IsZero()
}

// arrive handles a job that a user submits.
func (s *federation) arrive(job int) {
	j := &s.jobs[job]
	switch s.choose {
	case ChooseOne:
		s.members[0].submit(job)
	case ChooseRandom:
		s.bindTo(s.pick(j, func(int) float64 { return s.random.Float64() }), job)
	case ChooseNearest: // the home is nearest, and then the region with the shortest round trip
		s.bindTo(s.pick(j, func(i int) float64 {
			if i == j.data.home {
				return -1
			}
			return s.regions[i].roundTrip.Seconds()
		}), job)
	case ChooseBid:
		s.askAll(job)
	default:
		s.hub.submit(job)
	}
}

// pick returns the region with the lowest figure among those in which the job may run.
func (s *federation) pick(j *regionJob, figure func(region int) float64) int {
	best, least := -1, 0.0
	for i := range s.regions {
		if !j.mayRun(i) {
			continue
		}
		if f := figure(i); best < 0 || f < least {
			best, least = i, f
		}
	}
	return best
}

// bindTo sends a job to a cluster, where it waits.
func (s *federation) bindTo(region, job int) {
	s.send(s.regions[region].roundTrip/2, func() { s.members[region].submit(job) })
}

// send delivers a message after a delay.
func (s *federation) send(after time.Duration, do func()) {
	s.sent++
	heap.Push(&s.messages, message{s.now.Add(after), s.sent, do})
}

// submit adds a job to a cluster.
func (m *regionMember) submit(job int) {
	j := &m.of.jobs[job]
	m.world.now = m.of.now
	m.jobOf = append(m.jobOf, job)
	m.work += j.work()
	m.waiting++
	a := j.arrival
	if j.data.resident && m.of.choose == ChooseOne { // in one big cluster, a region is a label of nodes
		a.Spec.EditPlacement().Regions = []string{m.of.regions[j.data.home].name}
	}
	m.world.arrive(&a)
	m.changed = true
}

// work is the job's GPU time, in thousandths of GPUs × seconds.
func (j *regionJob) work() float64 {
	return float64(max(j.arrival.Spec.Members, 1)*max(1000*j.arrival.Spec.GPUs, j.arrival.Spec.GPUMilli)) * j.arrival.Runs.Seconds()
}

// moved is called when a job of the cluster starts or ends.
func (m *regionMember) moved(r *record) {
	n, err := strconv.Atoi(string(r.id[len("job-"):]))
	if err != nil {
		panic("sim: unknown job " + string(r.id))
	}
	job := m.jobOf[n]
	j := &m.of.jobs[job]
	if r.ended.IsZero() {
		m.work -= j.work()
		m.waiting--
		j.started, j.region = m.of.now, m.index
		return
	}
	if run, ok := m.world.state.Run(r.id); ok && m.of.choose == ChooseOne && run.Last() != nil && len(run.Last().Seats) > 0 {
		j.region = m.home[run.Last().Seats[0].Node]
	}
	j.ended = m.of.now
	m.of.unended--
	if h := m.of.hub; h != nil {
		m.of.send(m.of.regions[m.index].roundTrip/2, func() { h.ended(job) })
	}
}

// advance brings a cluster to the present: attempts end, waiting jobs start, and its open offers are looked at again.
func (m *regionMember) advance() error {
	w, now := m.world, m.of.now
	due := len(w.ends) > 0 && !w.ends[0].at.After(now) || !w.wake.IsZero() && !w.wake.After(now)
	if !due && !m.changed {
		return nil
	}
	w.now, w.changed = now, false
	for len(w.ends) > 0 && !w.ends[0].at.After(now) {
		if _, err := w.handleEnd(heap.Pop(&w.ends).(attemptEnd)); err != nil {
			return err
		}
	}
	w.flush()
	if _, err := w.decide(); err != nil {
		return err
	}
	m.changed = false
	if m.of.hub != nil {
		m.of.hub.lookAtOffers(m)
		m.sendSummary()
	}
	return nil
}

// message is delivered at a time. Messages of one time are delivered in the order in which they were sent.
type message struct {
	at     time.Time
	number int
	do     func()
}

type messageHeap []message

func (h messageHeap) Len() int { return len(h) }
func (h messageHeap) Less(i, j int) bool {
	if c := h[i].at.Compare(h[j].at); c != 0 {
		return c < 0
	}
	return h[i].number < h[j].number
}
func (h messageHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *messageHeap) Push(x any)   { *h = append(*h, x.(message)) }
func (h *messageHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
