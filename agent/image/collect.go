//go:build linux

package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// diskUsage returns how much of a directory's disk is used, in percent, as df does.
func diskUsage(dir string) (int, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	used := st.Blocks - st.Bfree
	if used+st.Bavail == 0 {
		return 0, nil
	}
	return int((used*100 + used + st.Bavail - 1) / (used + st.Bavail)), nil
}

// Collect removes the least recently used layers if the disk is too full. Layers of live seats and of running pulls stay. It returns how
// many it has removed.
func (s *Store) Collect() (removed int, err error) {
	used, err := s.cfg.Usage(s.dir)
	if err != nil || used <= s.cfg.High {
		return 0, err
	}
	for used > s.cfg.Low {
		name := s.oldest()
		if name == "" {
			break
		}
		if err = s.removeLayer(name); err != nil {
			return removed, err
		}
		removed++
		if used, err = s.cfg.Usage(s.dir); err != nil {
			break
		}
	}
	return removed, errors.Join(err, s.forgetIncomplete())
}

// IsFull reports whether the disk is too full, although every layer that can be removed was removed.
func (s *Store) IsFull() bool {
	if _, err := s.Collect(); err != nil {
		return true
	}
	used, err := s.cfg.Usage(s.dir)
	return err != nil || used > s.cfg.High
}

// oldest returns the layer without a lock that was not used for the longest time, or "". Of layers of the same image, the order does not matter.
func (s *Store) oldest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := ""
	for name, l := range s.layers {
		if s.locks[name] == 0 && (found == "" || l.used.Before(s.layers[found].used) || l.used.Equal(s.layers[found].used) && name < found) {
			found = name
		}
	}
	return found
}

// removeLayer removes a layer that nobody uses. It first loses its name, so that a killed agent leaves no half of a layer.
func (s *Store) removeLayer(name string) error {
	gone := filepath.Join(s.dir, tmpDir, "gone-"+name)
	s.mu.Lock()
	if s.locks[name] > 0 || s.layers[name] == nil {
		s.mu.Unlock()
		return nil
	}
	err := os.Rename(filepath.Join(s.dir, layersDir, name), gone)
	if err == nil {
		delete(s.layers, name)
	}
	s.mu.Unlock()
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		return fmt.Errorf("remove a layer of an image: %w", err)
	}
	return nil
}

// forgetIncomplete removes the records of images that have lost a layer.
func (s *Store) forgetIncomplete() error {
	records, err := s.records()
	if err != nil {
		return err
	}
	for _, r := range records {
		s.mu.Lock()
		lost := slices.ContainsFunc(r.Layers, func(name string) bool { return s.layers[name] == nil && s.locks[name] == 0 })
		s.mu.Unlock()
		if lost {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, recordsDir, r.file())))
		}
	}
	return err
}

// Listed is an image in the store, as one tenant has pulled it.
type Listed struct {
	Reference string    `json:"reference"`
	Digest    string    `json:"digest"`
	Tenant    string    `json:"tenant"`
	Bytes     int64     `json:"bytes"` // of its layers on the disk; images share layers
	Layers    int       `json:"layers"`
	Pulled    time.Time `json:"pulled"`
	Used      time.Time `json:"used"`
	InUse     bool      `json:"in_use"` // by a running job or pull
}

// List returns the images of one tenant, or of all tenants with "".
func (s *Store) List(tenant string) ([]Listed, error) {
	records, err := s.records()
	if err != nil {
		return nil, fmt.Errorf("list the images: %w", err)
	}
	var all []Listed
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		if tenant != "" && r.Tenant != tenant {
			continue
		}
		l := Listed{Reference: r.Reference, Digest: r.Digest, Tenant: r.Tenant, Layers: len(r.Layers), Pulled: r.Pulled}
		for _, name := range r.Layers {
			if state := s.layers[name]; state != nil {
				l.Bytes, l.InUse = l.Bytes+state.Bytes, l.InUse || s.locks[name] > 0
				if state.used.After(l.Used) {
					l.Used = state.used
				}
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// Remove removes an image of a tenant, or of all tenants with "", and the layers that no other image has. The argument names a reference or
// the beginning of a digest.
func (s *Store) Remove(tenant, which string) (bytes int64, err error) {
	records, err := s.records()
	if err != nil {
		return 0, fmt.Errorf("remove an image: %w", err)
	}
	kept, found := map[string]bool{}, map[string]bool{}
	for _, r := range records {
		mine := tenant == "" || r.Tenant == tenant
		short := strings.TrimPrefix(r.Digest, "sha256:")
		wanted := strings.TrimPrefix(which, "sha256:")
		if !mine || r.Reference != which && (len(wanted) < 12 || !strings.HasPrefix(short, wanted)) {
			for _, name := range r.Layers {
				kept[name] = true
			}
			continue
		}
		for _, name := range r.Layers {
			found[name] = true
		}
		if err = os.Remove(filepath.Join(s.dir, recordsDir, r.file())); err != nil {
			return 0, fmt.Errorf("remove an image: %w", err)
		}
	}
	if len(found) == 0 {
		return 0, ares.Errorf(ares.NotFound, "this node has no image %s: ares image list shows the images", ares.Clip(which))
	}
	for name := range found {
		s.mu.Lock()
		state, locked := s.layers[name], s.locks[name] > 0
		s.mu.Unlock()
		if kept[name] || state == nil || locked {
			continue // a locked layer is removed when the disk becomes full
		}
		bytes += state.Bytes
		err = errors.Join(err, s.removeLayer(name))
	}
	return bytes, err
}
