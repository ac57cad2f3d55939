package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ErrMissing means that a tar has no entries.
var ErrMissing = errors.New("was not received")

// Unpack reads a tar and creates its entries below a directory. Only entries with the name `from`, and those below it, are expected; they
// get the name `to`. Both names may be ".". Files that exist are replaced. Owners, times and set-user-ID bits are not kept.
//
// These entries are skipped: devices and pipes, and links that lead out of `to`, or that could after other links are followed.
func Unpack(r io.Reader, root *os.Root, from, to string, skipped Skipped) error {
	u := unpacker{root: root, from: path.Clean(from), to: path.Clean(to), skipped: skipped, files: map[string]bool{}}
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = u.entry(h, archive)
		}
		if err != nil {
			return err
		}
	}
	if !u.found {
		return fmt.Errorf("%s %w", from, ErrMissing)
	}
	return u.closeDirs()
}

type unpacker struct {
	root     *os.Root
	from, to string
	skipped  Skipped
	found    bool
	files    map[string]bool // files that this unpacker has written
	dirs     []closedDir
}

// A closedDir is a directory that its owner may not change. It gets its mode at the end.
type closedDir struct {
	name string
	mode fs.FileMode
}

// local returns the name of an entry below the root.
func (u *unpacker) local(name string) (string, error) {
	clean := path.Clean(name)
	rest, isBelow := strings.CutPrefix(clean, u.from+"/")
	switch {
	case !filepath.IsLocal(filepath.FromSlash(clean)):
	case clean == u.from:
		return u.to, nil
	case u.from == ".":
		return path.Join(u.to, clean), nil
	case isBelow:
		return path.Join(u.to, rest), nil
	}
	return "", fmt.Errorf("the job sent an entry %q, which is not in %q: nothing more was copied", name, u.from)
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.local(h.Name)
	if err != nil {
		return err
	}
	u.found = true
	if err = u.checkAbove(name, h.Name); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		err = u.dir(name, mode)
	case tar.TypeReg:
		err = u.file(name, mode, content)
	case tar.TypeSymlink:
		err = u.symlink(name, h.Linkname)
	case tar.TypeLink:
		err = u.hardLink(name, h.Linkname)
	default:
		u.skipped(name, "it is neither a file, a directory nor a link")
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
}

// checkAbove refuses an entry below a link. The job may have sent the link, now or in an earlier copy; and a link of the user may lead out of
// the copy too. The directory into which the user copies is the user's choice, whatever it is.
func (u *unpacker) checkAbove(name, sent string) error {
	for up := path.Dir(name); up != "." && up != u.to; up = path.Dir(up) {
		st, err := u.root.Lstat(up)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case st.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("the job sent an entry %q below a link, %s: nothing more was copied", sent, up)
		}
	}
	return nil
}

const ownerMayChange = 0o700

func (u *unpacker) dir(name string, mode fs.FileMode) error {
	if name == "." {
		return nil // it is there, with the mode that the user chose
	}
	if err := u.makeRoom(name, true); err != nil {
		return err
	}
	err := u.root.Mkdir(name, mode|ownerMayChange)
	if errors.Is(err, fs.ErrExist) { // another entry of the copy, or a directory from before, which keeps its mode
		return nil
	}
	if err == nil && mode|ownerMayChange != mode {
		u.dirs = append(u.dirs, closedDir{name, mode})
	}
	return err
}

// makeRoom removes what has the name of a new entry. A directory is never removed.
func (u *unpacker) makeRoom(name string, forDir bool) error {
	delete(u.files, name)
	st, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.IsDir() && forDir:
		return nil
	case st.IsDir():
		return errors.New("there is a directory with this name: remove it, or copy to another place")
	case forDir:
		return errors.New("there is a file with this name: remove it, or copy to another place")
	}
	return u.root.Remove(name)
}

func (u *unpacker) file(name string, mode fs.FileMode, content io.Reader) error {
	if err := u.makeRoom(name, false); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	u.files[name] = true
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// symlink makes a link that stays in the copy wherever it is followed from. All directories above it are real, and ".." is only allowed at
// the beginning of its target: after the name of another link, it would mean something else.
func (u *unpacker) symlink(name, target string) error {
	rel := name
	if u.to != "." {
		rel = strings.TrimPrefix(strings.TrimPrefix(name, u.to), "/")
	}
	parts := strings.Split(target, "/")
	down := slices.IndexFunc(parts, func(p string) bool { return p != ".." && p != "." && p != "" })
	isPlain := down < 0 || !slices.Contains(parts[down:], "..")
	end := path.Join(path.Dir(rel), target)
	if rel == "" || !isPlain || path.IsAbs(target) || filepath.IsAbs(target) || !filepath.IsLocal(filepath.FromSlash(end)) {
		u.skipped(name, "it is a link to "+target+", which leads out of the copy")
		return nil
	}
	if err := u.makeRoom(name, false); err != nil {
		return err
	}
	return u.root.Symlink(target, name)
}

// hardLink makes another name of a file that this unpacker has written.
func (u *unpacker) hardLink(name, target string) error {
	old, err := u.local(target)
	if err != nil {
		return err
	}
	if !u.files[old] {
		u.skipped(name, "it is a link to "+target+", which is no file of the copy")
		return nil
	}
	if old == name {
		return nil
	}
	if err = u.makeRoom(name, false); err != nil {
		return err
	}
	if err = u.root.Link(old, name); err == nil {
		u.files[name] = true
	}
	return err
}

// closeDirs gives directories the modes under which the unpacker could not have written into them.
func (u *unpacker) closeDirs() error {
	for _, d := range slices.Backward(u.dirs) {
		st, err := u.root.Lstat(d.name)
		if err == nil && st.IsDir() {
			err = u.root.Chmod(d.name, st.Mode().Perm()&d.mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
