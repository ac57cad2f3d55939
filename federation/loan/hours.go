package loan

import "time"

// Spender is what the hub knows about the GPU-hours of one tenant in one cluster. Amounts are GPU-seconds of this month.
type Spender struct {
	Name    string
	Loan    int // what the cluster may use in a month, according to the hub's record
	Used    int // as far as the hub knows; more than the loan if jobs were running when it was used up
	Running int // devices that the tenant's jobs use there now
	Devices int // that the cluster has
	// Fixed is true if the loan cannot be changed now: the cluster is not connected, or has another month.
	Fixed bool
	// Closed is true if the cluster gets no new jobs. It keeps what its own jobs need.
	Closed bool
}

// A loan is refilled to what the jobs there use in the time `ahead` when it has less than a half of that left. So a running job
// causes few changes, and a cluster that is cut off can start jobs for a while.
const ahead = 3600

// DivideHours returns what the loan of each cluster should be, in the order of the spenders. The budget is that of the whole
// month, and `left` the time until the end of the month: a cluster gets no more than its devices can use until then. The wants
// are waiting jobs, in devices.
//
// What was used is gone, so a cluster keeps it. Then come the jobs that run, then the jobs that wait, the oldest first. What
// remains stays where it is, and what was lent to nobody is divided.
//
// Invariants: the sum is at most the budget if the fixed loans and the use allow it, and otherwise no loan grows. A fixed loan
// does not change. A loan never becomes smaller than what was used of it.
func DivideHours(budget int, spenders []Spender, wants []Want, left time.Duration, now time.Time) []int {
	clusters := make([]Cluster, len(spenders))
	index := make(map[string]int, len(spenders))
	demand := make([]int, len(spenders)) // devices that waiting jobs want, in the first cluster that they can get them in
	var parts []Want
	for i := range spenders {
		s := &spenders[i]
		index[s.Name] = i
		run := ahead * s.Running
		c := &clusters[i]
		*c = Cluster{Name: s.Name, Loan: s.Loan, Used: s.Used + run, Capacity: s.Used + s.Devices*max(int(left/time.Second), ahead), Fixed: s.Fixed, Closed: s.Closed}
		if rest := s.Loan - s.Used; !s.Fixed && (rest < 0 || rest < run/2) {
			parts = append(parts, Want{Clusters: []string{s.Name}, GPUs: run - rest, Parts: true, ID: s.Name}) // Since is zero: it comes first
		}
	}
	first := func(w *Want) int {
		for _, name := range w.Clusters {
			if i, known := index[name]; known && !spenders[i].Fixed {
				return i
			}
		}
		return -1
	}
	for i := range wants {
		if at := first(&wants[i]); at >= 0 {
			demand[at] += wants[i].GPUs
		}
	}
	for i := range wants {
		w := wants[i]
		at := first(&w)
		if at < 0 {
			continue
		}
		secs := ahead * w.GPUs
		if c := &clusters[at]; c.Loan-c.Used >= ahead*demand[at]/2 {
			secs /= 2
		}
		w.GPUs, w.Parts = secs, true
		parts = append(parts, w)
	}
	return Divide(budget, clusters, parts, now)
}
