package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ReleasePages unmaps the pages of the embedded store's file that are in memory. etcd maps the whole file into the
// process and reads all of it when it starts. Later it needs few of these pages, and finds them in the system's file
// cache. For an external etcd, ReleasePages does nothing.
func (s *Store) ReleasePages() error {
	if s.inside == nil {
		return nil
	}
	// While a read transaction is open, bbolt does not move its mapping, so another mapping cannot take its addresses.
	tx := s.inside.etcd.Server.Backend().ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()
	maps, err := os.ReadFile("/proc/self/maps")
	if errors.Is(err, os.ErrNotExist) {
		return nil // not Linux
	}
	if err != nil {
		return fmt.Errorf("find the mapping of the store: %w", err)
	}
	file, err := filepath.Abs(databaseFile(s.cfg.Dir))
	if err == nil {
		file, err = filepath.EvalSymlinks(file)
	}
	if err != nil {
		return fmt.Errorf("find the store's file: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		start, end, ok := sharedMapping(strings.TrimSuffix(line, "\n"), file)
		if !ok {
			continue
		}
		if _, _, bad := syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED); bad != 0 {
			return fmt.Errorf("release the pages of the store: %w", bad)
		}
	}
	return nil
}

// databaseFile is the file in which an embedded etcd keeps its records.
func databaseFile(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

// sharedMapping reads one line of /proc/self/maps. It returns the addresses if the line is a read-only shared mapping
// of the file. Only the pages of such a mapping can be dropped without a loss.
func sharedMapping(line, file string) (start, end uintptr, ok bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 6 || fields[1] != "r--s" || strings.TrimLeft(fields[5], " ") != file {
		return 0, 0, false
	}
	if _, err := fmt.Sscanf(fields[0], "%x-%x", &start, &end); err != nil {
		return 0, 0, false
	}
	return start, end, end > start
}
