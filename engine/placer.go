package engine

import ares "github.com/ares-scheduler/ares"

// Placer finds nodes and devices for the members of a job, and takes them.
type Placer struct {
	cfg     *Config
	cluster *Cluster
	scorer  *Scorer
	jobs    *jobTable
	windows *calendar
	txn     *Txn

	feasibleScratch    set          // scratch of reach
	cycle              int          // counts them
	epoch              int          // counts them too, and what gives room in the middle of one
	placed             []placedJob  // whole jobs
	offer              ares.Placing // of the job whose turn it is
	unschedulableNoted bool         // a shape was noted as refused
	wouldDelay         bool         // the job whose turn it was would fit, and delay one ahead of it
	windowBlocked      bool         // reservations alone keep off the job whose turn it was
	speculative        bool         // what is taken is not as it is: nothing is noted for the rest of the decision
}
