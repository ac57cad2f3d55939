package lifecycle

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Journal is an append-only file of JSON lines. When the file is full, it is renamed and a new file
// begins. Only one previous file is kept.
type Journal struct {
	// Path is the path of the file. The previous file has the same path with ".1" added.
	Path string
	// MaxBytes is the size at which a new file begins. 0 means never.
	MaxBytes int64
	// Sync makes each line durable before Append returns.
	Sync bool

	mu   sync.Mutex
	file *os.File
	size int64
}

// Append writes one line.
func (j *Journal) Append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode journal line: %w", err)
	}
	line = append(line, '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if err = j.open(int64(len(line))); err != nil {
		return err
	}
	n, err := j.file.Write(line)
	j.size += int64(n)
	if err == nil && j.Sync {
		err = j.file.Sync()
	}
	if err != nil {
		_ = j.close() // reopening the file repairs a truncated line
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// The method `open` opens the file, or begins a new file if a line of n bytes does not fit.
func (j *Journal) open(n int64) error {
	if err := j.reopen(); err != nil {
		return err
	}
	if j.MaxBytes <= 0 || j.size == 0 || j.size+n <= j.MaxBytes {
		return nil
	}
	if err := j.close(); err != nil {
		return err
	}
	if err := os.Rename(j.Path, j.Path+".1"); err != nil {
		return fmt.Errorf("the journal reached its size limit, but it could not be renamed: %w", err)
	}
	return j.reopen()
}

// The method `reopen` opens the file for appending, if it is not open.
func (j *Journal) reopen() error {
	if j.file != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(j.Path), 0o700); err != nil {
		return fmt.Errorf("make journal directory: %w", err)
	}
	f, err := os.OpenFile(j.Path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	size, err := repair(f)
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("open journal: %w", err)
	}
	j.file, j.size = f, size
	return nil
}

// The function `repair` ends a line that a crash or a full disk has cut off. The next entry is then
// written on its own line and stays readable. The result is the file's size.
func repair(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	last := make([]byte, 1)
	if _, err = f.ReadAt(last, info.Size()-1); err != nil {
		return 0, err
	}
	if last[0] == '\n' {
		return info.Size(), nil
	}
	n, err := f.Write([]byte{'\n'})
	return info.Size() + int64(n), err
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.close()
}

func (j *Journal) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
