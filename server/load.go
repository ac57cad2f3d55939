package server

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxLoadPause is the longest time for which the loading of the state may make no progress. There is no limit for the
// whole: a long queue on a slow machine takes minutes to load, and a server that gave up would start again from the
// beginning.
const maxLoadPause = time.Minute

var errNoProgress = errors.New("the store sends no data")

// loadView waits until the view has reached the store's current revision. The view starts at an earlier revision. Until
// the view is current, the server answers no requests. Otherwise limits and lists would be based on an old state.
func (s *Server) loadView(ctx context.Context) error {
	now, err := s.Store.Revision(ctx)
	if err != nil {
		return err
	}
	// A whole snapshot is applied at once, and s.View.Revision waits meanwhile. So a slow machine is not taken for a
	// store that sends nothing.
	progress := func() int64 { return s.loads.Load() + s.View.Revision() }
	slow := func(took time.Duration) {
		s.log.Info("still loading the state", "after", took.Round(time.Second), "revision", s.View.Revision(), "of", now)
	}
	err = awaitProgress(ctx, progress, slow, func(ctx context.Context) error { return s.View.WaitFor(ctx, now) })
	if err != nil {
		return fmt.Errorf("load the state: %w", err)
	}
	if s.cfg.isHub() {
		stateLoaded(hubMaxGarbage)
	} else {
		stateLoaded(maxGarbage)
	}
	if err = s.Store.ReleasePages(); err != nil {
		s.log.Warn("the memory of the store's file is not released", "error", err)
	}
	return nil
}

// awaitProgress calls the function `wait`, and ends its context when the number that the function `progress` returns
// has not changed for maxLoadPause. Each time that it has changed, awaitProgress calls the function `slow`.
func awaitProgress(ctx context.Context, progress func() int64, slow func(took time.Duration), wait func(context.Context) error) error {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() { ended <- wait(waiting) }()
	start, was := time.Now(), progress()
	look := time.NewTicker(maxLoadPause)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			if errors.Is(context.Cause(waiting), errNoProgress) {
				return fmt.Errorf("%w: nothing was read for %v: check that etcd is healthy, then start the server again", err, maxLoadPause)
			}
			return err
		case <-look.C:
			now := progress()
			if now == was {
				stop(errNoProgress)
				continue
			}
			was = now
			slow(time.Since(start))
		}
	}
}
