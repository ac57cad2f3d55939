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

// flush writes everything that waits, in one write and one fsync for each
// segment it goes to.
func (l *Log) flush() {
	l.mu.Lock()
	groups, under := l.pending, l.waiting
	l.pending = nil
	entries := l.overdue()
	had := l.failed != nil
	l.mu.Unlock()
	asked := false
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
		err = l.mend()
	}
	unsigned := err
	if err == nil && (l.unasked >= headEvery || asked) {
		unsigned = l.sign()
	}
	l.mu.Lock()
	if err != nil && !had {
		l.cfg.Log.Error("the audit log cannot be written: calls that change something are refused until it can", "error", err)
	} else if err == nil && had {
		l.cfg.Log.Warn("the audit log can be written again")
	}
	l.failed = err
	l.waiting -= under
	l.mu.Unlock()
	for _, g := range groups {
		failed := err
		if len(g.entries) == 0 { // it asked for a head
			failed = unsigned
		}
		if failed != nil {
			failed = unavailable(failed.Error())
		}
		g.tell(failed)
	}
}

// overdue takes what was owed. The caller holds l.mu.
func (l *Log) overdue() []Entry {
	out := l.owed
	if l.lost > 0 {
		out = append(out, Entry{
			Time: l.cfg.Now(), Server: l.cfg.Server, Cluster: l.cfg.Cluster, Action: ActionGap, Status: Unknown, Count: l.lost, Since: l.lostFrom,
			Detail: "the disk took nothing for so long that entries were lost; the store's records show what was done",
		})
	}
	l.owed, l.lost = nil, 0
	return out
}

// write makes entries safe, or keeps them.
func (l *Log) write(entries []Entry) error {
	for len(entries) > 0 {
		n, err := l.writeSome(entries)
		if err != nil {
			l.mu.Lock()
			l.owe(entries)
			l.mu.Unlock()
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// writeSome writes as many entries as go into the present segment.
func (l *Log) writeSome(entries []Entry) (int, error) {
	if err := l.ready(); err != nil {
		return 0, err
	}
	seq, hash := l.seq, l.hash
	lines := &l.lines
	if lines.Reset(); lines.Cap() > maxKept {
		*lines = bytes.Buffer{}
	}
	n := 0
	for ; n < len(entries) && (n == 0 || l.size+int64(lines.Len()) < l.cfg.MaxSegment); n++ {
		line, err := entries[n].seal(seq+1, hash)
		if err != nil {
			return 0, err
		}
		seq, hash = seq+1, entries[n].Hash
		lines.Write(line)
		lines.WriteByte('\n')
	}
	began := time.Now()
	l.dirty = true
	_, err := l.out.Write(lines.Bytes())
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
	l.seq, l.hash, l.size = seq, hash, l.size+int64(lines.Len())
	l.mu.Unlock()
	return n, nil
}

// ready opens the segment that the next entry goes to: the last, unless that is
// full or of another day. After a failure it cuts off what may be half written:
// nobody was told that it is safe.
func (l *Log) ready() error {
	if err := l.mend(); err != nil {
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

// mend makes the file what is known to be safe of it.
func (l *Log) mend() error {
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

// resume finds the end of what is there, and cuts off what a crash has torn:
// entries that were not told to anybody. What is missing although it was signed
// was not torn by a crash.
func (l *Log) resume(all []segment) (err error) {
	opened := Entry{Action: ActionOpen, Status: Done}
	if err = l.orphaned(all); err != nil {
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
				torn = errors.New("it ends there")
			}
			return fmt.Errorf("the audit log in %s is damaged: entry %d was signed, but %s is good only up to %d (%w); see `ares audit verify --dir %s`, and move the directory away to begin a new log",
				l.cfg.Dir, l.signer.last.Sequence, filepath.Base(last.path), l.seq, torn, l.cfg.Dir)
		}
		if torn != nil {
			if err = l.cut(last, data, good); err != nil {
				return err
			}
			opened.Action = ActionRecover
			opened.Detail = fmt.Sprintf("cut %d bytes, SHA-256 %s, from the end of %s (%s)", len(data)-good, Digest(data[good:])[:16], filepath.Base(last.path), torn)
			l.cfg.Log.Warn("the audit log ended in a torn entry, which was cut off", "file", last.path, "bytes", len(data)-good)
		}
	}
	l.unasked = l.seq - l.signer.last.Sequence
	return l.add(&group{entries: []Entry{opened}})
}

// orphaned refuses a log whose last segments are missing: their heads are there,
// or all is gone but what was signed when the beginning was removed by age.
func (l *Log) orphaned(all []segment) error {
	files, err := filepath.Glob(filepath.Join(l.cfg.Dir, headsPrefix+"*"))
	missing := len(all) == 0 && l.signer.floor.Sequence > 0
	for _, f := range files {
		first, _ := headsFirst(f)
		missing = missing || len(all) == 0 || first > all[len(all)-1].first
	}
	if missing {
		return fmt.Errorf("the audit log in %s is damaged: it has signed heads whose segments are missing; see `ares audit verify --dir %s`, and put them back, or move the directory away to begin a new log", l.cfg.Dir, l.cfg.Dir)
	}
	return err
}

// follow reads the last segment up to where it is good, and takes its place.
func (l *Log) follow(last segment, data []byte) (good int, torn error) {
	l.path, l.first, l.seq = last.path, last.first, last.first-1
	for rest := data; len(rest) > 0; {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			torn = errors.New("the last line is not whole")
			break
		}
		e, err := ReadLine(line)
		if err == nil && e.Sequence != l.seq+1 {
			err = fmt.Errorf("entry %d follows entry %d", e.Sequence, l.seq)
		}
		if err == nil && good > 0 && e.Previous != l.hash {
			err = fmt.Errorf("entry %d does not follow the one before it", e.Sequence)
		}
		if err == nil && e.Sequence == l.signer.last.Sequence && e.Hash != l.signer.last.Hash {
			err = fmt.Errorf("entry %d is not the one that was signed", e.Sequence)
		}
		if err != nil {
			torn = err
			break
		}
		if good == 0 {
			l.day = e.Time.Format(time.DateOnly)
		}
		l.seq, l.hash, rest = e.Sequence, e.Hash, more
		good += len(line) + 1
	}
	l.size = int64(good)
	if good == 0 {
		l.day = l.cfg.Now().UTC().Format(time.DateOnly)
	}
	return good, torn
}

// before is the hash of the entry before the last segment, of which nothing is
// good.
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
	return "", fmt.Errorf("the audit log in %s begins with entry %d, and nothing says what was before: move the directory away to begin a new log", l.cfg.Dir, last.first)
}

// cut takes the torn end off a segment, and keeps it beside: who wants to know
// what was lost can look.
func (l *Log) cut(last segment, data []byte, good int) error {
	aside := filepath.Join(l.cfg.Dir, "torn-"+strconv.FormatUint(l.seq+1, 10)+"-"+Digest(data[good:])[:8])
	if err := writeSafely(aside, data[good:]); err != nil {
		return fmt.Errorf("keep the torn end of the audit log: %w", err)
	}
	out, err := l.cfg.open(last.path)
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Base(last.path), err)
	}
	l.out, l.dirty = out, true
	return l.mend()
}
