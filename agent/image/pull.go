//go:build linux

package image

import (
	"context"
	"sync"
	"time"
)

// Progress says how far a pull is.
type Progress struct {
	Layers, OfLayers int
	Bytes, OfBytes   int64
}

// progressEvery is the time between two reports of a pull.
const progressEvery = time.Second

// A tracker adds up the progress of the layers of one pull.
type tracker struct {
	mu       sync.Mutex
	ofLayers int
	layers   int
	ready    int64 // bytes of complete layers
	ofBytes  int64
	running  map[*fetch]bool
}

func (t *tracker) follow(f *fetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[f] = true
}

// The method `done` counts a layer that is in the store.
func (t *tracker) done(size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.layers, t.ready = t.layers+1, t.ready+size
}

func (t *tracker) progress() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Progress{Layers: t.layers, OfLayers: t.ofLayers, Bytes: t.ready, OfBytes: t.ofBytes}
	for f := range t.running {
		select {
		case <-f.done: // counted in ready, now or soon
		default:
			p.Bytes += f.read.Load()
		}
	}
	p.Bytes = min(p.Bytes, p.OfBytes)
	return p
}

// The method `pull` fetches the layers that are missing. It waits for all of them, and returns the first error.
func (s *Store) pull(ctx context.Context, req *Request, f *found) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := &tracker{ofLayers: len(f.layers), running: map[*fetch]bool{}}
	for _, l := range f.layers {
		t.ofBytes += l.size
	}
	var wg sync.WaitGroup
	for i, l := range f.layers {
		wg.Go(func() {
			err := s.layer(ctx, req, l, f, f.config.RootFS.DiffIDs[i].String(), t)
			if err == nil {
				err = s.checkTotal(req, f.names()) // many layers together must not fill the disk
			}
			if err != nil {
				stop(err) // the first error counts
				return
			}
			t.done(l.size)
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	tell := time.NewTicker(progressEvery)
	defer tell.Stop()
	for {
		select {
		case <-tell.C:
			if req.Progress != nil {
				req.Progress(t.progress())
			}
			continue
		case <-done:
		}
		return context.Cause(ctx)
	}
}
