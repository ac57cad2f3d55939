package sessionrecording

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/asciicast"
	"github.com/ares-scheduler/ares/objects"
)

const (
	// flushEvery is how often a recording is stored, and so the most that is lost when the server is killed.
	flushEvery = 5 * time.Second
	// partBytes is the size from which a part is complete. Smaller ones are replaced by the next ones.
	partBytes = 256 << 10
	// maxWaiting limits the output of one session that is not stored yet. When half of it is used, the writer begins at once.
	maxWaiting = 512 << 10
	// eventBytes is the memory that an event takes besides its data.
	eventBytes = 64
	// lastWithin limits how long the end of a session waits for its recording. The user has been told of the end by then.
	lastWithin = 10 * time.Second
)

// Stream is one of the outputs of a command.
type Stream int

// The outputs. With a terminal, there is only the first one.
const (
	Output Stream = iota
	Errors
	streams
)

// Recording is the recording of a session. Its methods are called concurrently, and none but End and Discard waits.
type Recording struct {
	r     *Recorder
	began time.Time // with a monotonic clock, for the times of events
	wake  chan struct{}
	// ending is closed by End and Discard, and done when the goroutine has ended after that.
	ending, done chan struct{}

	mu      sync.Mutex
	info    Info
	waiting []event
	size    int // of what is waiting, at most maxWaiting
	isFull  bool
	isOver  bool
	discard bool

	// Only the goroutine uses these.
	joiners [streams]asciicast.Joiner
	part    []byte // the last part
	isDirty bool   // the last part has something that is not stored
	number  int    // of the last part
	stored  int64  // bytes of complete parts
	marked  bool   // the recording says that it ends before the session
}

// An event is output, a new size, or a gap.
type event struct {
	at     time.Duration
	kind   asciicast.Kind
	stream Stream
	data   []byte
	lost   int64 // of a gap: bytes of output that did not fit
}

// The method `output` returns the number of bytes of output in an event.
func (e *event) output() int64 {
	if e.kind != asciicast.Output {
		return 0
	}
	return int64(len(e.data))
}

// ID returns the ID of the recording.
func (x *Recording) ID() string { return x.info.ID }

func (x *Recording) ref() objects.RecordingRef {
	return objects.RecordingRef{Tenant: x.info.Tenant, ID: x.info.ID}
}

// Print records output. It keeps the data, which the caller must not change.
func (x *Recording) Print(s Stream, data []byte) {
	x.add(event{kind: asciicast.Output, stream: s, data: data})
}

// Resize records the new size of the terminal.
func (x *Recording) Resize(columns, rows int) {
	x.add(event{kind: asciicast.Resize, data: []byte(asciicast.Size(columns, rows))})
}

func (x *Recording) add(e event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch size := len(e.data) + eventBytes; {
	case x.isOver:
		return
	case x.isFull:
		x.info.Missing += e.output()
		return
	case x.size+size > maxWaiting:
		x.lose(e.output())
	default:
		e.at = time.Since(x.began)
		x.waiting, x.size = append(x.waiting, e), x.size+size
	}
	if x.size >= maxWaiting/2 {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

// The method `lose` counts output that does not fit. One event stands for all that is lost until the writer catches up.
func (x *Recording) lose(n int64) {
	x.info.Missing += n
	if last := len(x.waiting) - 1; last >= 0 && x.waiting[last].kind == asciicast.Marker {
		x.waiting[last].lost += n
		return
	}
	x.waiting = append(x.waiting, event{at: time.Since(x.began), kind: asciicast.Marker, lost: n})
}

// End ends the recording, and returns what is missing in it, or "" if it is complete. The result says how the session ended.
func (x *Recording) End(result string) (missing string) {
	x.mu.Lock()
	x.isOver, x.info.Result, x.info.Ended = true, result, x.r.Now()
	x.mu.Unlock()
	if !x.finish() {
		return "its end was not stored"
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.info.Missing > 0 {
		return fmt.Sprintf("%d bytes of output are missing", x.info.Missing)
	}
	return ""
}

// Discard deletes the recording of a session that did not begin.
func (x *Recording) Discard() {
	x.mu.Lock()
	x.isOver, x.discard = true, true
	x.mu.Unlock()
	x.finish()
}

// The method `finish` waits for the goroutine. It does not wait for a storage that hangs.
func (x *Recording) finish() bool {
	close(x.ending)
	timer := time.NewTimer(lastWithin)
	defer timer.Stop()
	select {
	case <-x.done:
		return !x.isDirty
	case <-timer.C:
		return false
	}
}

// The method `run` stores what is recorded until the end.
func (x *Recording) run() {
	defer close(x.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-x.wake:
		case <-tick.C:
		case <-x.ending:
			x.last()
			return
		}
		if err := x.write(context.Background()); err != nil {
			x.r.Log.Warn("the recording of a session is not stored, and tried again", "recording", x.info.ID, "error", err)
		}
	}
}

// The method `last` stores the end of the recording, or deletes it.
func (x *Recording) last() {
	ctx := context.Background()
	if x.discard {
		if err := x.r.Objects.DeleteRecording(ctx, x.ref()); err != nil {
			x.r.Log.Warn("an empty recording was not deleted", "recording", x.info.ID, "error", err)
		}
		return
	}
	err := x.write(ctx)
	if err == nil {
		for i := range x.joiners {
			x.append(asciicast.AppendOutput(nil, time.Since(x.began), x.joiners[i].End()), 0)
		}
		err = x.store(ctx)
	}
	if err == nil {
		x.mu.Lock()
		x.info.Bytes = x.stored + int64(len(x.part))
		data := x.info.encode()
		x.mu.Unlock()
		err = x.r.Objects.PutRecordingPart(ctx, x.ref(), infoPart, data)
	}
	if x.isDirty = err != nil; x.isDirty {
		x.r.Log.Error("the end of the recording of a session was not stored", "recording", x.info.ID, "error", err)
	}
}

// The method `write` stores what is waiting. If an earlier part could not be stored, it tries that first, and takes nothing from the
// buffer, whose limit holds.
func (x *Recording) write(ctx context.Context) error {
	if err := x.store(ctx); err != nil {
		return err
	}
	x.mu.Lock()
	waiting := x.waiting
	x.waiting, x.size = nil, 0
	x.mu.Unlock()
	for _, e := range waiting {
		var line []byte
		switch e.kind {
		case asciicast.Output:
			line = asciicast.AppendOutput(nil, e.at, x.joiners[e.stream].Next(e.data))
		case asciicast.Marker:
			line = asciicast.AppendEvent(nil, asciicast.Event{At: e.at, Kind: e.kind, Data: fmt.Sprintf("%d bytes of output are missing", e.lost)})
		default:
			line = asciicast.AppendEvent(nil, asciicast.Event{At: e.at, Kind: e.kind, Data: string(e.data)})
		}
		x.append(line, e.output())
	}
	return x.store(ctx)
}

// The method `append` adds a line to the last part, if the recording may have it.
func (x *Recording) append(line []byte, output int64) {
	if limit := x.r.MaxBytes; limit > 0 && x.stored+int64(len(x.part)+len(line)) > limit {
		x.mu.Lock()
		x.isFull, x.info.Missing = true, x.info.Missing+output
		x.mu.Unlock()
		if x.marked {
			return
		}
		x.marked = true
		line = asciicast.AppendEvent(nil, asciicast.Event{At: time.Since(x.began), Kind: asciicast.Marker, Data: fmt.Sprintf("the recording ends here, because it has reached its limit of %d MiB", limit>>20)})
	}
	x.part, x.isDirty = append(x.part, line...), x.isDirty || len(line) > 0
}

// The method `store` stores the last part. If it is complete, the next one begins.
func (x *Recording) store(ctx context.Context) error {
	if !x.isDirty {
		return nil
	}
	if err := x.r.Objects.PutRecordingPart(ctx, x.ref(), partName(x.number), x.part); err != nil {
		return err
	}
	x.isDirty = false
	if len(x.part) >= partBytes {
		x.r.grow(x.info.Tenant, int64(len(x.part)))
		x.stored, x.part, x.number = x.stored+int64(len(x.part)), nil, x.number+1
	}
	return nil
}

// partName returns the name of a part. The names have a fixed length, so that lists are in order.
func partName(number int) string { return fmt.Sprintf("%06d", number) }
