package cache

import (
	"unicode/utf8"

	ares "github.com/ares-scheduler/ares"
)

// Label is a condition on one label of a job.
type Label struct {
	Key, Value string
	AnyValue   bool // the job has the label, whatever its value
}

func hasLabels(j *ares.Job, labels []Label) bool {
	for _, l := range labels {
		if value, ok := j.Labels[l.Key]; !ok || !l.AnyValue && value != l.Value {
			return false
		}
	}
	return true
}

// matchPattern reports whether a pattern matches a whole name. In the pattern, * stands for any text and ? for one
// character. Only the last * is tried again after a mismatch, so the time is at most proportional to the product of the
// lengths, whatever the pattern is.
func matchPattern(pattern, name string) bool {
	afterStar, retry := -1, 0
	p, n := 0, 0
	for n < len(name) {
		_, size := utf8.DecodeRuneInString(name[n:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			p++
			afterStar, retry = p, n
		case p < len(pattern) && pattern[p] == '?':
			p++
			n += size
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case afterStar >= 0:
			_, size = utf8.DecodeRuneInString(name[retry:])
			retry += size
			p, n = afterStar, retry
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
