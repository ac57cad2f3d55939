package queue

import (
	"fmt"
	"strings"

	"github.com/ares-scheduler/ares"
)

// Bound describes a limit or a quota that applies to a leaf queue, with its current numbers.
type Bound struct {
	Tenant, Queue string // its scope: Queue is "" for a tenant, and both are "" for the pool of all quotas
	Kind          BoundKind
	Resource      string // the resource of a limit, or the model of a quota ("" for all GPUs)
	Used, Limit   int64  // for a quota, in thousandths of a GPU
	Requested     int64
}

// BoundKind says whether a bound is a limit, a quota or the pool of all quotas.
type BoundKind string

// These are the kinds of bounds.
const (
	LimitBound BoundKind = "limit" // a hard limit
	QuotaBound BoundKind = "quota" // nominal quota plus borrowing limit
	PoolBound  BoundKind = "pool"  // other quotas lend nothing more
)

// Text describes the rule and its numbers for users.
func (b Bound) Text() ares.Text {
	scope := ares.ScopeRef(b.Tenant, b.Queue)
	if b.Kind == LimitBound {
		return ares.Textf("%s limit: %s %d of %d used, %d requested", scope, b.Resource, b.Used, b.Limit, b.Requested)
	}
	of := "GPUs"
	if b.Resource != "" {
		of = b.Resource + " GPUs"
	}
	if b.Kind == PoolBound {
		return ares.Textf("all quotas together: %s of %s %s used or guaranteed, %s requested", formatGPUs(b.Used), formatGPUs(b.Limit), of, formatGPUs(b.Requested))
	}
	return ares.Textf("%s quota: %s of %s %s used, %s requested", scope, formatGPUs(b.Used), formatGPUs(b.Limit), of, formatGPUs(b.Requested))
}

// formatGPUs takes an amount in thousandths of a device and formats it as a number of devices.
func formatGPUs(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0")
}

// Shortfall describes a limit or quota that has too little left for a request of a leaf queue.
type Shortfall struct {
	Tenant, Queue string // its scope; Queue is "" for a tenant
	Resource      string // the name of a limit, or the model pattern of a quota
	By            int64  // the missing amount; for a quota in thousandths of a GPU
}
