//go:build linux

package run

import (
	"bytes"
	"math"
	"strconv"
	"strings"
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
	return parseProgress(b[:n])
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
