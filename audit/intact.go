package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The method `intact` returns an error if somebody removed, replaced, cut or extended the file that is being written. Without this check, the
// server would go on writing to a file that has no name any more, and its entries would be lost. Until the server is started again, calls
// that change something are rejected.
func (l *Log) intact() error {
	own, ok := l.out.(interface{ Stat() (os.FileInfo, error) })
	if !ok { // no file is open
		return nil
	}
	is, err := own.Stat()
	if err != nil {
		return fmt.Errorf("examine %s: %w", filepath.Base(l.path), err)
	}
	const advice = "keep a copy of the directory as evidence, run `ares audit verify`, and start the server again"
	named, err := os.Stat(l.path)
	if err != nil || !os.SameFile(is, named) {
		return fmt.Errorf("somebody removed or replaced the file %s while the server was writing it: %s", l.path, advice)
	}
	if is.Size() != l.size && !l.dirty { // after a failed write, the file may be longer
		return fmt.Errorf("somebody changed the file %s while the server was writing it: it has %d bytes, but the server wrote %d: %s", l.path, is.Size(), l.size, advice)
	}
	return nil
}

// maxClockStep is how far the clock may go back before an entry says so. Time synchronization makes smaller corrections.
const maxClockStep = time.Minute

// clockStep returns an entry if the clock was set back since the last entry. Otherwise somebody could set the clock back, act, and set it forward
// again, and the time of the entry would mislead.
func (l *Log) clockStep() []Entry {
	now := l.cfg.Now().Round(0) // without the monotonic clock, which is never set back
	was := l.clock
	l.clock = now
	if !now.Before(was.Add(-maxClockStep)) {
		l.clock = later(was, now)
		return nil
	}
	l.mu.Lock()
	l.stepped = later(l.stepped, was)
	l.mu.Unlock()
	return []Entry{{
		Time: now, Since: was, Server: l.cfg.Server, Cluster: l.cfg.Cluster, Action: ActionClock, Status: Done,
		Detail: fmt.Sprintf("the clock was set back by %s: the last entry is from %s", was.Sub(now).Round(time.Second), was.UTC().Format(time.RFC3339)),
	}}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
