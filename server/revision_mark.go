package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// RevisionMarkFile is the file in the data directory that contains the highest revision of the store that this server has
// seen. With this file, a server notices after a restart that the store was rolled back without `ares restore`. It does not
// have to believe an agent, which may be controlled by somebody else.
const RevisionMarkFile = "revision.mark"

// markEvery is the interval at which a server compares the store with its mark. It is also the minimum time between two
// writes of the file. A rollback that is shorter than this may stay unnoticed after a crash; see aheadNodes. A server that
// leads learns within this interval that another server has noticed a rollback.
const markEvery = time.Second

// revisionMark is the highest revision of the store that this server has seen. A store whose revision is lower was rolled
// back, and would issue fencing tokens a second time.
type revisionMark struct {
	path string

	mu       sync.Mutex
	store    string // the identity of the store, "" if no store was seen
	revision int64  // Invariant: some read of that store returned this revision, or it is from an earlier mark.
	written  int64  // the revision in the file, -1 if the file must be written in any case
	failing  bool   // the last write failed
}

// readMark reads the mark of a data directory. A missing file is a mark of nothing. The error is about a file that cannot be
// read or has other content; the returned mark can be used in any case.
func readMark(dataDir string) (*revisionMark, error) {
	m := &revisionMark{path: filepath.Join(dataDir, RevisionMarkFile), written: -1}
	data, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("read the revision mark: %w", err)
	}
	var id string
	var revision int64
	if _, err = fmt.Sscan(string(data), &id, &revision); err != nil || revision < 0 {
		return m, fmt.Errorf("read the revision mark: %s does not contain a store and a revision", m.path)
	}
	m.store, m.revision, m.written = id, revision, revision
	return m, nil
}

// seenRevision is the content of a mark at one time: a store and a revision of it.
type seenRevision struct {
	store    string // "" if no store was seen
	revision int64
}

// The method `seen` returns the current content of the mark. A caller must call it before it reads the store, see compare.
func (m *revisionMark) seen() seenRevision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return seenRevision{m.store, m.revision}
}

// The method `compare` compares the store's identity and revision with the content that the mark had before the store was
// read, and raises the mark. It returns what shows that the store was rolled back, or nil. The mark of another store has no
// meaning, so it is replaced.
//
// The content must be from before the read. Several goroutines compare at the same time, and the watch raises the mark. The
// mark may therefore be raised between a slow read and its comparison. The read would then look like a rollback, although the
// store was read before those revisions existed.
func (m *revisionMark) compare(before seenRevision, id string, revision int64) *store.Rollback {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store != id {
		m.store, m.revision, m.written = id, revision, -1
	}
	if before.store != id || revision >= before.revision {
		m.revision = max(m.revision, revision)
		return nil
	}
	return &store.Rollback{Seen: before.revision, Found: revision}
}

// The method `raise` raises the mark to a revision that was seen otherwise, such as in a watch of the same store.
func (m *revisionMark) raise(revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store != "" {
		m.revision = max(m.revision, revision)
	}
}

// The method `write` writes the mark if it has changed since the last write.
func (m *revisionMark) write() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store == "" || m.revision == m.written {
		return nil
	}
	err := WriteWhole(m.path, true, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, m.store, m.revision)
		return err
	})
	if err == nil {
		m.written = m.revision
	}
	again := m.failing && err != nil
	if m.failing = err != nil; again {
		return nil // it was reported before
	}
	return err
}

// openMark reads the mark at the start of a server, and compares the store with it. A store that was rolled back does not
// prevent the start, because the server must answer `ares backup`. But the server will not lead.
func (s *Server) openMark(ctx context.Context) (err error) {
	if s.mark, err = readMark(s.cfg.DataDir); err != nil {
		s.log.Warn("the store cannot be compared with the last start of this server", "error", err)
	}
	if err = s.checkMark(ctx); s.outrun.Load() == nil {
		return err // nil, or the store does not answer
	}
	return nil
}

// checkMark compares the store with the mark, and reads whether another server has noticed a rollback. If the store was rolled
// back, this server stops leading, and the error says so. A server whose own mark shows the rollback records it in the store,
// so that every server knows of it, whatever is written in the meantime.
func (s *Server) checkMark(ctx context.Context) error {
	before := s.mark.seen()
	id, revision, err := s.Store.Identity(ctx)
	if err != nil {
		return err
	}
	if before.store != "" && before.store != id.Store {
		s.log.Warn("the revision mark is of another store, and is replaced: if the store was not replaced on purpose, check etcd.endpoints and data_dir",
			"marked_store", before.store, "store", id.Store)
	}
	own := s.mark.compare(before, id.Store, revision)
	switch {
	case id.RolledBack != nil:
		why := id.RolledBack.Refusal(id.Restore)
		s.refuseToLead(why)
		return why
	case own != nil:
		s.refuseToLead(own.Refusal(id.Restore))
		if u := s.unnoted.Load(); u == nil || !u.isOf(id) {
			s.unnoted.Store(&unnotedRollback{of: id, what: *own, at: time.Now()})
		}
	}
	return s.noteRollback(ctx, id)
}

// unnotedRollback is a rollback that this server has noticed, with the identity that the store had then.
type unnotedRollback struct {
	of       store.Identity
	what     store.Rollback
	at       time.Time
	reported atomic.Bool // the log says that the store does not take the record
}

func (u *unnotedRollback) isOf(id store.Identity) bool {
	return u.of.Store == id.Store && u.of.Restore == id.Restore
}

// noteRollback records in the store that this server has noticed a rollback, if it has, and returns why it must not lead. If
// the store does not take the record, the next comparison tries again. The store's revision may have reached the mark by then,
// so the server remembers what it has seen. It does not apply to a store that was restored since.
func (s *Server) noteRollback(ctx context.Context, now store.Identity) error {
	u := s.unnoted.Load()
	if u == nil || !u.isOf(now) {
		return nil
	}
	r := u.what
	r.Server, r.At = s.name, u.at
	_, err := s.Store.NoteRollback(ctx, now, r)
	if err != nil && ares.CodeOf(err) != ares.Fenced && u.reported.CompareAndSwap(false, true) {
		s.log.Error("the other servers do not know yet that the store was put back to an earlier time, and may lead: stop them", "error", err)
	}
	return u.what.Refusal(now.Restore)
}

// beforeLeading compares the store with the mark at the start of a term as leader, before any fencing token is issued.
func (s *Server) beforeLeading(next func(context.Context, *store.Leadership) error) func(context.Context, *store.Leadership) error {
	return func(ctx context.Context, lead *store.Leadership) error {
		if err := s.checkMark(ctx); err != nil {
			return err
		}
		return next(ctx, lead)
	}
}

// startMark lets the server compare the store with the mark while it runs. A server that has noticed a rollback at its start
// never leads.
func (s *Server) startMark(run context.Context) {
	if s.outrun.Load() != nil {
		s.resign()
	}
	s.runPart("revision mark", func() error { return s.watchMark(run) })
}

// watchMark compares the store with the mark from time to time, and writes the mark. While the store is silent, the mark
// stays as it is. After a rollback it stays too, because it is the evidence.
func (s *Server) watchMark(ctx context.Context) error {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for {
		if err := s.checkMark(ctx); err == nil && s.outrun.Load() == nil {
			s.writeMark()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Server) writeMark() {
	if err := s.mark.write(); err != nil {
		s.log.Warn("write the revision mark: until this works, a rollback of the store may stay unnoticed", "error", err)
	}
}

// closeMark writes the mark a last time when the server stops. The view may not have seen the last revisions, so the store is
// asked too. A store that does not answer delays the stop only a little.
func (s *Server) closeMark() {
	if s.mark == nil || s.outrun.Load() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), markEvery)
	defer cancel()
	if err := s.checkMark(ctx); s.outrun.Load() != nil {
		return
	} else if err != nil {
		s.log.Warn("the revision mark is that of the last comparison, because the store does not answer", "error", err)
	}
	s.mark.raise(s.View.Revision())
	s.writeMark()
}

// checkRestored returns an error if a restored store would issue fencing tokens that this server has already seen. In this
// case the restore must raise the revisions by more.
func (m *revisionMark) checkRestored(done *store.Restored) error {
	if m.store != done.Store || done.Revision >= m.revision {
		return nil
	}
	return ares.Errorf(ares.Invalid, "the restored store would be at revision %d, but the server has seen revision %d of it: "+
		"repeat the command without --revision-bump, or with --revision-bump %d or more", done.Revision, m.revision, m.revision-done.Snapshot)
}

// The method `restored` replaces the mark by the revision of a restored store.
func (m *revisionMark) restored(done *store.Restored) error {
	m.mu.Lock()
	m.store, m.revision, m.written = done.Store, done.Revision, -1
	m.mu.Unlock()
	return m.write()
}
