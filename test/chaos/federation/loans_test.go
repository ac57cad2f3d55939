package federation_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// A lender follows the loans in the hub's store. A watch brings every revision, but says nothing about those that it missed
// while the store was down. So a state counts only while the watch agrees with reads of the whole.
type lender struct {
	f *fleet

	mu     sync.Mutex
	known  map[string]verdict.Loan // by key
	synced bool
	asking bool // the hub may have been restored since the last read
	last   int64
	dirty  bool // known has changed since the last record
}

// recordLoans records the loans of the hub at each of its revisions, until ctx ends.
func (f *fleet) recordLoans(ctx context.Context) {
	out, err := verdict.CreateLoans(f.home)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer out.Close()
	l := &lender{f: f, known: map[string]verdict.Loan{}}
	for ctx.Err() == nil {
		s, err := store.Open(ctx, store.Config{Endpoints: machines.EtcdURLs(f.hub.stores), Timeout: 5 * time.Second})
		if err == nil {
			l.follow(ctx, s, out)
			_ = s.Close()
		}
		pause.For(ctx, 200*time.Millisecond)
	}
}

// The method `follow` watches and reads the loans until one of them fails.
func (l *lender) follow(ctx context.Context, s *store.Store, out *verdict.LoanWriter) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	l.mu.Lock()
	l.synced, l.asking = false, true
	l.mu.Unlock()
	watch.Go(func() {
		defer cancel()
		_ = s.DumpWatch(ctx, "loans/", func(r store.Raw) error { l.changed(r, out); return nil }) // it ends when the store fails
	})
	for pause.For(ctx, 250*time.Millisecond) {
		asking, err := s.Asking(ctx)
		if err != nil {
			return
		}
		all, err := s.Loans(ctx)
		if err != nil {
			return
		}
		l.compare(all, asking != nil, out)
	}
}

// The method `changed` applies one change of a record.
func (l *lender) changed(r store.Raw, out *verdict.LoanWriter) {
	var m struct{ Loan struct{ GPUs int } }
	if !r.Deleted {
		if err := json.Unmarshal([]byte(r.JSON), &m); err != nil {
			l.f.t.Error(err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Revision > l.last {
		l.write(out) // what came before is complete
		l.last = r.Revision
	}
	_, name, _ := strings.Cut(r.Key, "loans/")
	if l.dirty = true; r.Deleted {
		delete(l.known, name)
		return
	}
	tenant, cluster, _ := strings.Cut(name, "/")
	l.known[name] = verdict.Loan{Tenant: tenant, Cluster: cluster, GPUs: m.Loan.GPUs}
}

// The method `compare` compares what the watch brought with a read of all loans. If they differ, the watch has missed something, or
// is late: then the read counts, and the states in between do not.
func (l *lender) compare(all []store.Loan, asking bool, out *verdict.LoanWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = asking
	read, same := map[string]verdict.Loan{}, true
	for _, a := range all {
		name := a.Tenant + "/" + a.Cluster
		read[name] = verdict.Loan{Tenant: a.Tenant, Cluster: a.Cluster, GPUs: a.GPUs}
		same = same && l.known[name] == read[name]
	}
	if same = same && len(read) == len(l.known); same {
		l.synced = true
	} else {
		l.synced, l.known, l.dirty = false, read, false
		l.put(out)
		return
	}
	l.write(out)
}

// The method `write` records the loans if they have changed and are known to be complete. The caller holds the lock.
func (l *lender) write(out *verdict.LoanWriter) {
	if l.dirty && l.synced {
		l.put(out)
	}
	l.dirty = false
}

func (l *lender) put(out *verdict.LoanWriter) {
	state := verdict.Loans{At: trace.Now(), Revision: l.last, Asking: l.asking}
	for _, loan := range l.known {
		if loan.GPUs < ares.Unlimited {
			state.Loans = append(state.Loans, loan)
		}
	}
	if err := out.Write(state); err != nil {
		l.f.t.Error(err)
	}
}
