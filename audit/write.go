package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// The method `flush` writes all waiting entries, with one write and one fsync for each segment.
func (l *Log) flush() {
	l.mu.Lock()
	groups, under := l.pending, l.waiting
	l.pending = nil
	entries := l.takeUnwritten()
	had := l.failed != nil
	l.mu.Unlock()
	asked := false
	if len(groups) > 0 || len(entries) > 0 {
		entries = append(entries, l.clockStep()...)
	}
	entries = slices.Grow(entries, under)
	for _, g := range groups {
		entries = append(entries, g.entries...)
		asked = asked || len(g.entries) == 0
	}
	var err error
	switch {
	case len(entries) > 0:
		err = l.write(entries)
	case had:
		err = l.repairFile()
	}
	unsigned := err
	if err == nil && (l.unasked >= headEvery || asked) {
		unsigned = l.sign()
	}
	l.mu.Lock()
	if err != nil && !had {
		l.cfg.Log.Error("the audit log cannot be written: calls that change something are rejected until it can", "error", err)
	} else if err == nil && had {
		l.cfg.Log.Warn("the audit log can be written again")
	}
	l.failed = err
	l.waiting -= under
	l.mu.Unlock()
	for _, g := range groups {
		failed := err
		if len(g.entries) == 0 { // it requested a head
			failed = unsigned
		}
		if failed != nil {
			failed = unavailable(failed.Error())
		}
		g.finish(failed)
	}
}

// takeUnwritten returns the entries that could not be written earlier, and removes them from memory. The caller holds
// l.mu.
func (l *Log) takeUnwritten() []Entry {
	out := l.owed
	if l.lost > 0 {
		out = append(out, Entry{
			Time: l.cfg.Now(), Server: l.cfg.Server, Cluster: l.cfg.Cluster, Action: ActionGap, Status: Unknown, Count: l.lost, Since: l.lostFrom,
			Detail: "the disk failed for so long that entries were lost; the store shows what was done",
		})
	}
	l.owed, l.lost = nil, 0
	return out
}

// The method `write` writes entries to disk. If the disk fails, the method keeps the entries in memory.
func (l *Log) write(entries []Entry) error {
	for len(entries) > 0 {
		n, err := l.writeSome(entries)
		if err != nil {
			l.mu.Lock()
			l.keepUnwritten(entries)
			l.mu.Unlock()
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// writeSome writes as many entries as fit into the current segment.
func (l *Log) writeSome(entries []Entry) (int, error) {
	if err := l.ready(); err != nil {
		return 0, err
	}
	seq, hash := l.seq, l.hash
	lines := l.lines[:0]
	if cap(lines) > maxKept {
		lines = nil
	}
	n := 0
	for ; n < len(entries) && (n == 0 || l.size+int64(len(lines)) < l.cfg.MaxSegment); n++ {
		var err error
		if lines, err = entries[n].seal(lines, seq+1, hash); err != nil {
			return 0, err
		}
		seq, hash = seq+1, entries[n].Hash
		lines = append(lines, '\n')
	}
	l.lines = lines
	began := time.Now()
	l.dirty = true
	_, err := l.out.Write(lines)
	if err == nil {
		err = l.out.Sync()
	}
	if l.cfg.Observe != nil {
		l.cfg.Observe(n, time.Since(began), err)
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", filepath.Base(l.path), err)
	}
	l.dirty = false
	l.unasked += uint64(n)
	l.mu.Lock()
	l.seq, l.hash, l.size = seq, hash, l.size+int64(len(lines))
	l.mu.Unlock()
	return n, nil
}

// The method `ready` opens the segment for the next entry. The next entry goes to the last segment, or to a new one if
// the last is full or from another day. After a failure, the method first cuts off entries that may be incomplete,
// because these were never acknowledged.
func (l *Log) ready() error {
	if err := l.repairFile(); err != nil {
		return err
	}
	today := l.cfg.Now().UTC().Format(time.DateOnly)
	full := l.out != nil && l.size > 0 && (l.size >= l.cfg.MaxSegment || l.day != today)
	if full {
		if err := l.signTop(); err != nil {
			return err
		}
		if err := l.out.Close(); err != nil {
			return err
		}
		l.out = nil
	}
	if l.out != nil {
		return nil
	}
	if full || l.path == "" {
		l.mu.Lock()
		l.path, l.first, l.size, l.day = filepath.Join(l.cfg.Dir, segmentName(l.seq+1)), l.seq+1, 0, today
		l.mu.Unlock()
	}
	out, err := l.cfg.open(l.path)
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Base(l.path), err)
	}
	l.out = out
	return nil
}

// repairFile truncates the segment to the part that is known to be on disk.
func (l *Log) repairFile() error {
	if err := l.intact(); err != nil {
		return err
	}
	if !l.dirty || l.out == nil {
		return nil
	}
	if err := l.out.Truncate(l.size); err != nil {
		return fmt.Errorf("cut %s back: %w", filepath.Base(l.path), err)
	}
	if _, err := l.out.Seek(l.size, io.SeekStart); err != nil {
		return fmt.Errorf("cut %s back: %w", filepath.Base(l.path), err)
	}
	if err := l.out.Sync(); err != nil {
		return fmt.Errorf("cut %s back: %w", filepath.Base(l.path), err)
	}
	l.dirty = false
	return nil
}

// The method `resume` finds the end of the log. If a crash left incomplete entries at the end, the method cuts them
// off, because they were never acknowledged. If a signed entry is missing, the method returns an error, because a crash
// cannot remove a signed entry.
func (l *Log) resume(all []segment) (err error) {
	opened := Entry{Action: ActionOpen, Status: Done}
	if err = l.checkMissingSegments(all); err != nil {
		return err
	}
	if len(all) > 0 {
		last := all[len(all)-1]
		data, readErr := os.ReadFile(last.path)
		if readErr != nil {
			return fmt.Errorf("read the audit log: %w", readErr)
		}
		good, torn := l.follow(last, data)
		if good == 0 {
			if l.hash, err = l.before(all); err != nil {
				return err
			}
		}
		if l.seq < l.signer.last.Sequence {
			if torn == nil {
				torn = errors.New("the file ends after this entry")
			}
			return fmt.Errorf("the audit log in %s is damaged: entries up to %d were signed, but the file %s is valid only up to entry %d (%w); run `ares audit verify --dir %s` for details, or move the directory away to begin a new log",
				l.cfg.Dir, l.signer.last.Sequence, filepath.Base(last.path), l.seq, torn, l.cfg.Dir)
		}
		if l.owner != "" && l.owner != l.cfg.Server {
			return fmt.Errorf("the audit log in %s is the log of server %s, but this server is %s: restore the file server.id or the audit directory of this server, or move the directory away to begin a new log",
				l.cfg.Dir, l.owner, l.cfg.Server)
		}
		if torn != nil {
			if err = l.truncateTorn(last, data, good); err != nil {
				return err
			}
			opened.Action = ActionRecover
			opened.Detail = fmt.Sprintf("cut %d bytes, SHA-256 %s, from the end of %s (%s)", len(data)-good, Digest(data[good:])[:16], filepath.Base(last.path), torn)
			l.cfg.Log.Warn("the audit log ended in an incomplete entry, which was cut off", "file", last.path, "bytes", len(data)-good)
		}
	}
	l.unasked = l.seq - l.signer.last.Sequence
	return l.add(&group{entries: []Entry{opened}})
}

// checkMissingSegments rejects a log whose last segments are missing. Segments are missing in two cases. Either their
// heads still exist, or the log has no segment at all but has a signed statement about removed entries.
func (l *Log) checkMissingSegments(all []segment) error {
	files, err := filepath.Glob(filepath.Join(l.cfg.Dir, headsPrefix+"*"))
	missing := len(all) == 0 && l.signer.floor.Sequence > 0
	for _, f := range files {
		first, _ := headsFirst(f)
		missing = missing || len(all) == 0 || first > all[len(all)-1].first
	}
	if missing {
		return fmt.Errorf("the audit log in %s is damaged: files with entries are missing (details: `ares audit verify --dir %s`); restore these files, or move the directory away to begin a new log", l.cfg.Dir, l.cfg.Dir)
	}
	return err
}

// The method `follow` reads the valid part of the last segment, so that the log continues after that part.
func (l *Log) follow(last segment, data []byte) (good int, torn error) {
	l.path, l.first, l.seq = last.path, last.first, last.first-1
	for rest := data; len(rest) > 0; {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			torn = errors.New("the last line is incomplete")
			break
		}
		e, err := ReadLine(line)
		if err == nil && e.Sequence != l.seq+1 {
			err = fmt.Errorf("entry %d follows entry %d", e.Sequence, l.seq)
		}
		if err == nil && good > 0 && e.Previous != l.hash {
			err = fmt.Errorf("entry %d does not contain the hash of the previous entry", e.Sequence)
		}
		if err == nil && e.Sequence == l.signer.last.Sequence && e.Hash != l.signer.last.Hash {
			err = fmt.Errorf("entry %d differs from the entry that was signed", e.Sequence)
		}
		if err != nil {
			torn = err
			break
		}
		if good == 0 {
			l.day = e.Time.Format(time.DateOnly)
		}
		l.seq, l.hash, rest = e.Sequence, e.Hash, more
		l.owner, l.clock = e.Server, later(l.clock, e.Time)
		if e.Action == ActionClock {
			l.stepped = later(l.stepped, e.Since)
			l.clock = e.Time
		}
		good += len(line) + 1
	}
	l.size = int64(good)
	if good == 0 {
		l.day = l.cfg.Now().UTC().Format(time.DateOnly)
	}
	return good, torn
}

// The method `before` returns the hash of the last entry before the last segment. The hash is needed if the last
// segment contains no valid entry.
func (l *Log) before(all []segment) (string, error) {
	last := all[len(all)-1]
	switch {
	case last.first == 1:
		return genesis, nil
	case len(all) > 1:
		e, err := lastEntry(all[len(all)-2].path)
		return e.Hash, err
	case l.signer.floor.Sequence == last.first-1:
		return l.signer.floor.Hash, nil
	}
	return "", fmt.Errorf("the audit log in %s begins with entry %d, and the entries before it are missing: move the directory away to begin a new log", l.cfg.Dir, last.first)
}

// truncateTorn cuts the incomplete end off a segment. It saves that end in a separate file, so that people can see what
// was lost.
func (l *Log) truncateTorn(last segment, data []byte, good int) error {
	aside := filepath.Join(l.cfg.Dir, "torn-"+strconv.FormatUint(l.seq+1, 10)+"-"+Digest(data[good:])[:8])
	if err := writeSafely(aside, data[good:]); err != nil {
		return fmt.Errorf("save the incomplete end of the audit log: %w", err)
	}
	out, err := l.cfg.open(last.path)
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Base(last.path), err)
	}
	l.out, l.dirty = out, true
	return l.repairFile()
}
