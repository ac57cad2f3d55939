package cache

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// PhasesIn counts the live jobs in some tenants and queues by phase. If the list of scopes is nil, PhasesIn counts the jobs
// of all tenants. A job is counted once, even if several scopes contain it.
func (v *View) PhasesIn(scopes []history.Scope) map[ares.Phase]int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := map[ares.Phase]int{}
	wholes, queues := map[string]bool{}, map[string]bool{}
	for _, s := range scopes {
		if s.Queue == "" {
			wholes[s.Tenant] = true
		}
	}
	for _, s := range scopes {
		if s.Queue != "" && !wholes[s.Tenant] {
			queues[ares.QueueID(s.Tenant, s.Queue)] = true
		}
	}
	for k, n := range v.counts { // order-free: a sum
		if scopes == nil || wholes[k.tenant] {
			out[k.phase] += n
		}
	}
	for queue := range queues { // order-free: a sum
		for _, phase := range ares.Phases() {
			out[phase] += v.inQueue[countKey{queue, phase, false}] + v.inQueue[countKey{queue, phase, true}]
		}
	}
	return out
}
