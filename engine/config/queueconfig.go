package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// QueueConfig is what orders the jobs of a queue, and what one that finds no place
// means for those behind it. The zero value is the default.
type QueueConfig struct {
	// Order is what orders the jobs of a queue.
	Order Order
	// Blocked is what becomes of those behind a job that finds no place.
	Blocked BlockedPolicy
	// Yield lets a waiting job stop running ones of its own queue and class
	// that come later in its order, if it then fits. Only jobs that keep their
	// progress (checkpoint.enabled) give way. It needs an Order, and does not go
	// with BlockedReserve.
	Preempt bool `json:"Yield"`
	// Attained is up to how many GPU-seconds a job is of the first of the two
	// levels of OrderAttained.
	Attained int
	// PeersAfter is how long a job waits, since it was submitted or last gave way,
	// until it may stop those of its own level of OrderAttained that were
	// submitted after it: else one that asks for much could wait for as long as
	// smaller ones come that fit beside each other. 0 for never. It needs Yield.
	PeersAfter time.Duration
}

// Order is what orders the jobs of a queue.
type Order string

// The orders. All but the first put higher classes, as they were submitted,
// before lower ones, know no ageing, and let submission decide between equals.
const (
	OrderAged         Order = ""                   // by aged priority
	OrderFIFO         Order = "fifo"               // by submission
	OrderShortest     Order = "shortest"           // by predicted runtime (SJF)
	OrderRemaining    Order = "shortest-remaining" // by what is left of it (SRTF)
	OrderLeastService Order = "least-service"      // by predicted runtime times GPUs (QSSF)
	OrderAttained     Order = "attained"           // those that had little GPU time so far before the others (Tiresias)
	OrderDeadline     Order = "edf"                // by deadline, those without one last (EDF)
)

// Orders lists what may be written for an order.
func Orders() []string {
	return []string{"aged", string(OrderFIFO), string(OrderShortest), string(OrderRemaining), string(OrderLeastService), string(OrderAttained), string(OrderDeadline)}
}

// ParseOrder reads an order as people write it.
func ParseOrder(text string) (Order, error) {
	if text == "aged" {
		text = ""
	}
	if text != "" && !slices.Contains(Orders(), text) {
		return "", ares.Errorf(ares.Invalid, "%q is no order: use one of %s", text, strings.Join(Orders(), ", "))
	}
	return Order(text), nil
}

// BlockedPolicy is what becomes of those behind a job that finds no place.
type BlockedPolicy string

// What becomes of them.
const (
	BlockedSkip    BlockedPolicy = ""        // it is passed over: whoever fits, starts
	BlockedHold    BlockedPolicy = "hold"    // they wait with it (strict FIFO)
	BlockedReserve BlockedPolicy = "reserve" // they start if it is not delayed by it, as far as predictions tell (EASY backfill)
)

// BlockedPolicies lists what may be written for it.
func BlockedPolicies() []string { return []string{"skip", string(BlockedHold), string(BlockedReserve)} }

// ParseBlocked reads it as people write it.
func ParseBlocked(text string) (BlockedPolicy, error) {
	if text == "skip" {
		text = ""
	}
	if text != "" && !slices.Contains(BlockedPolicies(), text) {
		return "", ares.Errorf(ares.Invalid, "%q is no way to treat those behind a job that waits: use one of %s", text, strings.Join(BlockedPolicies(), ", "))
	}
	return BlockedPolicy(text), nil
}

// NewQueueConfig reads it as people write it. What makes no sense is for Check to
// tell.
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

// Bounds of the first level of OrderAttained, and its default.
const (
	DefaultAttained = 3200
	MaxAttained     = 1_000_000_000
)

// MaxPeersAfter bounds Queueing.PeersAfter.
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
		p.Add("preempt_by_order", "does not go with blocked_jobs reserve: who gives way could be put right back, before the one it gave way to")
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

// AttainedLevel is the bound between the two levels of OrderAttained, in GPU-seconds.
func (q QueueConfig) AttainedLevel() int {
	if q.Attained == 0 {
		return DefaultAttained
	}
	return q.Attained
}

// digest is what tells it apart from others, "" for the default: so the digests
// of those who never heard of it stay what they were.
func (q QueueConfig) digest() string {
	if q == (QueueConfig{}) {
		return ""
	}
	text := fmt.Sprintf(" order %s %s %t %d", q.Order, q.Blocked, q.Preempt, q.Attained)
	if q.PeersAfter != 0 { // else as it ever was
		text += fmt.Sprintf(" %d", q.PeersAfter)
	}
	return text
}
