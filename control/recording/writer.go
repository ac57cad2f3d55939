package recording

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a recording.
type Writer struct {
	zip  *gzip.Writer
	size *counter
	head []byte // scratch, as is body
	body []byte
}

// NewWriter begins a recording.
func NewWriter(to io.Writer, h Header) (*Writer, error) {
	size := &counter{to: to}
	// Recordings are written all the time, so the time that compression takes is worth more than the last percents of size.
	zip, err := gzip.NewWriterLevel(size, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("begin a recording: %w", err)
	}
	w := &Writer{zip: zip, size: size}
	return w, w.json(frameHeader, h)
}

// Batch writes a batch that the engine received. If the batch is a snapshot, its events are sorted
// first.
//
// Environments are left out. Users put passwords there, no decision depends on them, and recordings outlive the jobs.
func (w *Writer) Batch(b ares.Batch) error {
	b.Events = withoutEnvironments(b.Events)
	if b.Reset {
		b.Events = slices.Clone(b.Events)
		slices.SortFunc(b.Events, inOrder)
	}
	for events := b.Events; ; {
		n := min(len(events), partEvents)
		b.Events, events = events[:n], events[n:]
		body, err := store.EncodeBatch(b)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return w.frame(frameBatch, body)
		}
		if err = w.frame(framePart, body); err != nil {
			return err
		}
	}
}

// withoutEnvironments returns the events without the environments of jobs. The given events are not changed, because the engine uses them.
func withoutEnvironments(events []ares.Event) []ares.Event {
	copied := false
	for i := range events {
		job := events[i].Job
		if job == nil || len(job.Environment) == 0 {
			continue
		}
		if !copied {
			events, copied = slices.Clone(events), true
		}
		bare := *job
		bare.Environment = nil
		events[i].Job = &bare
	}
	return events
}

// Decision writes a decision of the engine.
func (w *Writer) Decision(d Decision) error {
	w.body = d.appendJSON(w.body[:0])
	return w.frame(frameDecision, w.body)
}

// appendJSON appends what json.Marshal returns for the decision. It takes a tenth of the time, and decisions are recorded all the time.
func (d *Decision) appendJSON(to []byte) []byte {
	to = strconv.AppendInt(append(to, `{"revision":`...), d.Revision, 10)
	to = d.Now.AppendFormat(append(to, `,"now":"`...), time.RFC3339Nano)
	to = append(append(to, `","digest":"`...), d.Digest...) // hexadecimal digits
	to = append(to, '"')
	for _, count := range [...]struct {
		key string
		n   int
	}{{`,"placed":`, d.Placed}, {`,"ready":`, d.Ready}, {`,"arrays":`, d.Arrays}, {`,"stopped":`, d.Stopped}} {
		if count.n != 0 {
			to = strconv.AppendInt(append(to, count.key...), int64(count.n), 10)
		}
	}
	return append(to, '}')
}

// Flush writes all buffered data to the file.
func (w *Writer) Flush() error { return w.zip.Flush() }

// Close writes the end mark of the recording. Close does not close the underlying file.
func (w *Writer) Close(why string) error {
	if err := w.json(frameEnd, End{why}); err != nil {
		return err
	}
	return w.zip.Close()
}

// Size returns the number of bytes written to the file so far.
func (w *Writer) Size() int64 { return w.size.n }

func (w *Writer) json(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode recording: %w", err)
	}
	return w.frame(kind, body)
}

// The method `frame` writes the length of the body, the kind, the body, and a checksum of kind and body.
func (w *Writer) frame(kind byte, body []byte) error {
	w.head = append(binary.AppendUvarint(w.head[:0], uint64(len(body))), kind)
	sum := crc32.Update(crc32.Checksum(w.head[len(w.head)-1:], castagnoli), castagnoli, body)
	for _, part := range [][]byte{w.head, body, binary.BigEndian.AppendUint32(nil, sum)} {
		if _, err := w.zip.Write(part); err != nil {
			return fmt.Errorf("write recording: %w", err)
		}
	}
	return nil
}

// inOrder compares the events of a snapshot for sorting. inOrder sorts a record before the records that refer to it. Because events
// are sorted, the same state always produces the same file.
func inOrder(a, b ares.Event) int {
	ka, ia := rank(&a)
	kb, ib := rank(&b)
	return cmp.Or(cmp.Compare(ka, kb), cmp.Compare(ia, ib))
}

func rank(e *ares.Event) (kind int, id string) {
	switch {
	case e.Tenant != nil:
		return 0, e.Tenant.ID
	case e.Queue != nil:
		return 1, e.Queue.ID()
	case e.Topology != nil:
		return 2, ""
	case e.Node != nil:
		return 3, e.Node.ID
	case e.Session != nil:
		return 4, e.Session.Node
	case e.Cordon != nil:
		return 5, e.Cordon.Node
	case e.Score != nil:
		return 11, e.Score.Node
	case e.Usage != nil:
		return 6, ares.QueueID(e.Usage.Tenant, e.Usage.Queue)
	case e.Job != nil:
		return 7, string(e.Job.ID)
	case e.Run != nil:
		return 8, string(e.Run.Job)
	case e.Forecast != nil:
		return 9, string(e.Forecast.Job)
	case e.Progress != nil:
		return 10, string(e.Progress.Job)
	}
	if e.Reservation != nil {
		return 12, e.Reservation.Name
	}
	if e.Policy != nil {
		return 13, e.Policy.ID()
	}
	if e.Protect != nil { // the store refuses to encode it; the order is complete nevertheless
		return 15, string(e.Protect.Job)
	}
	if e.Grant != nil {
		return 16, string(e.Grant.Job)
	}
	return 14, string(e.Gone.Kind) + "/" + e.Gone.ID
}

// The type `counter` counts the bytes written through it.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
