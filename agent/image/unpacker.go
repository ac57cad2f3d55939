//go:build linux

package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// UnpackerName is the name under which this program unpacks a layer; see RunUnpacker.
const UnpackerName = "ares-unpack-layer"

// Limits restrict one layer. A small layer can unpack to any size, so both are counted while it is unpacked.
type Limits struct {
	Files int64
	Bytes int64
}

// unpacked is what a child reports on its standard output.
type unpacked struct {
	Digest string `json:"digest"` // of the layer as it came
	DiffID string `json:"diff_id"`
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	// Error says what is wrong with the layer. Full is true if instead the node has no space for it.
	Error string `json:"error,omitzero"`
	Full  bool   `json:"full,omitzero"`
}

// RunUnpacker unpacks the layer on standard input into the directory that it has open as its file 3, and ends the process, if the process was started for that.
// Otherwise it returns at once. The main function of each program that opens a Store calls it first.
//
// The process is a child of the agent with a user of its own, no capabilities, no network and no environment. It opens each path below that
// directory through os.Root. It reads a stranger's archive, so it is trusted with nothing else.
func RunUnpacker() {
	if os.Args[0] != UnpackerName {
		return
	}
	var u unpacked
	err := errors.New("the agent gave no limits")
	if len(os.Args) == 3 {
		files, bad := strconv.ParseInt(os.Args[1], 10, 64)
		bytes, worse := strconv.ParseInt(os.Args[2], 10, 64)
		const at = 3 // see the method `unpack`
		if err = errors.Join(bad, worse, syscall.Fchdir(at)); err == nil {
			u, err = unpackLayer(os.Stdin, ".", Limits{Files: files, Bytes: bytes})
		}
	}
	if err != nil {
		u.Error, u.Full = err.Error(), errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	}
	if json.NewEncoder(os.Stdout).Encode(u) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// A counter hashes what is read through it.
type counter struct {
	r   io.Reader
	sum hash.Hash
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	_, _ = c.sum.Write(p[:n])
	return n, err
}

func (c *counter) digest() string { return "sha256:" + hex.EncodeToString(c.sum.Sum(nil)) }

// unpackLayer unpacks a layer, which may be compressed, into an empty directory.
func unpackLayer(in io.Reader, dir string, limits Limits) (unpacked, error) {
	syscall.Umask(0)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unpacked{}, err
	}
	defer root.Close()
	raw := &counter{in, sha256.New()}
	plain, err := decompress(bufio.NewReaderSize(raw, 1<<16))
	if err != nil {
		return unpacked{}, err
	}
	tarred := &counter{plain, sha256.New()}
	u := unpacker{root: root, limits: limits, dirs: map[string]dirEnd{}}
	if err = u.all(tar.NewReader(&capped{tarred, limits.Bytes + limits.Files*1024 + 1<<20})); err != nil {
		return unpacked{}, err
	}
	// The digests cover what follows the end of the archive, too. It must be short.
	for _, rest := range []io.Reader{tarred, raw} {
		if _, err = io.CopyN(io.Discard, rest, 16<<20); !errors.Is(err, io.EOF) {
			if err == nil {
				err = errors.New("more than 16 MiB follow the end of the layer's archive: build the image again")
			}
			return unpacked{}, err
		}
	}
	return unpacked{Digest: raw.digest(), DiffID: tarred.digest(), Files: u.files, Bytes: u.bytes}, nil
}

// capped ends an archive whose records alone, without the content of files, go beyond all limits.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errors.New("the layer unpacks to more data than the node allows: use a smaller image, or raise the node's images.max_mb")
	}
	return n, err
}

// decompress finds out by the first bytes how a layer is compressed, because media types are often wrong.
func decompress(in *bufio.Reader) (io.Reader, error) {
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("the layer is not valid gzip: build or push the image again (%w)", err)
		}
		return r, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(512<<20))
		if err != nil {
			return nil, fmt.Errorf("the layer is not valid zstd: build or push the image again (%w)", err)
		}
		return r, nil
	}
	return in, nil
}

// An unpacker writes the entries of one archive.
type unpacker struct {
	root         *os.Root
	limits       Limits
	files, bytes int64
	// dirs are set at the end: until then directories are writable, and each file that is written into one changes its time. An entry may be
	// about a directory that a later entry of the archive has replaced.
	dirs  map[string]dirEnd
	names int // bytes of the names in dirs
}

// dirEnd is the final state of a directory. Without a time, the directory is not in the archive itself.
type dirEnd struct {
	mode fs.FileMode
	time time.Time
}

// maxNames limits the memory for the names of directories. Long names compress well, so a small layer could have gigabytes of them.
const maxNames = 128 << 20

// The method `remember` plans the final state of a directory.
func (u *unpacker) remember(name string, end dirEnd) error {
	if _, ok := u.dirs[name]; !ok {
		if u.names += len(name); u.names > maxNames {
			return fmt.Errorf("the names of the layer's directories have more than %d MiB: build the image with shorter or fewer paths", maxNames>>20)
		}
	}
	u.dirs[name] = end
	return nil
}

func (u *unpacker) all(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the layer is not a valid tar archive: build or push the image again (%w)", err)
		}
		if err = u.entry(h, t); errors.Is(err, syscall.ENAMETOOLONG) {
			return fmt.Errorf("entry %.200q of the layer has a name that is too long for the node's file system: build the image with shorter names (%w)", h.Name, err)
		} else if err != nil {
			return fmt.Errorf("entry %.200q of the layer: %w", h.Name, err)
		}
	}
	// What is below a directory comes first, because the mode of the directory may close it.
	for _, name := range slices.SortedFunc(maps.Keys(u.dirs), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		if err := u.finish(name, u.dirs[name]); err != nil {
			return fmt.Errorf("entry %.200q of the layer: %w", name, err)
		}
	}
	return nil
}

// The method `finish` gives a directory its final state, unless something else is there now.
func (u *unpacker) finish(name string, end dirEnd) error {
	if st, err := u.root.Lstat(name); err != nil || !st.IsDir() {
		return nil //nolint:nilerr // the directory was replaced
	}
	if !end.time.IsZero() {
		if err := u.root.Chtimes(name, end.time, end.time); err != nil {
			return err
		}
	}
	return u.root.Chmod(name, end.mode)
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if u.files++; u.files > u.limits.Files {
		return fmt.Errorf("the layer has more than %d files, which is what is left of the node's limit for an image: use a smaller image, or raise the node's images.max_files", u.limits.Files)
	}
	if name == "." {
		if h.Typeflag == tar.TypeDir {
			return u.remember(".", dirEnd{mode: mode(h) | 0o555}) // everybody must be able to enter the root
		}
		return nil
	}
	parent, base := path.Split(name)
	if parent = path.Clean(parent); parent != "." {
		if err = u.parents(parent); err != nil {
			return err
		}
	}
	if base == opaque {
		return u.setOpaque(parent)
	}
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		if strings.HasPrefix(hidden, whiteout) {
			return nil // a record of AUFS, without a meaning here
		}
		if hidden == "" || hidden == "." || hidden == ".." {
			return errors.New("the whiteout names no file: such an image is not safe, so build it again with another tool")
		}
		return u.whiteout(path.Join(parent, hidden))
	}
	return u.create(name, h, content)
}

// inside returns the clean relative form of a path, which must not contain "..".
func inside(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New(`the path contains "..": such an image is not safe, so build it again with another tool`)
		}
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == "" || strings.Contains(clean, "\x00") {
		return "", errors.New("the path is not valid: build the image again")
	}
	return clean, nil
}

func mode(h *tar.Header) fs.FileMode {
	m := fs.FileMode(h.Mode) & 0o777
	if h.Mode&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m // without set-user-ID and set-group-ID, which no job could use
}

// parents creates missing directories above an entry. They are not in the archive, so they are in a lower layer, or get the usual mode.
func (u *unpacker) parents(dir string) error {
	st, err := u.root.Lstat(dir)
	if err == nil && st.IsDir() {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if above := path.Dir(dir); above != "." {
			if err = u.parents(above); err != nil {
				return err
			}
		}
		if u.files++; u.files > u.limits.Files {
			return fmt.Errorf("the layer has more than %d files, which is what is left of the node's limit for an image: use a smaller image, or raise the node's images.max_files", u.limits.Files)
		}
		if err = u.remember(dir, dirEnd{mode: 0o755}); err != nil {
			return err
		}
		return u.root.Mkdir(dir, 0o755)
	}
	if err == nil {
		// Within one layer, a link to a directory of the layer is followed. os.Root refuses all others.
		if st, err = u.root.Stat(dir); err == nil && st.IsDir() {
			return nil
		}
	}
	return outside(dir, err)
}

func outside(name string, err error) error {
	return fmt.Errorf("%s is a link out of the layer, a loop of links, or not a directory: such an image is not safe, so build it again with another tool (%w)",
		strconv.Quote(clip(name)), cmpErr(err))
}

func cmpErr(err error) error {
	if err == nil {
		return syscall.ENOTDIR
	}
	return err
}

func clip(s string) string { return s[:min(len(s), 200)] }

// setOpaque hides what lower layers have in a directory. The attribute is the one that needs no rights to be set; the mount has the option
// userxattr.
func (u *unpacker) setOpaque(dir string) error {
	f, err := u.root.Open(dir)
	if err != nil {
		return outside(dir, err)
	}
	defer f.Close()
	if err = unix.Fsetxattr(int(f.Fd()), "user.overlay.opaque", []byte("y"), 0); err != nil {
		return fmt.Errorf("the node's file system cannot mark a directory as replaced (user.overlay.opaque): store images on ext4 or XFS (%w)", err)
	}
	return nil
}

// The method `whiteout` hides a file of lower layers. Since Linux 5.8, every user may create this one device.
func (u *unpacker) whiteout(name string) error {
	dir, err := u.openDir(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	// An archive may contain a path twice, and the last one counts.
	if err = u.root.RemoveAll(name); err != nil {
		return err
	}
	return os.NewSyscallError("mknod", unix.Mknodat(int(dir.Fd()), path.Base(name), unix.S_IFCHR, 0))
}

func (u *unpacker) openDir(dir string) (*os.File, error) {
	f, err := u.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, outside(dir, err)
	}
	return f, nil
}

func (u *unpacker) create(name string, h *tar.Header, content io.Reader) error {
	st, err := u.root.Lstat(name)
	if err == nil && !(st.IsDir() && h.Typeflag == tar.TypeDir) {
		err = u.root.RemoveAll(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if st == nil || !st.IsDir() {
			if err := u.root.Mkdir(name, 0o700); err != nil {
				return err
			}
		}
		if err := u.remember(name, dirEnd{mode(h), h.ModTime}); err != nil {
			return err
		}
		return u.root.Chmod(name, mode(h)|0o700)
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse: //nolint:staticcheck // old archives contain TypeRegA
		return u.file(name, h, content)
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, name) // it is resolved in the job's root only
	case tar.TypeLink:
		return u.link(name, h)
	case tar.TypeFifo:
		dir, err := u.openDir(path.Dir(name))
		if err != nil {
			return err
		}
		defer dir.Close()
		return os.NewSyscallError("mknod", unix.Mknodat(int(dir.Fd()), path.Base(name), unix.S_IFIFO|uint32(h.Mode&0o777), 0))
	}
	return nil // devices, which a job gets from the node only, and unknown records
}

func (u *unpacker) file(name string, h *tar.Header, content io.Reader) error {
	if u.bytes += h.Size; h.Size < 0 || u.bytes > u.limits.Bytes {
		return fmt.Errorf("the layer unpacks to more than %d MiB, which is what is left of the node's limit for an image: use a smaller image, or raise the node's images.max_mb", u.limits.Bytes>>20)
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, content); err == nil {
		err = errors.Join(setAttributes(f, h), f.Chmod(mode(h)))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// Programs such as Python compare the times of files.
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// setAttributes sets the extended attributes that every user may set. Those of overlayfs would change how the image is mounted.
func setAttributes(f *os.File, h *tar.Header) error {
	const record, own, overlay = "SCHILY.xattr.", "user.", "user.overlay."
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, record)
		if !ok || !strings.HasPrefix(name, own) || strings.HasPrefix(name, overlay) {
			continue
		}
		err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ERANGE) { // not a full disk: the limit is that of one file
			return fmt.Errorf("the attribute %.100q has %d bytes, too many for the node's file system: build the image without it", name, len(value))
		}
		if err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("set the attribute %.100q: %w", name, err)
		}
	}
	return nil
}

// The method `link` creates a hard link. Its target is in the same layer.
func (u *unpacker) link(name string, h *tar.Header) error {
	target, err := inside(h.Linkname)
	if err != nil {
		return fmt.Errorf("hard link to %.200q: %w", h.Linkname, err)
	}
	if err = u.root.Link(target, name); err != nil {
		return fmt.Errorf("hard link to %.200q, which is not a file of the layer: build the image again (%w)", h.Linkname, err)
	}
	return nil
}
