package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Writer appends records to the files of a run. A Writer is safe for use by
// many goroutines.
type Writer struct {
	Dir string

	mu    sync.Mutex
	files map[string]*os.File
}

// Create makes the directory of a run.
func Create(dir string) (*Writer, error) {
	if err := os.MkdirAll(filepath.Join(dir, JobsDir), 0o700); err != nil {
		return nil, err
	}
	w := &Writer{Dir: dir, files: map[string]*os.File{}}
	for _, name := range []string{CallsFile, StoreFile, FaultsFile} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.files[name] = f
	}
	return w, nil
}

// Call writes one client call to the record.
func (w *Writer) Call(c Call) error { return w.add(CallsFile, c) }

// Entry writes one revision of the store to the record.
func (w *Writer) Entry(e Entry) error { return w.add(StoreFile, e) }

// Fault writes one injected fault to the record.
func (w *Writer) Fault(f Fault) error { return w.add(FaultsFile, f) }

// Meta writes the description of the run and replaces the previous one.
func (w *Writer) Meta(m Meta) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.Dir, MetaFile), append(data, '\n'), 0o600)
}

// Close closes the files of the record.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, f := range w.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (w *Writer) add(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.files[file].Write(append(data, '\n'))
	return err
}

// Load reads the record of a run.
func Load(dir string) (*Run, error) {
	r := &Run{Witnesses: map[string][]Witness{}}
	data, err := os.ReadFile(filepath.Join(dir, MetaFile))
	if err == nil {
		err = json.Unmarshal(data, &r.Meta)
	}
	err = errors.Join(err, load(dir, CallsFile, &r.Calls), load(dir, StoreFile, &r.Store), load(dir, FaultsFile, &r.Faults))
	if err != nil {
		return nil, fmt.Errorf("read the record in %s: %w", dir, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, JobsDir, "*.trace"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r.Witnesses[strings.TrimSuffix(filepath.Base(file), ".trace")] = ParseWitnesses(string(data))
	}
	return r, nil
}

func load[T any](dir, file string, into *[]T) error {
	f, err := os.Open(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // the end; an incomplete line was left by a killed writer
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
		*into = append(*into, v)
	}
}

// Line formats a witness as one line. The process must write that line with a
// single write call.
func (w Witness) Line() string {
	return fmt.Sprintf("%s %d %d %d %s %d %d %s\n", w.Verb, w.Attempt, w.Fence, w.Rank, w.Node, w.Pid, w.At.Nanoseconds(), w.Detail)
}

// ParseWitnesses parses the lines that the processes of one job wrote. The
// result has the order in which the lines were written. ParseWitnesses drops
// an incomplete line, which a writer leaves when it is killed.
func ParseWitnesses(text string) []Witness {
	var out []Witness
	for line := range strings.Lines(text) {
		var w Witness
		var ns int64
		n, _ := fmt.Sscan(line, &w.Verb, &w.Attempt, &w.Fence, &w.Rank, &w.Node, &w.Pid, &ns, &w.Detail)
		if n < 7 || !strings.HasSuffix(line, "\n") {
			continue
		}
		w.At = time.Duration(ns)
		out = append(out, w)
	}
	return out
}
