package robustness_test

import (
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/chaos/recorder"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// A `tempter` injects faults into a fleet. Several tempters do so at the same time, on different machines.
type tempter struct {
	*inject.Injector
	fleet *fleet
	scene *scene
}

// A `scene` is the state that all tempters share. For example, it holds the machines that
// they have reserved.
type scene struct {
	inject.Reserved
	restores []trace.Restore
	rec      *recorder.Recorder
}

// This method reserves a node for one fault. The function `release` ends the reservation.
func (t *tempter) worker() (i int, release func(), ok bool) {
	i = t.IntN(nodes)
	return t.reserve(i, t.fleet.workers)
}

// This method reserves a machine of the control plane. A fault affects only one of the
// three control-plane machines at a time. An exception is a fault that itself involves
// several machines.
func (t *tempter) control() (i int, release func(), ok bool) {
	if !t.scene.Take("control") {
		return 0, nil, false
	}
	return t.IntN(members), func() { t.scene.Drop("control") }, true
}

func (t *tempter) reserve(i int, among []*machines.Machine) (int, func(), bool) {
	name := among[i].Name
	if !t.scene.Take(name) {
		return 0, nil, false
	}
	return i, func() { t.scene.Drop(name) }, true
}
