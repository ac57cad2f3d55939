package queue

import (
	"fmt"
	"strings"

	"github.com/ares-scheduler/ares"
)

// Bound is a limit or a quota that bounds a leaf queue, with its figures.
type Bound struct {
	Tenant, Queue string // its scope: Queue is "" for a tenant, and both are "" for the pool of all quotas
	Kind          BoundKind
	Resource      string // the resource of a limit, or the model of a quota ("" for all GPUs)
	Used, Limit   int64  // of a quota in thousandths of a GPU
	Requested     int64
}

// BoundKind says which rule bounds.
type BoundKind string

// The kinds.
const (
	LimitBound BoundKind = "limit" // a hard limit
	QuotaBound BoundKind = "quota" // nominal quota plus borrowing limit
	PoolBound  BoundKind = "pool"  // other quotas lend nothing more
)

// Scope names the scope of the rule for users.
func (b Bound) Scope() string {
	switch {
	case b.Queue != "":
		return "queue " + ares.QueueID(b.Tenant, b.Queue)
	case b.Tenant != "":
		return "tenant"
	}
	return "cluster"
}

// String describes the rule and its figures for users.
func (b Bound) String() string {
	if b.Kind == LimitBound {
		return fmt.Sprintf("%s limit: %s %d of %d used, %d asked", b.Scope(), b.Resource, b.Used, b.Limit, b.Requested)
	}
	of := "GPUs"
	if b.Resource != "" {
		of = b.Resource + " GPUs"
	}
	if b.Kind == PoolBound {
		return fmt.Sprintf("all quotas together: %s of %s %s used or kept, %s asked", formatGPUs(b.Used), formatGPUs(b.Limit), of, formatGPUs(b.Requested))
	}
	return fmt.Sprintf("%s quota: %s of %s %s used, %s asked", b.Scope(), formatGPUs(b.Used), formatGPUs(b.Limit), of, formatGPUs(b.Requested))
}

// formatGPUs formats thousandths of a device as a number of devices.
func formatGPUs(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0")
}

// Shortfall is a limit or quota that leaves a leaf queue too little.
type Shortfall struct {
	Tenant, Queue string // its scope; Queue is "" for a tenant
	Resource      string // the name of a limit, or the model pattern of a quota
	By            int64  // how much is missing; of a quota in thousandths of a GPU
}
