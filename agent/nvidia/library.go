package nvidia

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
)

// library is one library of the driver: its name for the loader, and the file that has its content.
type library struct{ name, file string }

// These constants describe the cache of the loader, /etc/ld.so.cache, as glibc writes it since version 2.32, alone or behind a cache of the
// older format.
const (
	cacheFile   = "/etc/ld.so.cache"
	cacheMagic  = "glibc-ld.so.cache1.1"
	headerSize  = 48
	entrySize   = 24
	maxCache    = 64 << 20
	cudaLibrary = "libcuda.so.1"
	typeMask    = 0xff00
)

// archTypes are the flags of libraries for this machine's programs.
var archTypes = map[string]uint32{"amd64": 0x0300, "arm64": 0x0a00}

// versioned matches the file of a library that belongs to one version of the driver.
var versioned = regexp.MustCompile(`^lib[\w.+-]+\.so\.(\d+\.\d+(?:\.\d+)?)$`)

// The method `libraries` finds the libraries of the driver. All of them have the version of the driver in their file names.
func (t tree) libraries() ([]library, error) {
	cache, err := os.ReadFile(t.path(cacheFile))
	if err != nil {
		return nil, fmt.Errorf("the libraries of the driver are found with the loader's cache: run ldconfig (%w)", err)
	}
	all, err := parseCache(cache, archTypes[runtime.GOARCH])
	if err != nil {
		return nil, fmt.Errorf("%s: %w: run ldconfig", cacheFile, err)
	}
	var cuda string
	real := map[string]string{}
	for _, l := range all {
		file, err := t.resolve(l.file)
		if err != nil {
			continue // a stale entry
		}
		real[l.file] = file
		if m := versioned.FindStringSubmatch(path.Base(file)); l.name == cudaLibrary && m != nil && cuda == "" {
			cuda = m[1]
		}
	}
	if cuda == "" {
		return nil, fmt.Errorf("%s has no %s of a driver: install the driver's libraries (such as the package libnvidia-compute), and run ldconfig", cacheFile, cudaLibrary)
	}
	var out []library
	seen := map[string]bool{}
	for _, l := range all { // of equal names, the loader prefers the first
		m := versioned.FindStringSubmatch(path.Base(real[l.file]))
		if m == nil || m[1] != cuda || seen[l.name] || path.Base(l.name) != l.name {
			continue
		}
		seen[l.name] = true
		out = append(out, library{l.name, real[l.file]})
	}
	slices.SortFunc(out, func(a, b library) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return out, nil
}

var errNoCache = errors.New("it is not a cache of glibc 2.32 or later, or it is damaged")

// parseCache returns the libraries of a type in the cache's order.
func parseCache(b []byte, kind uint32) ([]library, error) {
	if len(b) > maxCache {
		return nil, errNoCache
	}
	at := bytes.Index(b, []byte(cacheMagic))
	if at < 0 || len(b)-at < headerSize {
		return nil, errNoCache
	}
	b = b[at:] // the positions of texts count from here
	count := uint64(binary.LittleEndian.Uint32(b[len(cacheMagic):]))
	if count*entrySize > uint64(len(b)-headerSize) {
		return nil, errNoCache
	}
	text := func(at uint32) (string, bool) {
		if uint64(at) >= uint64(len(b)) {
			return "", false
		}
		end := bytes.IndexByte(b[at:], 0)
		if end < 0 {
			return "", false
		}
		return string(b[at:][:end]), true
	}
	var out []library
	for i := range count {
		e := b[headerSize+i*entrySize:]
		if binary.LittleEndian.Uint32(e)&typeMask != kind {
			continue
		}
		name, ok1 := text(binary.LittleEndian.Uint32(e[4:]))
		file, ok2 := text(binary.LittleEndian.Uint32(e[8:]))
		if !ok1 || !ok2 {
			return nil, errNoCache
		}
		out = append(out, library{name, path.Clean(file)})
	}
	return out, nil
}
