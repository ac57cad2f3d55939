package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// Verdict is what was found when decisions were held against the laws.
//
// The law of turns is judged at every decision, from a count of its own: nobody
// is placed while a job of a higher class, or of a poorer tenant in the same
// class, waits that would fit at that moment. Poorer is who has a smaller
// dominant share by weight, of what is held and of decayed past use together,
// by more than rounding could have decided.
//
// The laws of the run as a whole are judged at every decision too: nobody stops a
// job that had stopped it, by itself or by others, while both live.
type Verdict struct {
	Decisions  int      `json:"decisions"` // that placed or stopped somebody
	Placings   int      `json:"placings"`
	Rivals     int      `json:"rivals"`     // waiting lines that preceded a placing, and did not fit
	Unjudged   int      `json:"unjudged"`   // jobs with wishes about where they run: not seen as rivals
	AllLaws    int      `json:"all_laws"`   // decisions that were held against every law
	Stopped    int      `json:"stopped"`    // jobs that gave way to others, each time
	MostStops  int      `json:"most_stops"` // of one job
	Violations int      `json:"violations"` // of any law
	First      []string `json:"first_violations,omitempty"`
}

// violationsTold is how many violations are told; all are counted.
const violationsTold = 10

// Judge has every decision held against the law of turns, and every so many'th
// one that places something against all laws; 0 for none, because each such
// check counts the whole fleet anew. It is called before Run. Policies that
// keep others waiting behind a blocked job break the law of turns as they mean
// to, and the weights of models are not known to it.
func (w *World) Judge(every int) {
	if w.judge != nil {
		return
	}
	w.judge = &judge{
		every: every, state: w.state, ledger: w.keepLedger(), cfg: w.state.Config(), floor: floor{byID: map[string]*standing{}},
		byWant: map[rivalry]*rivals{}, lines: map[*party][]*rivals{}, stops: map[ares.JobID]int{},
	}
	w.ledger.watch = w.judge
	for n := range w.state.Nodes() {
		w.judge.stands(n.Node)
	}
}

// Verdict is what was found, nil without Judge.
func (w *World) Verdict() *Verdict {
	if w.judge == nil {
		return nil
	}
	return &w.judge.out
}

// judge keeps what the law of turns needs: what every tenant holds, who waits,
// and what every machine has left.
type judge struct {
	every  int
	state  *engine.State
	ledger *ledger
	cfg    config.Config
	floor  floor
	byWant map[rivalry]*rivals
	lines  map[*party][]*rivals
	full   map[want]bool // found no place since there was last more room
	run    laws.PreemptionHistory
	stops  map[ares.JobID]int
	out    Verdict
}

// rivals are waiting jobs of one tenant that fare alike, the earliest first.
type rivals struct {
	want   want
	claims []*claim
}

type rivalry struct {
	of   *party
	want want
}

func (j *judge) stands(n *ares.Node) {
	j.floor.stands(n)
	j.full = nil
}

func (j *judge) waits(c *claim) {
	w, plain := wantOf(c.job)
	if !plain || c.of.bound {
		j.out.Unjudged++
		return
	}
	line := j.byWant[rivalry{c.of, w}]
	if line == nil {
		line = &rivals{want: w}
		j.byWant[rivalry{c.of, w}] = line
		j.lines[c.of] = append(j.lines[c.of], line)
	}
	at, there := slices.BinarySearchFunc(line.claims, c, func(a, b *claim) int {
		return cmp.Or(a.job.AcceptedAt.Compare(b.job.AcceptedAt), cmp.Compare(a.job.ID, b.job.ID))
	})
	if !there {
		line.claims = slices.Insert(line.claims, at, c)
	}
}

// first is the earliest that waits, nil for none.
func (r *rivals) first() *claim {
	for len(r.claims) > 0 && !r.claims[0].waiting {
		r.claims[0] = nil
		r.claims = r.claims[1:]
	}
	if len(r.claims) == 0 {
		return nil
	}
	return r.claims[0]
}

func (j *judge) sits(c *claim, seats []*ares.Seat) {
	for _, seat := range c.seats {
		j.floor.take(seat, -1)
	}
	for _, seat := range seats {
		j.floor.take(seat, 1)
	}
	if len(seats) < len(c.seats) {
		j.full = nil
	}
	c.seats = seats
}

// hold a plan against the laws before it is carried out. The state is as it was
// when the plan was made.
func (j *judge) hold(s *engine.State, plan *ares.Plan) {
	j.giveWay(s, plan)
	if len(plan.Place)+len(plan.Stop)+len(plan.Nominate) == 0 {
		return
	}
	j.out.Decisions++
	if j.every > 0 && j.out.Decisions%j.every == 0 {
		j.out.AllLaws++
		for _, v := range laws.Check(s, plan) {
			j.broken(plan.Now, v.Error())
		}
	}
	kept := j.keep(s, plan)
	for i := range plan.Place {
		p := &plan.Place[i]
		if run, ok := s.Run(p.Job); ok && run.Nominated != nil {
			j.seat(p, plan.Now) // it is not its turn that gives it what was kept for it
			continue
		}
		j.turn(p, plan.Now)
	}
	for _, seat := range kept {
		j.floor.take(seat, -1)
	}
	if len(kept) > 0 {
		j.full = nil
	}
}

// giveWay holds who is stopped against the laws of the whole run.
func (j *judge) giveWay(s *engine.State, plan *ares.Plan) {
	before := len(j.run.Preemptions)
	if err := j.run.Observe(s, plan); err != nil {
		j.broken(plan.Now, err.Error())
	}
	for _, gone := range j.run.Preemptions[before:] {
		j.stops[gone.Job]++
		j.out.Stopped++
		j.out.MostStops = max(j.out.MostStops, j.stops[gone.Job])
	}
}

// turn wants nobody to be waiting, with a place, before the one who is placed.
func (j *judge) turn(p *ares.Placing, now time.Time) {
	c := j.ledger.jobs[p.Job]
	if c == nil { // an element of an array: its job comes with its run
		return
	}
	j.out.Placings++
	class := laws.AgedClass(c.job, now, j.step()).Rank()
	least, _ := j.share(c.of, now)
	for _, of := range j.ledger.parties {
		if of == c.of || len(j.lines[of]) == 0 {
			continue
		}
		_, most := j.share(of, now)
		for _, line := range j.lines[of] {
			rival := line.first()
			if rival == nil {
				continue
			}
			its := laws.AgedClass(rival.job, now, j.step()).Rank()
			if its < class || its == class && most >= least {
				continue
			}
			if j.fits(line.want) && !j.delays(rival.job.ID, now) && !j.state.WouldBorrow(rival.job.ID) {
				j.broken(now, fmt.Sprintf("law \"turns\": %s of %s (%.6f) is placed while %s of %s (%.6f) waits and fits", p.Job, c.of.name, least, rival.job.ID, of.name, most))
				continue
			}
			j.out.Rivals++
		}
	}
	j.seat(p, now)
}

// seat counts a placing.
func (j *judge) seat(p *ares.Placing, now time.Time) {
	c := j.ledger.jobs[p.Job]
	if c == nil {
		return
	}
	seats := make([]*ares.Seat, len(p.Seats))
	for i := range p.Seats {
		seats[i] = &p.Seats[i]
	}
	j.ledger.sit(c, seats, now)
	j.ledger.wait(c, false)
}

// keep takes the seats that are kept for jobs, by this plan or before: nobody
// fits there.
func (j *judge) keep(s *engine.State, plan *ares.Plan) (kept []*ares.Seat) {
	placed := map[ares.JobID]bool{}
	for i := range plan.Place {
		placed[plan.Place[i].Job] = true
	}
	for i := range plan.Withdraw {
		placed[plan.Withdraw[i].Job] = true
	}
	for id, n := range s.Nominations() {
		for i := range n.Seats {
			if !placed[id] {
				kept = append(kept, &n.Seats[i])
			}
		}
	}
	for i := range plan.Nominate {
		for k := range plan.Nominate[i].Nomination.Seats {
			kept = append(kept, &plan.Nominate[i].Nomination.Seats[k])
		}
	}
	for _, seat := range kept {
		j.floor.take(seat, 1)
	}
	return kept
}

// delays says whether the job could delay one for which the plan keeps a place:
// it may wait though it fits.
func (j *judge) delays(id ares.JobID, now time.Time) bool {
	ends, known := j.state.ExpectedEnd(id, now)
	return slices.ContainsFunc(j.state.PlannedStarts(), func(p ares.Promise) bool {
		return p.Job != id && (!known || p.At.IsZero() || ends.After(p.Latest))
	})
}

// step is how long a job waits for a point of priority, 0 where nobody ages.
func (j *judge) step() time.Duration {
	if j.cfg.Queue.Order != config.OrderAged {
		return 0
	}
	return j.cfg.AgeingStep
}

// fits remembers who does not, as long as room is only taken.
func (j *judge) fits(w want) bool {
	w.priority = 0
	if j.full[w] {
		return false
	}
	if j.floor.fits(&w) {
		return true
	}
	if j.full == nil {
		j.full = map[want]bool{}
	}
	j.full[w] = true
	return false
}

// share is what a tenant has by weight: at least, and at most, because the
// engine keeps past use in whole units and for a limited time.
func (j *judge) share(p *party, now time.Time) (least, most float64) {
	const cut = 1.0 / 10_000
	p.age(now, j.cfg.HalfLife)
	for r, all := range j.ledger.capacity {
		if all == 0 {
			continue
		}
		slack := [3]float64{2, 2, 1024}[r]
		held := float64(p.held[r])
		least = max(least, (held+max(p.past[r]*(1-cut)-slack, 0))/float64(all)/p.weight)
		above := p.past[r]*(1+cut) + slack
		if p.past[r] == 0 {
			above = 0
		}
		most = max(most, (held+above)/float64(all)/p.weight)
	}
	return least, most
}

func (j *judge) broken(now time.Time, what string) {
	j.out.Violations++
	if len(j.out.First) < violationsTold {
		j.out.First = append(j.out.First, fmt.Sprintf("after %s: %s", now.Sub(Epoch), what))
	}
}
