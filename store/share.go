package store

import (
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// sharedSlots is the number of strings, lists and maps that jobs can share. A table of fixed size needs no
// bookkeeping for removed jobs. If more values than that are in use, some of them are stored more than once.
const sharedSlots = 4096

// maxSharedBytes is the size up to which a string, list or map is shared. The tables keep their values when the jobs are
// gone, so large values would waste more memory than they save.
const maxSharedBytes = 2048

// sharedValues lets decoded jobs share equal strings, lists, maps and placements. Jobs that are submitted in bulk differ in little
// more than their IDs, and each would otherwise have its own copy of its command, image, environment and labels. A
// record read from the store is never changed in place, so sharing is safe.
type sharedValues struct {
	mu      sync.Mutex
	strings [sharedSlots]string
	lists   [sharedSlots][]string
	maps    [sharedSlots]map[string]string
	places  [sharedSlots]*ares.Placement
}

var (
	shared     sharedValues
	sharedSeed = maphash.MakeSeed()
)

// sharedInts holds the values that optional numbers of a spec point to, from 0 to its length. sharedBools holds those of
// optional booleans.
var (
	sharedInts = func() (out [1024]int) {
		for i := range out {
			out[i] = i
		}
		return out
	}()
	sharedBools = [2]bool{false, true}
)

// The method `job` replaces values of a decoded job with equal values of earlier jobs.
func (s *sharedValues) job(j *ares.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range []*string{
		&j.Name, &j.Tenant, &j.Queue, (*string)(&j.PriorityClass), &j.AcceleratorType, &j.GPUModel, &j.MIGProfile, &j.NUMAPolicy,
		&j.Image, &j.WorkingDir, &j.CodeDigest, (*string)(&j.Mode), &j.Checkpoint.Path, &j.Owner,
	} {
		s.string(v)
	}
	for _, v := range []*[]string{&j.Command, &j.Args, &j.Retry.RetryOn, &j.After} {
		s.list(v)
	}
	for _, v := range []*map[string]string{&j.Environment, &j.Labels} {
		s.stringMap(v)
	}
	if !j.HasDefaultPlacement() { // it is shared already
		s.placement(&j.Constraints)
	}
	for _, v := range []**int{&j.Priority, &j.GraceSeconds, &j.Retry.MaxRetries} {
		if n := *v; n != nil && *n >= 0 && *n < len(sharedInts) {
			*v = &sharedInts[*n]
		}
	}
	if b := j.Gang; b != nil {
		j.Gang = &sharedBools[0]
		if *b {
			j.Gang = &sharedBools[1]
		}
	}
}

// The method `text` replaces a string with an equal string of an earlier record.
func (s *sharedValues) text(v *string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.string(v)
}

func (s *sharedValues) string(v *string) {
	if *v == "" || len(*v) > maxSharedBytes {
		return
	}
	slot := &s.strings[maphash.String(sharedSeed, *v)%sharedSlots]
	if *slot != *v {
		*slot = *v
	}
	*v = *slot
}

func (s *sharedValues) list(v *[]string) {
	if len(*v) == 0 {
		return
	}
	sum, size := uint64(0), 0
	for _, e := range *v {
		sum = sum*31 + maphash.String(sharedSeed, e)
		size += len(e)
	}
	if size > maxSharedBytes {
		return
	}
	slot := &s.lists[sum%sharedSlots]
	if !slices.Equal(*slot, *v) {
		for i := range *v {
			s.string(&(*v)[i])
		}
		*slot = slices.Clip(*v) // so that an append to it makes a copy
	}
	*v = *slot
}

func (s *sharedValues) stringMap(v *map[string]string) {
	if len(*v) == 0 {
		return
	}
	sum, size := uint64(0), 0
	for k, e := range *v { // order-free: a sum
		sum += maphash.String(sharedSeed, k) * (maphash.String(sharedSeed, e) | 1)
		size += len(k) + len(e)
	}
	if size > maxSharedBytes {
		return
	}
	slot := &s.maps[sum%sharedSlots]
	if !maps.Equal(*slot, *v) {
		*slot = *v
	}
	*v = *slot
}

func (s *sharedValues) placement(v **ares.Placement) {
	p := *v
	if p == nil {
		return
	}
	sum, size := uint64(0), 0
	add := func(e string) { sum, size = sum*31+maphash.String(sharedSeed, e), size+len(e) }
	for _, e := range []*string{&p.Strategy, &p.RequiredLevel, &p.PreferredLevel, &p.PreferredDomain, &p.NetworkBandwidth, &p.Network} {
		s.string(e)
		add(*e)
	}
	for _, l := range []*[]string{&p.Tolerations, &p.Regions, &p.NodeAffinity, &p.PreferredNodeAffinity, &p.Affinity, &p.AntiAffinity, &p.PreferredAntiAffinity, &p.Clusters} {
		s.list(l)
		for _, e := range *l {
			add(e)
		}
	}
	for _, r := range p.NodeRequirements {
		add(r.String())
	}
	for i := range p.Data {
		add(p.Data[i].URI)
	}
	s.stringMap(&p.NodeSelector)
	for _, k := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		add(k)
		add(p.NodeSelector[k])
	}
	if size > maxSharedBytes {
		return
	}
	slot := &s.places[sum%sharedSlots]
	if !reflect.DeepEqual(*slot, p) {
		*slot = p
	}
	*v = *slot
}
