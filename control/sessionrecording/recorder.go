package sessionrecording

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/asciicast"
	"github.com/ares-scheduler/ares/objects"
)

// Mode says which sessions are recorded.
type Mode string

// The modes.
const (
	Off      Mode = "off"
	Terminal Mode = "terminal" // sessions with a terminal
	All      Mode = "all"      // all commands of sessions; connections to ports are never recorded
)

// Recorder records sessions, and reads recordings. It is safe for concurrent use.
type Recorder struct {
	// Objects stores the recordings. If it is nil, nothing can be recorded, and Disabled says what to set.
	Objects  *objects.Store
	Disabled string
	Mode     Mode
	// MaxBytes limits a recording, and TenantBytes all those of a tenant; 0 for no limit.
	MaxBytes, TenantBytes int64
	// Keep is how long recordings are kept.
	Keep time.Duration
	Log  *slog.Logger
	Now  func() time.Time

	mu   sync.Mutex
	used map[string]*usage // by tenant
}

// Wants reports whether a session is to be recorded. The method works on a nil Recorder, which records nothing.
func (r *Recorder) Wants(hasTerminal bool) bool {
	return r != nil && (r.Mode == All || r.Mode == Terminal && hasTerminal)
}

// The method `ready` returns an error if this server keeps no recordings.
func (r *Recorder) ready() error {
	if r == nil {
		return ares.Errorf(ares.FeatureDisabled, "this server keeps no recordings of sessions: ask a server of the cluster in which the job runs")
	}
	if r.Objects == nil {
		return ares.Errorf(ares.FeatureDisabled, "recordings of sessions: %s", r.Disabled)
	}
	return nil
}

// firstWithin limits how long the begin of a recording takes.
const firstWithin = 10 * time.Second

// Begin begins a recording. It returns when the recording is stored, so that a command whose recording cannot be begun is not
// started. The caller must call End or Discard.
func (r *Recorder) Begin(ctx context.Context, info Info, h asciicast.Header) (*Recording, error) {
	x, err := r.begin(ctx, info, h)
	if err != nil {
		r.Log.Error("the recording of a session could not be begun", "job", info.Job, "user", info.User, "error", err)
		return nil, ares.Errorf(ares.Unavailable, "sessions are recorded here, and the recording could not be begun, so the session was refused: an administrator must see the log of the server")
	}
	return x, nil
}

func (r *Recorder) begin(ctx context.Context, info Info, h asciicast.Header) (*Recording, error) {
	if err := r.ready(); err != nil {
		return nil, err
	}
	if err := checkID(info.ID); err != nil {
		return nil, err
	}
	if !ares.ValidName(info.Tenant) {
		return nil, fmt.Errorf("tenant %q is not a name", ares.Clip(info.Tenant))
	}
	ctx, cancel := context.WithTimeout(ctx, firstWithin)
	defer cancel()
	if err := r.makeRoom(ctx, info.Tenant); err != nil {
		return nil, err
	}
	h.Timestamp = info.Began.Unix()
	x := &Recording{
		r: r, info: info, began: time.Now(), wake: make(chan struct{}, 1), ending: make(chan struct{}), done: make(chan struct{}),
		part: asciicast.AppendHeader(nil, h), isDirty: true, number: 1,
	}
	if err := r.Objects.PutRecordingPart(ctx, x.ref(), infoPart, info.encode()); err != nil {
		return nil, err
	}
	if err := x.store(ctx); err != nil {
		_ = r.Objects.DeleteRecording(ctx, x.ref())
		return nil, err
	}
	go x.run()
	return x, nil
}
