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
	"github.com/ares-scheduler/ares/api"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/store/storetest"
)

// notReady wants a server that is not ready, for a reason.
func notReady(t *testing.T, s *Server, word, why string) {
	t.Helper()
	err := s.ready(t.Context())
	n, ok := errors.AsType[*api.NotReady](err)
	if !ok || !strings.Contains(n.Word, word) || !strings.Contains(n.Error(), why) || ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("got %v, want %q and %q", err, word, why)
	}
}

func TestReadyTellsTheTruth(t *testing.T) {
	etcd := storetest.External(t)
	st := etcd.Open(t)
	resigned := false
	s := &Server{Store: st, View: control.NewView(time.Now), log: slog.New(slog.DiscardHandler), resign: func() { resigned = true }}
	storetest.NewTenant(t, st)
	notReady(t, s, "lags behind", "restart it") // nobody feeds the view

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
	// Somebody else's writes to the same etcd are not missed.
	if _, err := etcd.Client(t).Put(t.Context(), "/others/key", "value"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.ready(t.Context()); err != nil {
			t.Error(err)
		}
	}

	s.closing.Store(true)
	notReady(t, s, "stopping", "ask another")
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
