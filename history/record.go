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

// recordVersion is the first byte of every record. Each new record format and each new dictionary
// gets the next version number.
const recordVersion = 1

// dictionary1 contains text that is typical of records of version 1. The dictionary makes the compressed form of short records
// small. The dictionary must never change.
//
//go:embed dictionary1.json
var dictionary1 []byte

// maxRecord is the maximum size of a record after decompression.
const maxRecord = 64 << 20

// A record is the part of a job that is not stored in a column or table.
type record struct {
	Job ares.Job `json:"job"`
	Run ares.Run `json:"run"`
}

// notKept replaces the value of each variable in the job's environment. The values may be secrets, and users other than the job's
// owner can read history.
const notKept = "(not kept in history)"

// WithoutEnvironment returns a copy of a job without the values of its environment variables. History and the
// archive must not store these values.
func WithoutEnvironment(job *ares.Job) ares.Job {
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

// The function `encode` encodes and compresses a record.
func encode(job *ares.Job, run *ares.Run) ([]byte, error) {
	r := record{WithoutEnvironment(job), *run}
	r.Run.Transitions, r.Job.Digest = nil, ares.Digest{} // these are stored in a table and a column
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode job %s: %w", job.ID, err)
	}
	var b bytes.Buffer
	b.WriteByte(recordVersion)
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&b)
	if _, err = w.Write(plain); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// The function `decode` decodes the output of encode.
func decode(data []byte) (r record, err error) {
	if len(data) == 0 || data[0] != recordVersion {
		return r, ares.Errorf(ares.Internal, "history contains a record that a newer Ares version wrote: upgrade this server")
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
