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
	// End is why the recording ends, once Next has said io.EOF; "" when it has no
	// mark there: its server was killed, or is still writing it.
	End string

	in     *bufio.Reader
	frames int // read so far
	done   bool
}

// Frame is one thing that was recorded: a batch or a decision.
type Frame struct {
	Batch    *ares.Batch
	Decision *Decision
}

// NewReader reads the beginning of a recording.
func NewReader(from io.Reader) (*Reader, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "this is no recording of Ares: %s", err)
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
		return nil, ares.Errorf(ares.Invalid, "this is no recording of Ares")
	}
	r.Header, err = readHeader(body)
	return r, err
}

// Next is what was recorded next, io.EOF at the end. A recording that was torn
// ends before the tear; one with damage in the middle is an error.
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
			return Frame{}, r.damaged(fmt.Errorf("a frame of kind %q", kind))
		}
	}
	return Frame{}, io.EOF
}

// frame reads one frame, io.EOF when there is no whole one any more.
func (r *Reader) frame() (kind byte, body []byte, err error) {
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, nil, r.ended(err)
	}
	if size > maxFrame {
		return 0, nil, r.damaged(fmt.Errorf("a frame of %d bytes", size))
	}
	body = make([]byte, 0, min(size, 1<<20)+5)
	var chunk [32 << 10]byte
	for left := int(size) + 5; left > 0; { // it grows with what is there, not with what is promised
		n, err := io.ReadFull(r.in, chunk[:min(left, len(chunk))])
		if err != nil {
			return 0, nil, r.ended(err)
		}
		body = append(body, chunk[:n]...)
		left -= n
	}
	body, sum := body[:size+1], binary.BigEndian.Uint32(body[size+1:])
	if crc32.Checksum(body, castagnoli) != sum {
		return 0, nil, r.damaged(errors.New("a sum does not match"))
	}
	r.frames++
	return body[0], body[1:], nil
}

// ended tells a tear from damage: a file that was cut just stops.
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
