package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// earlierSteps returns the latest time from which the clock was set back according to the segments before the last one. An
// opened log knows only the steps in its last segment, and a segment ends at midnight. The first query with a time reads
// the earlier segments once; they do not change any more.
func (l *Log) earlierSteps(all []segment) (time.Time, error) {
	l.steps.mu.Lock()
	defer l.steps.mu.Unlock()
	for _, s := range all[:max(len(all)-1, 0)] {
		if s.first < l.steps.before {
			continue
		}
		at, err := stepIn(s.path)
		if err != nil {
			return time.Time{}, err
		}
		l.steps.latest, l.steps.before = later(l.steps.latest, at), s.first+1
	}
	return l.steps.latest, nil
}

// stepIn returns the latest time from which the clock was set back in a segment, or zero.
func stepIn(path string) (latest time.Time, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return latest, nil // it has just been removed
	}
	if err != nil {
		return latest, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	for {
		i := bytes.Index(data, []byte(ActionClock))
		if i < 0 {
			return latest, nil
		}
		begin, end := bytes.LastIndexByte(data[:i], '\n')+1, len(data)
		if n := bytes.IndexByte(data[i:], '\n'); n >= 0 {
			end = i + n
		}
		if e, err := ReadLine(data[begin:end]); err == nil && e.Action == ActionClock {
			latest = later(latest, e.Since)
		}
		data = data[end:]
	}
}
