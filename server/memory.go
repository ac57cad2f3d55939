package server

import (
	"os"
	"runtime"
	"runtime/debug"
	goruntime "runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"
)

// These values decide how much garbage may accumulate beside the live objects before it is collected.
const (
	collectEvery = 5 * time.Second // the aim; more often if the process allocates very fast
	minGarbage   = 32 << 20
	maxGarbage   = 384 << 20 // or as much as the live objects, if they take more: Go's default
	maxGCPercent = 400       // of the live objects, for a small heap

	// hubMaxGarbage is maxGarbage for a hub. A hub has less to do than a cluster and should fit beside other programs: with it, a
	// hub with a hundred clusters needs less than 512 MiB.
	hubMaxGarbage = 128 << 20

	// loadGCPercent applies while a server loads its state. The heap then grows to its final size and has a lot of
	// garbage beside it. The more of it there is, the more memory is lost to fragmentation and to the collector's own
	// tables, for as long as the process lives. Collections hardly delay the start, because most of them happen while
	// the heap is small.
	loadGCPercent = 100
)

// TuneMemory makes garbage collections rarer while the heap is small, and the process small while it is idle. By
// default, Go collects garbage when the heap has doubled. Most allocations of a scheduler are short-lived, and its heap
// is small, so this would cost a quarter of its time. With a large heap, a multiple of it would be gigabytes of garbage,
// so the garbage is limited to what the process allocates in a few seconds. When the process approaches three quarters
// of the machine's memory, it collects garbage as often as needed. While a server loads its state, loadGCPercent applies.
// The environment variables GOGC and GOMEMLIMIT take precedence.
func TuneMemory() {
	if total := memoryBytes(); total > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(total / 4 * 3)
	}
	if os.Getenv("GOGC") == "" {
		tuneOnce.Do(func() {
			debug.SetGCPercent(loadGCPercent)
			go tuneForever()
		})
	}
}

var (
	tuneOnce   sync.Once
	loadedOnce sync.Once
	loaded     = make(chan uint64, 1) // gets the limit of the garbage when a server of this process has loaded its state
)

// stateLoaded tells the process that a server has loaded its state, and how much garbage it may have.
func stateLoaded(maxGarbage uint64) { loadedOnce.Do(func() { loaded <- maxGarbage }) }

// gcPercent returns the value of GOGC for a heap with the given size of live objects, the bytes that are allocated in one
// second, and the limit of the garbage.
func gcPercent(live, perSecond, maxGarbage uint64) int {
	garbage := min(max(perSecond*uint64(collectEvery/time.Second), minGarbage, live/8), max(maxGarbage, live))
	if live == 0 {
		return maxGCPercent
	}
	return int(min(garbage*100/live, maxGCPercent))
}

// idleCheck is the interval at which the process looks for memory that it no longer needs.
const idleCheck = 10 * time.Second

// tuneForever adapts GOGC to the heap and to the rate of allocations, and returns unused memory to the system. It ends
// with the process.
func tuneForever() {
	garbage := <-loaded
	if readHeap().hasReturn() {
		debug.FreeOSMemory() // the state was decoded from records that are no longer needed
	}
	collected := make(chan struct{}, 1)
	notifyCollections(collected)
	idle := time.NewTicker(idleCheck)
	percent, was, checked := loadGCPercent, readHeap(), readHeap()
	for {
		select {
		case <-collected:
		case <-idle.C:
			now := readHeap()
			if now.isIdle(now.allocated - checked.allocated) {
				debug.FreeOSMemory()
			}
			checked = now
		}
		now := readHeap()
		took := now.at.Sub(was.at)
		if took < 50*time.Millisecond {
			continue // too short to know the rate
		}
		perSecond := uint64(float64(now.allocated-was.allocated) / took.Seconds())
		was = now
		// A change stops all goroutines for a moment, so small ones are left out.
		if want := gcPercent(now.live, perSecond, garbage); want < percent*9/10 || want > percent*11/10 {
			percent = want
			debug.SetGCPercent(percent)
		}
	}
}

// notifyCollections sends to the channel after each garbage collection. The finalizer of an unreachable object runs
// after the collection that finds it, and then makes the object unreachable again.
func notifyCollections(to chan<- struct{}) {
	type mark struct{ _ *byte } // with a pointer, it is not allocated together with other objects
	var again func(*mark)
	again = func(m *mark) {
		select {
		case to <- struct{}{}:
		default: // a notice is already waiting
		}
		runtime.SetFinalizer(m, again)
	}
	runtime.SetFinalizer(&mark{}, again)
}

// heapUse is the memory of the heap in bytes.
type heapUse struct {
	live      uint64 // objects that the last collection found in use
	unneeded  uint64 // memory of the process that no live object uses: garbage and free memory
	allocated uint64 // all allocations since the process started
	at        time.Time
}

// minReturned is the smallest amount of memory that is worth a collection to return it to the system.
const minReturned = 32 << 20

// isIdle reports whether memory should be returned to the system. The argument is the number of bytes that were
// allocated since the last check. A busy process needs its memory again soon, so it keeps it.
func (h heapUse) isIdle(allocated uint64) bool { return h.hasReturn() && allocated < h.unneeded }

// hasReturn reports whether there is enough memory to return to the system.
func (h heapUse) hasReturn() bool { return h.unneeded > max(minReturned, h.live/8) }

// readHeap reads the current state of the heap.
func readHeap() heapUse {
	s := []goruntime.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"},
	}
	goruntime.Read(s)
	v := func(i int) uint64 {
		if s[i].Value.Kind() != goruntime.KindUint64 {
			return 0 // this version of Go does not have it
		}
		return s[i].Value.Uint64()
	}
	live, objects := v(0), v(1)
	return heapUse{live: live, unneeded: max(objects, live) - live + v(2), allocated: v(3), at: time.Now()}
}

// memoryBytes returns the size of the machine's memory, or 0 if it cannot be read.
func memoryBytes() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}
