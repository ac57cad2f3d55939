package tree

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Skipped is told about an entry that is not copied, and why.
type Skipped func(name, why string)

// Pack writes a file, or a directory with everything in it, as tar. In the tar, it has the given name; "." stands for what is in the
// directory. Links in the directory are packed as links.
func Pack(w io.Writer, source, name string, skipped Skipped) error {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	err = filepath.WalkDir(source, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		return pack(archive, file, path.Join(name, filepath.ToSlash(rel)), d, skipped)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func pack(archive *tar.Writer, file, name string, d fs.DirEntry, skipped Skipped) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	link := ""
	switch mode := info.Mode(); {
	case mode.IsRegular(), mode.IsDir():
	case mode&fs.ModeSymlink != 0:
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	default:
		skipped(name, "it is neither a file, a directory nor a link")
		return nil
	}
	h, err := tar.FileInfoHeader(info, filepath.ToSlash(link))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	// The owner is that of the job. The tar of busybox knows long names only in the format of GNU.
	*h = tar.Header{Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o777, ModTime: h.ModTime, Format: tar.FormatGNU}
	if info.IsDir() {
		h.Name += "/"
	}
	if err = archive.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	// A file that grows meanwhile is cut at its size of before.
	if n, err := io.Copy(archive, io.LimitReader(f, h.Size)); err != nil || n < h.Size {
		if err == nil {
			err = fmt.Errorf("it became shorter while it was copied: copy it again")
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
