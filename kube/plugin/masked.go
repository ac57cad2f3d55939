package plugin

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/ares-scheduler/ares/kube/watch"
)

// maskedHandle is the framework's handle with another tracker of claims.
type maskedHandle struct {
	fwk.Handle
	tracker *maskedTracker
}

func (h maskedHandle) SharedDRAManager() fwk.SharedDRAManager {
	return maskedManager{h.Handle.SharedDRAManager(), h.tracker}
}

type maskedManager struct {
	fwk.SharedDRAManager
	tracker *maskedTracker
}

func (m maskedManager) ResourceClaims() fwk.ResourceClaimTracker { return m.tracker }

// maskedTracker is the framework's tracker of claims. Hidden devices look allocated.
type maskedTracker struct {
	fwk.ResourceClaimTracker
	mu     sync.Mutex
	hidden []structured.DeviceID
}

func (t *maskedTracker) hide(list []watch.PoolDevice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hidden = nil
	for _, d := range list {
		t.hidden = append(t.hidden, structured.MakeDeviceID(d.Driver, d.Pool, d.Name))
	}
}

// ListAllAllocatedDevices returns the allocated and the hidden devices.
func (t *maskedTracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	found, err := t.ResourceClaimTracker.ListAllAllocatedDevices()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return found.Clone().Insert(t.hidden...), nil
}

// GatherAllocatedState returns the allocated and the hidden devices.
func (t *maskedTracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	found, err := t.ResourceClaimTracker.GatherAllocatedState()
	if err != nil || found == nil {
		return found, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	masked := *found
	masked.AllocatedDevices = found.AllocatedDevices.Clone().Insert(t.hidden...)
	return &masked, nil
}
