package audit

import (
	"bytes"
	"io"
)

// seekWithin is the part of a segment that is read without a search, and the part that is read at each step of one.
const (
	seekWithin = 128 << 10
	seekStep   = 8 << 10
)

// The function `seek` returns the beginning of a line of a segment. No line before it has the number `from` or a higher one, as long
// as the numbers ascend, as they do in an intact log. Without this, the copy to history would read a segment from its beginning for
// each page.
//
// The search ends at a place where it finds no number, so damaged lines only make it return an earlier line.
func seek(r io.ReaderAt, end int64, from uint64) int64 {
	begin := int64(0)
	chunk := make([]byte, seekStep)
	for end-begin > seekWithin {
		middle := begin + (end-begin)/2
		n, err := r.ReadAt(chunk, middle)
		if err != nil && n == 0 {
			break
		}
		newline := bytes.IndexByte(chunk[:n], '\n')
		if newline < 0 {
			break
		}
		seq, known := sequenceOf(chunk[newline+1 : n])
		if !known {
			break
		}
		if seq <= from {
			begin = middle + int64(newline) + 1
		} else {
			end = middle
		}
	}
	return begin
}
