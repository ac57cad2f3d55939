package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// notReady checks that a server is not ready, and that it gives the expected reason.
func notReady(t *testing.T, s *Server, word, why string) {
	t.Helper()
	err := s.ready(t.Context())
	n, ok := errors.AsType[*service.NotReady](err)
	if !ok || !strings.Contains(n.Word, word) || !strings.Contains(n.Error(), why) || ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("got %v, want %q and %q", err, word, why)
	}
}

func TestReadyTellsTheTruth(t *testing.T) {
	etcd := storetest.External(t)
	st, err := store.Open(t.Context(), store.Config{Endpoints: etcd.Endpoints}) // this store stops waiting when the etcd is gone
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	resigned := false
	s := &Server{Store: st, View: cache.NewView(time.Now), log: slog.New(slog.DiscardHandler), resign: func() { resigned = true }}
	storetest.NewTenant(t, st)
	notReady(t, s, "lags behind", "restart the server") // the view gets no events

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.View.Run(ctx, st, func(error) {}) })
	defer wg.Wait()
	defer stop()
	rev, err := st.Revision(t.Context())
	if err == nil {
		err = s.View.WaitFor(t.Context(), rev)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ready(t.Context()); err != nil {
		t.Error(err)
	}
	// Writes of another program to the same etcd do not count as changes that the view has missed.
	if _, err := etcd.Client(t).Put(t.Context(), "/others/key", "value"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.ready(t.Context()); err != nil {
			t.Error(err)
		}
	}

	s.closing.Store(true)
	notReady(t, s, "stopping", "use another")
	s.closing.Store(false)
	s.refuseToLead(ares.Errorf(ares.Unavailable, "first"))
	s.refuseToLead(ares.Errorf(ares.Unavailable, "second"))
	if !resigned {
		t.Error("it leads on")
	}
	notReady(t, s, "ares restore", "first")
	s.outrun.Store(nil)
	etcd.Kill()
	notReady(t, s, "does not answer", "")
}
