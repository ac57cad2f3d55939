package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"golang.org/x/sys/unix"

	ares "github.com/ares-scheduler/ares"
)

// A Place is a directory or a URL of a bucket. Exactly one of the two is set.
type Place struct {
	Dir string
	URL *url.URL
}

// InDir returns the place of a directory.
func InDir(dir string) Place { return Place{Dir: dir} }

// Sub returns the place of the objects whose keys begin with a name and a slash.
func (p Place) Sub(name string) Place {
	if p.URL != nil {
		return Place{URL: p.URL.JoinPath(name)}
	}
	return Place{Dir: filepath.Join(p.Dir, name)}
}

// String returns the directory, or the URL.
func (p Place) String() string {
	if p.URL != nil {
		return p.URL.Redacted()
	}
	return p.Dir
}

// Bucket is an open place. It is safe for concurrent use.
type Bucket struct {
	*blob.Bucket
	place   Place
	refused atomic.Pointer[ares.Error]
	closing sync.Once
}

// Open opens a place. It creates a directory that is missing. It does not call an S3 server, which may be away for the moment.
func Open(ctx context.Context, p Place) (*Bucket, error) {
	if p.URL != nil {
		b, err := openS3(ctx, p.URL)
		if err != nil {
			return nil, err
		}
		return &Bucket{Bucket: b, place: p}, nil
	}
	// The objects are users' code and output, so only the server's own user may read them.
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory for objects: %w", err)
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return nil, err
	}
	// The temporary files are in the directory itself, because a rename does not work between file systems.
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{DirFileMode: 0o700, NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, fmt.Errorf("open the directory for objects: %w", err)
	}
	return &Bucket{Bucket: b, place: InDir(dir)}, nil
}

// Place returns where the objects are.
func (b *Bucket) Place() Place { return b.place }

// Close closes the bucket.
func (b *Bucket) Close() (err error) {
	b.closing.Do(func() { err = b.Bucket.Close() })
	return err
}

// Refuse closes the bucket, because it must not be used. All calls from then on fail, and Problem says why.
func (b *Bucket) Refuse(why *ares.Error) error {
	b.refused.Store(why)
	return b.Close()
}

// Write stores an object, or replaces it. After an error, the object is as before. The functions of blob.Bucket that do this keep a part
// of the object if the write fails, for example on a full disk, and readers of a directory would take it for the object.
func (b *Bucket) Write(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.NewWriter(ctx, key, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return err
	}
	if _, err = w.Write(data); err != nil {
		cancel() // now Close drops what was written
		_ = w.Close()
		return err
	}
	return w.Close()
}

// Flush returns when everything that was stored survives a power failure. What an S3 server has confirmed already does.
func (b *Bucket) Flush() error {
	if b.place.URL != nil {
		return nil
	}
	return flush(b.place.Dir)
}

// FlushObject is like Flush, for one object only.
func (b *Bucket) FlushObject(key string) error {
	if b.place.URL != nil {
		return nil
	}
	for path := filepath.Join(b.place.Dir, filepath.FromSlash(key)); ; path = filepath.Dir(path) {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err = errors.Join(f.Sync(), f.Close()); err != nil || path == b.place.Dir {
			return err
		}
	}
}

// Free returns the free space of a directory. The space of an S3 server is not known.
func (b *Bucket) Free() (bytes int64, known bool) {
	var st unix.Statfs_t
	if b.place.URL != nil || unix.Statfs(b.place.Dir, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}

// Prune removes the empty directories below a prefix, and its own, which deleting leaves behind in a directory. A directory that is not
// empty stays. One that another server is about to write into may go too, and then that write fails.
func (b *Bucket) Prune(prefix string) error {
	if b.place.URL != nil {
		return nil // it has no directories
	}
	top := filepath.Join(b.place.Dir, filepath.FromSlash(prefix))
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != b.place.Dir {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir)
	}
	return err
}

// Problem turns an error of the bucket into one of Ares.
func (b *Bucket) Problem(doing string, err error) error {
	if err == nil {
		return nil
	}
	if why := b.refused.Load(); why != nil {
		return why
	}
	var known *ares.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return ares.Errorf(ares.LimitReached, "%s: the disk of the server's objects is full: an administrator must free space in %s", doing, b.place)
	case b.place.URL != nil:
		return ares.Errorf(ares.Unavailable, "%s in %s: %s", doing, b.place, s3Reason(err))
	}
	return ares.Errorf(ares.Unavailable, "%s in %s: %s", doing, b.place, err)
}
