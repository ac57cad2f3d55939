//go:build linux

package run

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// Progress is the last line that a job wrote to its ARES_PROGRESS_FILE, such as "42.5 epoch 3".
type Progress struct {
	Percent float64 // 0 to 100
	Message string  // at most 200 bytes, printable
}

const (
	progressWindow  = 4 << 10
	progressMessage = 200
	// maxReport is how much of the disk the progress file or the checkpoint file may take. Both are on the agent's disk, where no limit
	// of the job's own file system applies.
	maxReport = 1 << 20
)

// Progress returns the last complete and valid line of the progress file. The result `ok` is false if no such
// line exists.
func (p *Proc) Progress() (progress Progress, ok bool) {
	f, err := p.r.open(p.order.Key, seat.ProgressFile)
	if err != nil {
		return Progress{}, false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Progress{}, false
	}
	b := make([]byte, progressWindow)
	n, _ := f.ReadAt(b, max(0, st.Size()-progressWindow)) // use whatever could be read
	p.r.limitReport(p.order.Key, seat.ProgressFile, st)
	return parseProgress(b[:n])
}

// limitReport empties a file that the job writes if it takes more than maxReport of the agent's disk. The time of its last change stays the
// same, because that is the time of the job's last checkpoint. An error is ignored, because the next call tries again.
func (r *Runner) limitReport(key Key, name string, st os.FileInfo) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Blocks*512 <= maxReport {
		return
	}
	f, err := r.root.OpenFile(seatPath(key, name), os.O_WRONLY|openSafe, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if f.Truncate(0) == nil {
		_ = r.root.Chtimes(seatPath(key, name), st.ModTime(), st.ModTime())
	}
}

func parseProgress(b []byte) (Progress, bool) {
	for {
		end := bytes.LastIndexByte(b, '\n')
		if end < 0 {
			return Progress{}, false
		}
		b = b[:end]
		if p, ok := parseLine(string(b[bytes.LastIndexByte(b, '\n')+1:])); ok {
			return p, true
		}
	}
}

func parseLine(line string) (Progress, bool) {
	number, message, _ := strings.Cut(strings.TrimSpace(line), " ")
	percent, err := strconv.ParseFloat(strings.TrimSuffix(number, "%"), 64)
	if err != nil || math.IsNaN(percent) || percent < 0 || percent > 100 {
		return Progress{}, false
	}
	return Progress{percent, clean(strings.TrimSpace(message), progressMessage)}, true
}

// The function `clean` makes text from outside Ares safe for a terminal and limits its length in bytes.
func clean(s string, limit int) string {
	s = strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}
