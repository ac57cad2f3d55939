package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// QueueConfig sets the order of the jobs in a queue, and what happens to the jobs behind a blocked job. The zero
// value orders by aged priority and skips blocked jobs. Default has another order; see defaultQueue.
type QueueConfig struct {
	// Order is the order of the jobs in a queue.
	Order Order
	// Blocked says what happens to the jobs behind a blocked job.
	Blocked BlockedPolicy
	// Preempt allows a waiting job to preempt running jobs of its own queue and class. The preempted jobs must
	// be behind the waiting job in the order, and the waiting job must fit once they have stopped. Only jobs
	// that keep their progress (checkpoint.enabled) are preempted. Preempt requires an Order that allows
	// preemption, and it cannot be combined with BlockedReserve.
	Preempt bool `json:"Yield"`
	// Attained is the GPU time at which a job changes from the first to the second level of
	// OrderAttained, in GPU-seconds; 0 means the default.
	Attained int
	// PeersAfter is a waiting time that is counted from a job's submission or its last preemption. With
	// OrderAttained, a job that has waited for longer than PeersAfter may preempt jobs of its own level that
	// were submitted later. If PeersAfter is 0, jobs of the same level are never preempted, and a large job
	// could wait for as long as smaller jobs keep arriving. PeersAfter requires Preempt.
	PeersAfter time.Duration
	// OverdueAfter is the waiting time after which a job is overdue. With OrderExpectedWork, the overdue jobs of a
	// queue start before its other jobs, oldest first, as long as they fit. The value 0 means never.
	OverdueAfter time.Duration `json:",omitempty"`
	// OverdueShare is the share of the queue's GPUs, in percent, up to which overdue jobs come first: the GPUs of
	// running jobs that were overdue when they were placed count. While there is none, one overdue job always comes
	// first, so that a small queue serves its overdue jobs too.
	OverdueShare int `json:",omitempty"`
}

// defaultQueue returns the default configuration of queues. The values come from measurements; see
// docs/guide/queueorder.md.
func defaultQueue() QueueConfig {
	return QueueConfig{Order: OrderExpectedWork, OverdueAfter: 7 * 24 * time.Hour, OverdueShare: 10}
}

// Order is the order of the jobs in a queue.
type Order string

// These are the available orders. OrderAged raises the priority of a job while it waits. OrderExpectedWork raises
// jobs of classes below normal to class normal while they wait, and puts urgent deadlines first in their class. All
// other orders sort jobs by the priority class at submission, then by the criterion in the list below, then by
// submission time.
const (
	OrderExpectedWork Order = "expected-work"      // by predicted remaining runtime
	OrderAged         Order = ""                   // by aged priority
	OrderFIFO         Order = "fifo"               // by submission
	OrderShortest     Order = "shortest"           // by predicted runtime (SJF)
	OrderRemaining    Order = "shortest-remaining" // by predicted remaining runtime (SRTF)
	OrderLeastService Order = "least-service"      // by predicted runtime times GPUs (QSSF)
	OrderAttained     Order = "attained"           // first the jobs that have used little GPU time so far (Tiresias)
	OrderDeadline     Order = "edf"                // by deadline, jobs without one last (EDF)
)

// Orders returns the names of the orders in the configuration file.
func Orders() []string {
	return []string{string(OrderExpectedWork), "aged", string(OrderFIFO), string(OrderShortest), string(OrderRemaining), string(OrderLeastService), string(OrderAttained), string(OrderDeadline)}
}

// ParseOrder parses the name of an order.
func ParseOrder(text string) (Order, error) {
	if text == "aged" {
		text = ""
	}
	if text != "" && !slices.Contains(Orders(), text) {
		return "", ares.Errorf(ares.Invalid, "%q is not a valid queue order: use one of %s", text, strings.Join(Orders(), ", "))
	}
	return Order(text), nil
}

// BlockedPolicy says what happens to the jobs behind a blocked job.
type BlockedPolicy string

// These policies are available for blocked jobs.
const (
	BlockedSkip    BlockedPolicy = ""        // they start if they fit
	BlockedHold    BlockedPolicy = "hold"    // they wait behind it (strict FIFO)
	BlockedReserve BlockedPolicy = "reserve" // they start if, according to predictions, they do not delay it (EASY backfill)
)

// BlockedPolicies returns the names of the policies in the configuration file.
func BlockedPolicies() []string { return []string{"skip", string(BlockedHold), string(BlockedReserve)} }

// ParseBlocked parses the name of a policy.
func ParseBlocked(text string) (BlockedPolicy, error) {
	if text == "skip" {
		text = ""
	}
	if text != "" && !slices.Contains(BlockedPolicies(), text) {
		return "", ares.Errorf(ares.Invalid, "%q is not a valid policy for blocked jobs: use one of %s", text, strings.Join(BlockedPolicies(), ", "))
	}
	return BlockedPolicy(text), nil
}

// NewQueueConfig returns a configuration from the names that users write. NewQueueConfig accepts invalid names, and
// Check reports them later.
func NewQueueConfig(order, blocked string, yield bool, attained int) QueueConfig {
	q := QueueConfig{Order: Order(order), Blocked: BlockedPolicy(blocked), Preempt: yield, Attained: attained}
	if order, err := ParseOrder(order); err == nil {
		q.Order = order
	}
	if q.Order == OrderExpectedWork {
		q.OverdueAfter, q.OverdueShare = defaultQueue().OverdueAfter, defaultQueue().OverdueShare
	}
	if blocked, err := ParseBlocked(blocked); err == nil {
		q.Blocked = blocked
	}
	return q
}

// These are the default and the maximum of QueueConfig.Attained, in GPU-seconds.
const (
	DefaultAttained = 3200
	MaxAttained     = 1_000_000_000
)

// MaxPeersAfter is the maximum of QueueConfig.PeersAfter, and MaxOverdueAfter that of QueueConfig.OverdueAfter.
const (
	MaxPeersAfter   = 366 * 24 * time.Hour
	MaxOverdueAfter = 366 * 24 * time.Hour
)

func (q QueueConfig) validate(p *ares.Problems) {
	if _, err := ParseOrder(string(q.Order)); err != nil {
		p.Add("queue_order", "%s", err)
	}
	if _, err := ParseBlocked(string(q.Blocked)); err != nil {
		p.Add("blocked_jobs", "%s", err)
	}
	if q.Preempt && (q.Order == OrderExpectedWork || q.Order == OrderAged || q.Order == OrderFIFO || q.Order == OrderDeadline) {
		p.Add("preempt_by_order", "needs a queue_order other than expected-work, aged, fifo and edf: none of these gives a right to stop others")
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
	if q.OverdueAfter < 0 || q.OverdueAfter > MaxOverdueAfter {
		p.Add("overdue_after_hours", "must be between 0 and %d, got %d", MaxOverdueAfter/time.Hour, q.OverdueAfter/time.Hour)
	}
	if q.OverdueShare < 0 || q.OverdueShare > 100 {
		p.Add("overdue_share_percent", "must be between 0 and 100, got %d", q.OverdueShare)
	}
	if q.PeersAfter != 0 && (q.Order != OrderAttained || !q.Preempt) {
		p.Add("preempt_peers_after_hours", "means something with queue_order attained and preempt_by_order only")
	}
}

// AttainedLevel returns the GPU time at which a job changes from the first to the second level of
// OrderAttained, in GPU-seconds.
func (q QueueConfig) AttainedLevel() int {
	if q.Attained == 0 {
		return DefaultAttained
	}
	return q.Attained
}

// The method `digest` returns the part of Config.Digest that describes the queue configuration. The result is
// "" for the zero value.
func (q QueueConfig) digest() string {
	if q == (QueueConfig{}) {
		return ""
	}
	text := fmt.Sprintf(" order %s %s %t %d", q.Order, q.Blocked, q.Preempt, q.Attained)
	if q.PeersAfter != 0 { // the default must not change the digest
		text += fmt.Sprintf(" %d", q.PeersAfter)
	}
	if q.OverdueAfter != 0 {
		text += fmt.Sprintf(" overdue %d %d", q.OverdueAfter, q.OverdueShare)
	}
	return text
}
