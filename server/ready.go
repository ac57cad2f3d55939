package server

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api"
)

// refuseToLead keeps this server out of the leadership for good: its store was
// put back to an earlier time. Only a restart, on a store that was restored as
// it should be, lets it stand again.
func (s *Server) refuseToLead(why *ares.Error) {
	if s.outrun.CompareAndSwap(nil, why) {
		s.log.Error("this server leads no more", "why", why)
		s.resign()
	}
}

// ready says whether this server may be sent work: it is not about to stop, its
// store answers and takes writes, and its lists are up to date.
func (s *Server) ready(ctx context.Context) error {
	if s.closing.Load() {
		return &api.NotReady{Word: "the server is stopping", Err: ares.Errorf(ares.Unavailable, "the server is stopping: ask another")}
	}
	if why := s.outrun.Load(); why != nil {
		return &api.NotReady{Word: "the store was put back to an earlier time; ares restore raises its revisions", Err: why}
	}
	now, err := s.Store.Revision(ctx)
	if err != nil {
		return &api.NotReady{Word: "the store does not answer", Err: err}
	}
	if err = s.Store.Writable(ctx); err != nil {
		return &api.NotReady{Word: "the store takes no writes", Err: err}
	}
	if s.behind(ctx, now) {
		return &api.NotReady{Word: "its view of the store lags behind", Err: ares.Errorf(ares.Unavailable,
			"the lists of this server are at revision %d, the store is at %d: it cannot follow; see its log, and restart it if it does not catch up",
			s.View.Revision(), now)}
	}
	return nil
}

// maxLag is how long the view may take to see a revision.
const maxLag = time.Second

// behind says whether the view misses something that the store has had for a
// while. Whoever shares the etcd raises its revision, too: only what is Ares's
// own is missed.
func (s *Server) behind(ctx context.Context, now int64) bool {
	if max(s.View.Revision(), s.caughtUp.Load()) >= now {
		return false
	}
	waiting, cancel := context.WithTimeout(ctx, maxLag)
	defer cancel()
	if s.View.WaitFor(waiting, now) == nil {
		return false
	}
	missed, err := s.Store.Missed(ctx, s.View.Revision())
	if err == nil && !missed {
		s.caughtUp.Store(now)
	}
	return err == nil && missed
}
