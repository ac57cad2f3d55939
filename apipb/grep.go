package apipb

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxGrepSize limits the size of an expression, which is its length after its repetitions are written out. The time for a
// line of output is at most proportional to the product of both lengths, and a search cannot be interrupted within a line.
// With this limit, the longest line takes about a second.
const maxGrepSize = 1000

// CompileGrep compiles the expression of a reader of logs. It rejects an expression whose repetitions make it too large.
func CompileGrep(text string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if grepSize(parsed) > maxGrepSize {
		return nil, fmt.Errorf("it is too large: with its repetitions written out, it has more than %d characters: use smaller numbers in {}", maxGrepSize)
	}
	return regexp.Compile(text)
}

// grepSize returns the size of an expression, or more than maxGrepSize if it is too large.
func grepSize(e *syntax.Regexp) int {
	size := max(len(e.Rune), 1)
	if e.Op == syntax.OpCharClass { // its ranges are searched by bisection
		size = 1
	}
	for _, sub := range e.Sub {
		if size += grepSize(sub); size > maxGrepSize {
			return maxGrepSize + 1
		}
	}
	if e.Op == syntax.OpRepeat {
		size *= max(e.Min, e.Max, 1)
	}
	return min(size, maxGrepSize+1)
}
