package server

import (
	"context"

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

// ready says whether this server may be sent work.
func (s *Server) ready(ctx context.Context) error {
	if why := s.outrun.Load(); why != nil {
		return &api.NotReady{Word: "the store was put back to an earlier time; ares restore raises its revisions", Err: why}
	}
	return s.Store.Ready(ctx)
}
