package federation

import ares "github.com/ares-scheduler/ares"

// The method `accepted` notes a new job that the view may not show yet.
func (l *link) accepted(j *ares.Job) {
	if l.arriving == nil {
		l.arriving = map[ares.JobID]*ares.Job{}
	}
	l.arriving[j.ID] = j
}

// loanRooms is what the loans of this cluster's tenants leave for further claims, in thousandths of devices. What runs or
// was claimed before comes first. A plan of one job does not know of the other claims, so it alone would let a cluster claim
// several jobs for the same loan. They would wait here while another cluster has a loan for them.
type loanRooms struct {
	l     *link
	rooms map[string]int64 // by tenant; only those that were asked for
}

func (l *link) loanRooms() *loanRooms {
	for id := range l.arriving { // order-free: a set
		if l.u.view.Job(id) != nil {
			delete(l.arriving, id)
		}
	}
	return &loanRooms{l, map[string]int64{}}
}

func milliOf(j *ares.Job) int64 {
	asks := j.Asks()
	return int64(1000*asks.GPUs + asks.GPUMilli)
}

// hasRoom reports whether the loan of the job's tenant is enough for the job.
func (r *loanRooms) hasRoom(j *ares.Job) bool {
	t := r.l.u.view.Tenant(j.Tenant)
	if t == nil || t.Loan == nil || t.Loan.GPUs >= ares.Unlimited || milliOf(j) == 0 {
		return true
	}
	room, known := r.rooms[j.Tenant]
	if !known {
		room = 1000*int64(t.WithinLoan().Limits.GPUs) - r.taken(j.Tenant)
		r.rooms[j.Tenant] = room
	}
	return milliOf(j) <= room
}

// The method `taken` adds up what the tenant's jobs use, what its claimed jobs wait for, and what is being claimed. The waiting
// jobs are read first: a job that starts meanwhile counts twice, and not never. Jobs that were submitted here compete with a
// claimed job for the loan as for any limit, so the plan of a job knows them.
func (r *loanRooms) taken(tenant string) (sum int64) {
	r.l.u.view.Search(func(j *ares.Job) bool { return j.Tenant == tenant && j.Origin != nil }, func(e *entry) bool {
		if e.Run.Phase.Waiting() && !e.Job.IsArray() && !e.Run.IsHeld(e.Job) {
			sum += milliOf(e.Job)
		}
		return true
	})
	use, _ := r.l.u.view.Use(tenant)
	sum += int64(1000*use.GPUs + use.GPUMilli)
	for _, o := range r.l.offers { // order-free: sums
		if o.claimed && o.job.Tenant == tenant {
			sum += milliOf(o.job)
		}
	}
	for _, j := range r.l.arriving { // order-free: sums
		if j.Tenant == tenant {
			sum += milliOf(j)
		}
	}
	return sum
}

// The method `take` counts a claim that was just sent.
func (r *loanRooms) take(j *ares.Job) {
	if room, known := r.rooms[j.Tenant]; known {
		r.rooms[j.Tenant] = room - milliOf(j)
	}
}
