package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// QueueConfig is the order of the jobs in a queue, and what a blocked job means for
// the jobs behind it. The zero value is the default.
type QueueConfig struct {
	// Order is the order of the jobs in a queue.
	Order Order
	// Blocked is what happens to the jobs behind a blocked job.
	Blocked BlockedPolicy
	// Preempt lets a waiting job preempt running jobs of its own queue and class that come
	// later in its order, if it then fits. Only jobs that keep their progress
	// (checkpoint.enabled) are preempted. It needs an Order that gives this right, and
	// cannot be combined with BlockedReserve.
	Preempt bool `json:"Yield"`
	// Attained is the bound of the first of the two levels of OrderAttained, in
	// GPU-seconds; 0 for the default.
	Attained int
	// PeersAfter is how long a job waits, since it was submitted or last preempted, until
	// it may preempt jobs of its own level of OrderAttained that were submitted later.
	// Otherwise a large job could wait for as long as smaller jobs come that fit next to
	// each other. 0 means never. It needs Preempt.
	PeersAfter time.Duration
}

// Order is the order of the jobs in a queue.
type Order string

// The orders. All but the first put higher submitted classes before lower ones, have no
// ageing, and break ties by submission.
const (
	OrderAged         Order = ""                   // by aged priority
	OrderFIFO         Order = "fifo"               // by submission
	OrderShortest     Order = "shortest"           // by predicted runtime (SJF)
	OrderRemaining    Order = "shortest-remaining" // by predicted remaining runtime (SRTF)
	OrderLeastService Order = "least-service"      // by predicted runtime times GPUs (QSSF)
	OrderAttained     Order = "attained"           // jobs with little GPU time so far first (Tiresias)
	OrderDeadline     Order = "edf"                // by deadline, jobs without one last (EDF)
)

// Orders returns the names of the orders in the configuration file.
func Orders() []string {
	return []string{"aged", string(OrderFIFO), string(OrderShortest), string(OrderRemaining), string(OrderLeastService), string(OrderAttained), string(OrderDeadline)}
}

// ParseOrder parses the name of an order.
func ParseOrder(text string) (Order, error) {
	if text == "aged" {
		text = ""
	}
	if text != "" && !slices.Contains(Orders(), text) {
		return "", ares.Errorf(ares.Invalid, "%q is no order: use one of %s", text, strings.Join(Orders(), ", "))
	}
	return Order(text), nil
}

// BlockedPolicy is what happens to the jobs behind a blocked job.
type BlockedPolicy string

// The policies.
const (
	BlockedSkip    BlockedPolicy = ""        // they start if they fit
	BlockedHold    BlockedPolicy = "hold"    // they wait with it (strict FIFO)
	BlockedReserve BlockedPolicy = "reserve" // they start if they do not delay it, by predictions (EASY backfill)
)

// BlockedPolicies returns the names of the policies in the configuration file.
func BlockedPolicies() []string { return []string{"skip", string(BlockedHold), string(BlockedReserve)} }

// ParseBlocked parses the name of a policy.
func ParseBlocked(text string) (BlockedPolicy, error) {
	if text == "skip" {
		text = ""
	}
	if text != "" && !slices.Contains(BlockedPolicies(), text) {
		return "", ares.Errorf(ares.Invalid, "%q is no way to treat those behind a job that waits: use one of %s", text, strings.Join(BlockedPolicies(), ", "))
	}
	return BlockedPolicy(text), nil
}

// NewQueueConfig returns a configuration from names as users write them. It keeps
// invalid names; Check reports them.
func NewQueueConfig(order, blocked string, yield bool, attained int) QueueConfig {
	q := QueueConfig{Order: Order(order), Blocked: BlockedPolicy(blocked), Preempt: yield, Attained: attained}
	if order, err := ParseOrder(order); err == nil {
		q.Order = order
	}
	if blocked, err := ParseBlocked(blocked); err == nil {
		q.Blocked = blocked
	}
	return q
}

// The default and the maximum of QueueConfig.Attained, in GPU-seconds.
const (
	DefaultAttained = 3200
	MaxAttained     = 1_000_000_000
)

// MaxPeersAfter is the maximum of QueueConfig.PeersAfter.
const MaxPeersAfter = 366 * 24 * time.Hour

func (q QueueConfig) validate(p *ares.Problems) {
	if _, err := ParseOrder(string(q.Order)); err != nil {
		p.Add("queue_order", "%s", err)
	}
	if _, err := ParseBlocked(string(q.Blocked)); err != nil {
		p.Add("blocked_jobs", "%s", err)
	}
	if q.Preempt && (q.Order == OrderAged || q.Order == OrderFIFO || q.Order == OrderDeadline) {
		p.Add("preempt_by_order", "needs a queue_order other than aged, fifo and edf: none of these gives a right to stop others")
	}
	if q.Preempt && q.Blocked == BlockedReserve {
		p.Add("preempt_by_order", "cannot be combined with blocked_jobs reserve: a preempted job could be placed again before the job that preempted it")
	}
	if q.Attained < 0 || q.Attained > MaxAttained {
		p.Add("attained_gpu_seconds", "must be between 0 and %d, got %d", MaxAttained, q.Attained)
	}
	if q.Attained != 0 && q.Order != OrderAttained {
		p.Add("attained_gpu_seconds", "means something with queue_order attained only")
	}
	if q.PeersAfter < 0 || q.PeersAfter > MaxPeersAfter {
		p.Add("preempt_peers_after_hours", "must be between 0 and %d, got %d", MaxPeersAfter/time.Hour, q.PeersAfter/time.Hour)
	}
	if q.PeersAfter != 0 && (q.Order != OrderAttained || !q.Preempt) {
		p.Add("preempt_peers_after_hours", "means something with queue_order attained and preempt_by_order only")
	}
}

// AttainedLevel returns the bound between the two levels of OrderAttained, in
// GPU-seconds.
func (q QueueConfig) AttainedLevel() int {
	if q.Attained == 0 {
		return DefaultAttained
	}
	return q.Attained
}

// digest returns the part of Config.Digest, "" for the zero value.
func (q QueueConfig) digest() string {
	if q == (QueueConfig{}) {
		return ""
	}
	text := fmt.Sprintf(" order %s %s %t %d", q.Order, q.Blocked, q.Preempt, q.Attained)
	if q.PeersAfter != 0 { // the default must not change the digest
		text += fmt.Sprintf(" %d", q.PeersAfter)
	}
	return text
}
