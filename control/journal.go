package control

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Journal is an append-only file of JSON lines that begins anew when it has
// grown large; one older file is kept.
type Journal struct {
	// Path of the file; ".1" is added for the older one.
	Path string
	// MaxBytes before it begins anew. 0 lets it grow.
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
		_ = j.close() // opened again, it is seen whether the line was torn
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// open makes the file ready for a line of n bytes.
func (j *Journal) open(n int64) error {
	if err := j.goOn(); err != nil {
		return err
	}
	if j.MaxBytes <= 0 || j.size == 0 || j.size+n <= j.MaxBytes {
		return nil
	}
	if err := j.close(); err != nil {
		return err
	}
	if err := os.Rename(j.Path, j.Path+".1"); err != nil {
		return fmt.Errorf("turn journal over: %w", err)
	}
	return j.goOn()
}

// goOn opens the file where it ended, if it is not open.
func (j *Journal) goOn() error {
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
	size, err := mend(f)
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("open journal: %w", err)
	}
	j.file, j.size = f, size
	return nil
}

// mend ends a line that was torn by a crash or a full disk, so that the next
// one is not lost with it. It returns the file's size.
func mend(f *os.File) (int64, error) {
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
