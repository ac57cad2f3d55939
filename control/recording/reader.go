package recording

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Reader reads a recording.
type Reader struct {
	Header Header
	// End is the reason why the recording ends. End is valid after Next has returned io.EOF. End is "" if the recording has no
	// end mark, because the server was killed or is still writing.
	End string

	in     *bufio.Reader
	frames int // frames read so far
	done   bool
}

// Frame is a recorded batch or a recorded decision.
type Frame struct {
	Batch    *ares.Batch
	Decision *Decision
}

// NewReader reads the beginning of a recording.
func NewReader(from io.Reader) (*Reader, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "the file is not a recording made by Ares: %s", err)
	}
	r := &Reader{in: bufio.NewReaderSize(zip, 64<<10)}
	kind, body, err := r.frame()
	if errors.Is(err, io.EOF) {
		return nil, ares.Errorf(ares.Invalid, "the recording is empty")
	}
	if err != nil {
		return nil, err
	}
	if kind != frameHeader {
		return nil, ares.Errorf(ares.Invalid, "the file is not a recording made by Ares")
	}
	r.Header, err = readHeader(body)
	return r, err
}

// Next returns the next frame, or io.EOF at the end. If the last frame of a recording is
// incomplete, Next skips it and returns io.EOF. If a recording is damaged in the middle, Next
// returns an error.
func (r *Reader) Next() (Frame, error) {
	var whole ares.Batch
	for !r.done {
		kind, body, err := r.frame()
		if err != nil {
			return Frame{}, err
		}
		switch kind {
		case framePart, frameBatch:
			b, err := store.DecodeBatch(body)
			if err != nil {
				return Frame{}, r.damaged(err)
			}
			b.Events = append(whole.Events, b.Events...)
			if whole = b; kind == frameBatch {
				return Frame{Batch: &whole}, nil
			}
		case frameDecision:
			d := &Decision{}
			if err := json.Unmarshal(body, d); err != nil {
				return Frame{}, r.damaged(err)
			}
			return Frame{Decision: d}, nil
		case frameEnd:
			var e End
			if err := json.Unmarshal(body, &e); err != nil {
				return Frame{}, r.damaged(err)
			}
			r.End, r.done = e.Why, true
		default:
			return Frame{}, r.damaged(fmt.Errorf("the kind of a frame is unknown: %q", kind))
		}
	}
	return Frame{}, io.EOF
}

// The method `frame` reads one frame. The error is io.EOF if no complete frame is left.
func (r *Reader) frame() (kind byte, body []byte, err error) {
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, nil, r.ended(err)
	}
	if size > maxFrame {
		return 0, nil, r.damaged(fmt.Errorf("the size of a frame is invalid: %d bytes", size))
	}
	body = make([]byte, 0, min(size, 1<<20)+5)
	var chunk [32 << 10]byte
	for left := int(size) + 5; left > 0; { // the buffer grows with the bytes that were read, not with the length that the frame states
		n, err := io.ReadFull(r.in, chunk[:min(left, len(chunk))])
		if err != nil {
			return 0, nil, r.ended(err)
		}
		body = append(body, chunk[:n]...)
		left -= n
	}
	body, sum := body[:size+1], binary.BigEndian.Uint32(body[size+1:])
	if crc32.Checksum(body, castagnoli) != sum {
		return 0, nil, r.damaged(errors.New("the checksum of a frame does not match"))
	}
	r.frames++
	return body[0], body[1:], nil
}

// The method `ended` distinguishes a truncated recording from a damaged one. A truncated file has no bytes after the
// incomplete frame.
func (r *Reader) ended(err error) error {
	r.done = true
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return r.damaged(err)
}

func (r *Reader) damaged(err error) error {
	r.done = true
	return ares.Errorf(ares.Invalid, "the recording is damaged after frame %d: %s", r.frames, err)
}
