package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const pruneEvery = time.Hour

// The method `prune` removes segments whose last entry is older than Keep. Before a file is deleted, a signed head
// records the last removed entry. With that head, Verify can distinguish an expired log from one whose beginning was
// cut off.
func (l *Log) prune(now time.Time) {
	if l.cfg.Keep <= 0 || !l.pruned.IsZero() && now.Sub(l.pruned) < pruneEvery {
		return
	}
	l.pruned = now
	all, err := segments(l.cfg.Dir)
	for i := 0; err == nil && i+1 < len(all); i++ {
		var last Entry
		if last, err = lastEntry(all[i].path); err != nil {
			break
		}
		if now.Sub(last.Time) < l.cfg.Keep || l.cfg.Shipped != nil && l.cfg.Shipped() < last.Sequence {
			break
		}
		err = l.expire(all[i], &last, now)
	}
	if err == nil {
		err = l.removeOldHeads()
	}
	if err != nil {
		l.cfg.Log.Error("remove expired entries from the audit log", "error", err)
	}
}

func (l *Log) expire(s segment, last *Entry, now time.Time) error {
	// The entry is on disk before the statement, because Verify accepts no statement without an entry.
	if err := l.write([]Entry{{
		Time: now, Server: l.cfg.Server, Cluster: l.cfg.Cluster,
		Action: ActionExpire, Status: Done, Object: filepath.Base(s.path), After: last.Hash, Since: now.Add(-l.cfg.Keep),
		Detail: fmt.Sprintf("entries %d to %d are older than the age limit of %s", s.first, last.Sequence, l.cfg.Keep),
	}}); err != nil {
		return err
	}
	l.mu.Lock()
	err := l.signer.lower(last.Sequence, last.Hash, now)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return os.Remove(s.path)
}

// removeOldHeads removes the heads of removed segments.
func (l *Log) removeOldHeads() error {
	files, err := filepath.Glob(filepath.Join(l.cfg.Dir, headsPrefix+"*"))
	for _, f := range files {
		first, ok := headsFirst(f)
		if _, gone := os.Stat(filepath.Join(l.cfg.Dir, segmentName(first))); !ok || first > l.signer.floor.Sequence || gone == nil {
			continue
		}
		err = errors.Join(err, os.Remove(f))
	}
	return errors.Join(err, syncDir(l.cfg.Dir))
}

// lastEntry reads the last entry of a segment.
func lastEntry(path string) (Entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Entry{}, err
	}
	data = bytes.TrimSuffix(data, []byte{'\n'})
	e, err := ReadLine(data[bytes.LastIndexByte(data, '\n')+1:])
	if err != nil {
		return e, fmt.Errorf("%s: its last line: %w", path, err)
	}
	return e, nil
}
