package history

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// recordVersion begins every record. A new form of records, or a new
// dictionary, gets the next.
const recordVersion = 1

// dictionary1 is what records of version 1 mostly look like; it makes short
// records small. It must never change.
//
//go:embed dictionary1.json
var dictionary1 []byte

// maxRecord bounds what a record may unfold to.
const maxRecord = 64 << 20

// record is what of a job is not in a column or a table of its own.
type record struct {
	Job ares.Job `json:"job"`
	Run ares.Run `json:"run"`
}

// notKept stands for the value of a variable of the job's environment: they may
// be secrets, and history is read by others than the job's owner.
const notKept = "(not kept in history)"

// Forgetful returns a job without what history and the archive do not keep: the
// values of its environment.
func Forgetful(job *ares.Job) ares.Job {
	j := *job
	if len(j.Environment) > 0 {
		j.Environment = make(map[string]string, len(job.Environment))
		for name := range job.Environment {
			j.Environment[name] = notKept
		}
	}
	return j
}

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriterDict(io.Discard, flate.DefaultCompression, dictionary1)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// encode writes a record down.
func encode(job *ares.Job, run *ares.Run) ([]byte, error) {
	r := record{Forgetful(job), *run}
	r.Run.Transitions, r.Job.Digest = nil, ares.Digest{} // have a table, and a column
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode job %s: %w", job.ID, err)
	}
	var b bytes.Buffer
	b.WriteByte(recordVersion)
	w := deflaters.Get().(*flate.Writer) //nolint:errcheck // the pool holds nothing else
	defer deflaters.Put(w)
	w.Reset(&b)
	if _, err = w.Write(plain); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// decode reads what encode wrote.
func decode(data []byte) (r record, err error) {
	if len(data) == 0 || data[0] != recordVersion {
		return r, ares.Errorf(ares.Internal, "history has a record of a newer Ares: read it with that")
	}
	in := flate.NewReaderDict(bytes.NewReader(data[1:]), dictionary1)
	plain, err := io.ReadAll(io.LimitReader(in, maxRecord))
	if err != nil {
		return r, fmt.Errorf("read a record: %w", err)
	}
	if err = json.Unmarshal(plain, &r); err != nil {
		return r, fmt.Errorf("read a record: %w", err)
	}
	return r, nil
}
