package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// Owner is the user that gets the unpacked files.
type Owner struct{ UID, GID int }

// Unpacker writes a snapshot into an empty directory. First it gets the snapshot, then the parts of its tree, then the chunks
// of its files in any order. It checks the digest of everything that it gets.
//
// It creates files below an os.Root and creates the links last, so that no path that it writes leads through a link. Until
// Close the directories and files are only for their creator. Close sets their modes and their owner.
type Unpacker struct {
	// Fits rejects a tree for which there is no room. It is called before anything is written. It may be nil.
	Fits func(Footprint) error

	root  *os.Root
	owner *Owner

	parts   []Digest // that are still to come
	check   Checker
	entries []*apipb.TreeEntry
	places  map[Digest][]place // where chunks belong that are still to come
}

// Footprint is the room that a tree takes in a file system with blocks of 4 KiB.
type Footprint struct {
	Bytes int64
	Files int // with directories and links
}

func footprint(entries []*apipb.TreeEntry) Footprint {
	const block = 4096
	out := Footprint{Files: len(entries)}
	for _, e := range entries {
		size := max(e.GetSize(), 0)
		if e.GetKind() == apipb.TreeEntry_KIND_DIRECTORY {
			size = block
		}
		out.Bytes += (size + block - 1) / block * block
	}
	return out
}

type place struct {
	path   string
	offset int64
	size   int64
}

// NewUnpacker returns an Unpacker for the snapshot with the given digest. The argument `snapshot` is its encoded root. The
// owner may be nil: then the files belong to this process's user.
func NewUnpacker(root *os.Root, owner *Owner, want Digest, snapshot []byte) (*Unpacker, error) {
	if Sum(snapshot) != want {
		return nil, ares.Errorf(ares.Internal, "the snapshot %s was damaged on its way", want)
	}
	var s apipb.Snapshot
	if err := proto.Unmarshal(snapshot, &s); err != nil {
		return nil, ares.Errorf(ares.Invalid, "the snapshot %s cannot be read: sync the directory again", want)
	}
	u := &Unpacker{root: root, owner: owner, places: map[Digest][]place{}}
	var err error
	if u.parts, err = Parts(&s); err != nil {
		return nil, err
	}
	return u, nil
}

// Add takes the next part of the tree or, after the last one, a chunk.
func (u *Unpacker) Add(chunk []byte) error {
	d := Sum(chunk)
	if len(u.parts) > 0 {
		if d != u.parts[0] {
			return ares.Errorf(ares.Internal, "a part of the snapshot's tree was damaged on its way: got %s, want %s", d, u.parts[0])
		}
		u.parts = u.parts[1:]
		entries, err := u.check.Add(chunk)
		if err != nil {
			return err
		}
		u.entries = append(u.entries, entries...)
		if len(u.parts) == 0 {
			if u.Fits != nil {
				if err := u.Fits(footprint(u.entries)); err != nil {
					return err
				}
			}
			return u.prepare()
		}
		return nil
	}
	list, ok := u.places[d]
	if !ok {
		return ares.Errorf(ares.Internal, "the chunk %s is not in the snapshot, or came twice", d)
	}
	delete(u.places, d)
	for _, p := range list {
		if int64(len(chunk)) != p.size {
			return ares.Errorf(ares.Invalid, "a chunk of %q has %d bytes instead of %d: sync the directory again", p.path, len(chunk), p.size)
		}
		if err := u.write(p, chunk); err != nil {
			return fmt.Errorf("unpack the job's code: %w", err)
		}
	}
	return nil
}

// The method `prepare` creates the directories and the empty files, and notes where each chunk belongs.
func (u *Unpacker) prepare() error {
	for _, e := range u.entries {
		path := string(e.GetPath())
		switch e.GetKind() {
		case apipb.TreeEntry_KIND_DIRECTORY:
			if err := u.root.Mkdir(path, 0o700); err != nil {
				return fmt.Errorf("unpack the job's code: %w", err)
			}
		case apipb.TreeEntry_KIND_FILE:
			if e.GetSize() == 0 {
				if err := u.write(place{path: path}, nil); err != nil {
					return fmt.Errorf("unpack the job's code: %w", err)
				}
			}
			for i, b := range e.GetChunks() {
				at := int64(i) * ChunkSize
				d := Digest(b) // its length was checked
				u.places[d] = append(u.places[d], place{path, at, min(ChunkSize, e.GetSize()-at)})
			}
		}
	}
	return nil
}

func (u *Unpacker) write(p place, chunk []byte) error {
	f, err := u.root.OpenFile(p.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(chunk, p.offset)
	return errors.Join(err, f.Close())
}

// Close checks that everything has come, creates the links, and sets owners and modes.
func (u *Unpacker) Close() error {
	if len(u.parts)+len(u.places) > 0 {
		return ares.Errorf(ares.Unavailable, "the job's code came only in part: %d parts of its tree and %d chunks are missing", len(u.parts), len(u.places))
	}
	for _, e := range slices.Backward(u.entries) { // a directory after its content, because its mode may forbid changes
		if err := u.finish(e); err != nil {
			return fmt.Errorf("unpack the job's code: %w", err)
		}
	}
	return nil
}

func (u *Unpacker) finish(e *apipb.TreeEntry) error {
	path := string(e.GetPath())
	link := e.GetKind() == apipb.TreeEntry_KIND_LINK
	if link {
		if err := u.root.Symlink(string(e.GetTarget()), path); err != nil {
			return err
		}
	}
	if u.owner != nil {
		if err := u.root.Lchown(path, u.owner.UID, u.owner.GID); err != nil {
			return err
		}
	}
	if link {
		return nil
	}
	return u.root.Chmod(path, fs.FileMode(e.GetMode()))
}
