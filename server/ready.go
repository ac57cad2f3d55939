package server

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
)

// refuseToLead prevents this server from becoming the leader until it is restarted. It is called when a server's own revision
// mark shows that the store was put back to an earlier time: this server's, or that of a server which has recorded that in the
// store. An administrator must restart the server on a store that was restored with ares restore.
func (s *Server) refuseToLead(why *ares.Error) {
	if s.outrun.CompareAndSwap(nil, why) {
		s.log.Error("this server will not lead again until it is restarted", "why", why)
		if s.resign != nil { // the loop has not started otherwise, and startLoop checks outrun
			s.resign()
		}
	}
}

// This method returns an error if this server cannot serve requests. A server is ready if three conditions are met: it is
// not stopping, its store answers and accepts writes, and its view is up to date.
func (s *Server) ready(ctx context.Context) error {
	if s.closing.Load() {
		return &service.NotReady{Word: "the server is stopping", Err: ares.Errorf(ares.Unavailable, "the server is stopping: use another server")}
	}
	if why := s.outrun.Load(); why != nil {
		return &service.NotReady{Word: "the store was put back to an earlier time; restore backups with ares restore, which raises the revisions", Err: why}
	}
	now, err := s.Store.Revision(ctx)
	if err != nil {
		return &service.NotReady{Word: "the store does not answer", Err: err}
	}
	if err = s.Store.Writable(ctx); err != nil {
		return &service.NotReady{Word: "the store takes no writes", Err: err}
	}
	if s.isBehind(ctx, now) {
		return &service.NotReady{Word: "its view of the store lags behind", Err: ares.Errorf(ares.Unavailable,
			"this server lags behind the store (revision %d of %d): check the server's log; if the server does not catch up, restart the server",
			s.View.Revision(), now)}
	}
	return nil
}

// maxLag is the maximum time that the view may take to receive a revision.
const maxLag = time.Second

// isBehind reports whether the view lacks a change that the store has had for a while. Other programs that use the same
// etcd raise its revision too. Therefore isBehind considers only changes to Ares's own keys.
func (s *Server) isBehind(ctx context.Context, now int64) bool {
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
