//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	ares "github.com/ares-scheduler/ares"
)

// close closes the files of an archive.
func (f *found) close() {
	for _, c := range f.files {
		_ = c.Close() // it was only read
	}
}

// The method `find` reads the manifest of an image. In a file of the node, it reads only what the job's user can read.
func (s *Store) find(ctx context.Context, req *Request) (*found, error) {
	if req.Reference.Kind == Registry {
		type answer struct {
			f   *found
			err error
		}
		// The layers that are fetched later may be for several callers, so they do not end with this one.
		answers := make(chan answer, 1)
		go func() {
			f, err := s.lookup(context.WithoutCancel(ctx), req)
			answers <- answer{f, err}
		}()
		select {
		case a := <-answers:
			return a.f, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f, err := readFile(req)
	if err != nil {
		return nil, fileProblem(req.Reference, err)
	}
	if req.Digest != "" && f.digest != req.Digest {
		f.close()
		return nil, ares.Errorf(ares.Invalid, "image %s has the digest %s on this node, but the first rank of the job has found %s: copy the same file to all nodes, and submit the job again",
			req.Reference, f.digest, req.Digest)
	}
	return f, nil
}

func fileProblem(ref Reference, err error) error {
	if coded, ok := errors.AsType[*ares.Error](err); ok {
		return coded
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ares.Errorf(ares.NotFound, "image %s: this node has no such file: copy it to the node, or use a registry (%v)", ref, err)
	case errors.Is(err, fs.ErrPermission):
		return ares.Errorf(ares.Forbidden, "image %s: the job's user may not read the file: run chmod a+r on it, and chmod a+x on the directories above (%v)", ref, err)
	}
	return ares.Errorf(ares.Invalid, "image %s cannot be read: %v: write it again with docker save, skopeo copy or crane", ref, err)
}

// opener opens files with the rights of a user.
type opener struct{ user *Owner }

// The method `open` opens a file for reading. The rights belong to a thread that ends afterwards.
func (o opener) open(path string) (f *os.File, err error) {
	if o.user == nil {
		return openRegular(path)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			err = os.NewSyscallError("setgroups", errno)
			return
		}
		// These calls return the previous value. The rights of root over files are gone with the user.
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(o.user.GID), 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(o.user.UID), 0, 0)
		f, err = openRegular(path)
	})
	wg.Wait()
	return f, err
}

func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New(path + " is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func readFile(req *Request) (*found, error) {
	o, ref := opener{req.User}, req.Reference
	if ref.Kind == Directory {
		return readLayout(ref, &layout{open: func(path string) (io.ReadCloser, error) { return o.open(filepath.Join(ref.Path, path)) }})
	}
	f, err := o.open(ref.Path)
	if err != nil {
		return nil, err
	}
	files, err := indexTar(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	read := readLayout
	if ref.Kind == DockerArchive {
		read = readDockerArchive
	}
	found, err := read(ref, files.layout(f))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	found.files = append(found.files, f)
	return found, nil
}

// tarFiles are the offset and the size of each file in a tar file.
type tarFiles map[string][2]int64

// The method `layout` reads the files of a tar file.
func (t tarFiles) layout(f *os.File) *layout {
	missing := func(path string) error { return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist} }
	return &layout{
		open: func(path string) (io.ReadCloser, error) {
			at, ok := t[path]
			if !ok {
				return nil, missing(path)
			}
			return io.NopCloser(io.NewSectionReader(f, at[0], at[1])), nil
		},
		size: func(path string) (int64, error) {
			at, ok := t[path]
			if !ok {
				return 0, missing(path)
			}
			return at[1], nil
		},
	}
}

// indexTar finds the files in a tar file.
func indexTar(f *os.File) (tarFiles, error) {
	const maxEntries = 100_000
	files, links := tarFiles{}, map[string]string{}
	t := tar.NewReader(f)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is not a tar file, or it is compressed: %w", err)
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			files[name] = [2]int64{at, h.Size}
		case tar.TypeSymlink: // docker save writes a layer once
			links[name] = path.Join(path.Dir(name), h.Linkname)
		}
		if len(files)+len(links) > maxEntries {
			return nil, fmt.Errorf("it has more than %d files, so it is no archive of an image", maxEntries)
		}
	}
	for name, to := range links {
		if at, ok := files[to]; ok {
			files[name] = at
		}
	}
	return files, nil
}

// readDockerArchive reads the output of docker save. Its layers have no digests of their own, so only their diff IDs are compared.
func readDockerArchive(ref Reference, l *layout) (*found, error) {
	b, err := l.read("manifest.json", maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ares.Errorf(ares.Invalid, "image %s has no manifest.json, so it is no Docker archive: try oci-archive:%s", ref, ref.Path)
	}
	if err != nil {
		return nil, err
	}
	var images []struct {
		Config string
		Layers []string
	}
	if err = json.Unmarshal(b, &images); err != nil {
		return nil, err
	}
	if len(images) != 1 {
		return nil, ares.Errorf(ares.Invalid, "image %s contains %d images: write a file with one image, with docker save NAME", ref, len(images))
	}
	config, err := l.read(path.Clean(images[0].Config), maxManifest)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(config)
	f := &found{digest: "sha256:" + hex.EncodeToString(sum[:]), private: true}
	if f.config, err = v1.ParseConfigFile(bytes.NewReader(config)); err != nil {
		return nil, err
	}
	for _, name := range images[0].Layers {
		name = path.Clean(name)
		size, err := l.size(name)
		if err != nil {
			return nil, err
		}
		f.layers = append(f.layers, layerSource{size: size, open: func() (io.ReadCloser, error) { return l.open(name) }})
	}
	return f, nil
}

// A layout is the files of an image, in a directory or in a tar file.
type layout struct {
	open func(path string) (io.ReadCloser, error)
	size func(path string) (int64, error) // only in a tar file
}

func readLayout(ref Reference, l *layout) (*found, error) {
	b, err := l.read("index.json", maxManifest)
	if errors.Is(err, fs.ErrNotExist) && ref.Kind == OCIArchive {
		return nil, ares.Errorf(ares.Invalid, "image %s has no index.json, so it is no OCI archive: try docker-archive:%s", ref, ref.Path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ares.Errorf(ares.NotFound, "image %s: this node has no file %s: the directory must have the OCI layout, as skopeo copy … oci:DIRECTORY writes it", ref, filepath.Join(ref.Path, "index.json"))
	}
	if err != nil {
		return nil, err
	}
	var digest string
	for range 4 { // an index may be in an index
		var index v1.IndexManifest
		if err = json.Unmarshal(b, &index); err != nil {
			return nil, err
		}
		d, err := choose(ref, index.Manifests)
		if err != nil {
			return nil, err
		}
		if digest == "" {
			digest = d.Digest.String()
		}
		if b, err = l.blob(d.Digest, maxManifest); err != nil {
			return nil, err
		}
		if !d.MediaType.IsIndex() {
			f, err := l.manifest(b)
			if err == nil {
				f.digest = digest
			}
			return f, err
		}
	}
	return nil, errors.New("its index refers to other indexes again and again")
}

// The method `manifest` reads an image's configuration and the places of its layers.
func (l *layout) manifest(b []byte) (*found, error) {
	m, err := v1.ParseManifest(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	config, err := l.blob(m.Config.Digest, maxManifest)
	if err != nil {
		return nil, err
	}
	f := &found{private: true}
	if f.config, err = v1.ParseConfigFile(bytes.NewReader(config)); err != nil {
		return nil, err
	}
	for _, d := range m.Layers {
		path, err := blobFile(d.Digest)
		if err != nil {
			return nil, err
		}
		f.layers = append(f.layers, layerSource{digest: d.Digest.String(), size: d.Size, open: func() (io.ReadCloser, error) { return l.open(path) }})
	}
	return f, nil
}

// choose returns the manifest of a list that is for this machine.
func choose(ref Reference, list []v1.Descriptor) (v1.Descriptor, error) {
	var others []string
	for _, d := range list {
		p := d.Platform
		if p == nil && len(list) == 1 || p != nil && p.OS == "linux" && p.Architecture == runtime.GOARCH {
			return d, nil
		}
		if p != nil && p.OS != "unknown" {
			others = append(others, p.OS+"/"+p.Architecture)
		}
	}
	if len(others) == 0 {
		return v1.Descriptor{}, ares.Errorf(ares.Invalid, "image %s contains %d images: write a file with one image", ref, len(list))
	}
	return v1.Descriptor{}, wrongPlatform(ref, strings.Join(others, ", "))
}

func (l *layout) read(path string, limit int64) ([]byte, error) {
	f, err := l.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return b, err
}

func (l *layout) blob(h v1.Hash, limit int64) ([]byte, error) {
	path, err := blobFile(h)
	if err != nil {
		return nil, err
	}
	b, err := l.read(path, limit)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != h.Hex {
		return nil, fmt.Errorf("%s has another digest than its name says", path)
	}
	return b, nil
}

func blobFile(h v1.Hash) (string, error) {
	if h.Algorithm != "sha256" || len(h.Hex) != 2*sha256.Size {
		return "", fmt.Errorf("%q is no SHA-256 digest", h)
	}
	return "blobs/sha256/" + h.Hex, nil
}
