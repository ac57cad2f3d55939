package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// These constants limit a snapshot.
const (
	ChunkSize   = 1 << 20   // bytes of a chunk of a file
	MaxEntries  = 100_000   // files, directories and links
	MaxBytes    = 1 << 30   // of all files together
	MaxDepth    = 64        // directories above a file
	MaxPath     = 4096      // bytes of a path
	MaxName     = 255       // bytes of one name in a path
	MaxMode     = 0o777     // permission bits only: no set-user-ID, set-group-ID and sticky bit
	PartEntries = 1000      // entries of a tree part
	MaxParts    = 10_000    // of a snapshot; a part may have fewer entries than PartEntries
	maxPart     = ChunkSize // bytes of an encoded tree part
)

// Digest is the SHA-256 of a chunk.
type Digest [sha256.Size]byte

// Sum returns the digest of a chunk.
func Sum(chunk []byte) Digest { return sha256.Sum256(chunk) }

// String returns the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads a digest in hexadecimal digits, as the code_digest of a job has it.
func ParseDigest(s string) (Digest, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size || hex.EncodeToString(b) != s {
		return Digest{}, ares.Errorf(ares.Invalid, "%q is not the digest of a snapshot, which has 64 hexadecimal digits", s)
	}
	return Digest(b), nil
}

// DigestOf reads a digest in bytes, as trees contain it.
func DigestOf(b []byte) (Digest, error) {
	if len(b) != sha256.Size {
		return Digest{}, ares.Errorf(ares.Invalid, "a digest has %d bytes, got %d", sha256.Size, len(b))
	}
	return Digest(b), nil
}

// Encoded is a snapshot in the form in which it is stored.
type Encoded struct {
	Digest   Digest            // of the snapshot
	Snapshot *apipb.Snapshot   // the root
	Parts    map[Digest][]byte // the tree parts
	Ends     []int             // for each tree part, the number of entries up to its end
}

var stable = proto.MarshalOptions{Deterministic: true}

// Encode encodes a tree. The entries must be ordered by path.
func Encode(entries []*apipb.TreeEntry) (*Encoded, error) {
	out := &Encoded{Snapshot: &apipb.Snapshot{}, Parts: map[Digest][]byte{}}
	for end := 0; len(entries) > 0; {
		// A part with long paths or many chunks has fewer entries, so that it fits into one chunk.
		n, size := 0, 0
		for n < min(PartEntries, len(entries)) {
			more := proto.Size(entries[n]) + 8
			if n > 0 && size+more > maxPart {
				break
			}
			n, size = n+1, size+more
		}
		part, err := stable.Marshal(&apipb.Tree{Entries: entries[:n]})
		if err != nil {
			return nil, err
		}
		d := Sum(part)
		out.Parts[d] = part
		out.Snapshot.Parts = append(out.Snapshot.Parts, d[:])
		entries, end = entries[n:], end+n
		out.Ends = append(out.Ends, end)
	}
	root, err := EncodeSnapshot(out.Snapshot)
	out.Digest = Sum(root)
	return out, err
}

// EncodeSnapshot encodes the root of a snapshot. Its digest is that of the snapshot.
func EncodeSnapshot(s *apipb.Snapshot) ([]byte, error) { return stable.Marshal(s) }

// Parts returns the digests of the tree parts of a snapshot.
func Parts(s *apipb.Snapshot) ([]Digest, error) {
	if len(s.GetParts()) > MaxParts {
		return nil, ares.Errorf(ares.TooLarge, "the snapshot has %d tree parts, and the limit is %d: sync a smaller directory, or list what to leave out in .aresignore", len(s.GetParts()), MaxParts)
	}
	return digests(s.GetParts())
}

func digests(list [][]byte) ([]Digest, error) {
	out := make([]Digest, len(list))
	for i, b := range list {
		var err error
		if out[i], err = DigestOf(b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Checker checks the parts of a tree in their order, and counts what they contain.
type Checker struct {
	Entries int
	Bytes   int64

	last []byte
	dirs map[string]bool
}

// Add decodes and checks the next part.
func (c *Checker) Add(part []byte) ([]*apipb.TreeEntry, error) {
	var t apipb.Tree
	if err := proto.Unmarshal(part, &t); err != nil {
		return nil, ares.Errorf(ares.Invalid, "a part of the snapshot's tree cannot be read: sync the directory again")
	}
	for _, e := range t.GetEntries() {
		if err := c.check(e); err != nil {
			return nil, err
		}
	}
	return t.GetEntries(), nil
}

func (c *Checker) check(e *apipb.TreeEntry) error {
	if c.dirs == nil {
		c.dirs = map[string]bool{"": true}
	}
	path := e.GetPath()
	if c.Entries++; c.Entries > MaxEntries {
		return TooMany()
	}
	if c.Bytes += max(e.GetSize(), 0); c.Bytes > MaxBytes || e.GetSize() > MaxBytes {
		return TooLarge()
	}
	above, err := checkPath(path)
	switch {
	case err != nil:
		return err
	case c.last != nil && bytes.Compare(c.last, path) >= 0:
		return ares.Errorf(ares.Invalid, "the snapshot lists %q after %q: sync the directory again", path, c.last)
	case !c.dirs[above]:
		return ares.Errorf(ares.Invalid, "the snapshot has %q, but not the directory above it: sync the directory again", path)
	case e.GetMode() > MaxMode:
		return ares.Errorf(ares.Invalid, "%q has mode %o, and a snapshot has permission bits only", path, e.GetMode())
	}
	c.last = path
	switch e.GetKind() {
	case apipb.TreeEntry_KIND_DIRECTORY:
		c.dirs[string(path)] = true
		if e.GetSize() != 0 || len(e.GetChunks()) > 0 || len(e.GetTarget()) > 0 {
			return ares.Errorf(ares.Invalid, "the directory %q has the fields of a file or a link", path)
		}
	case apipb.TreeEntry_KIND_FILE:
		if _, err := digests(e.GetChunks()); err != nil || e.GetSize() < 0 || len(e.GetTarget()) > 0 || int64(len(e.GetChunks())) != (e.GetSize()+ChunkSize-1)/ChunkSize {
			return ares.Errorf(ares.Invalid, "the file %q has %d bytes and %d chunks, which do not match", path, e.GetSize(), len(e.GetChunks()))
		}
	case apipb.TreeEntry_KIND_LINK:
		if e.GetSize() != 0 || e.GetMode() != 0 || len(e.GetChunks()) > 0 {
			return ares.Errorf(ares.Invalid, "the link %q has the fields of a file", path)
		}
		return CheckLink(path, e.GetTarget())
	default:
		return ares.Errorf(ares.Invalid, "%q is neither a directory nor a file nor a link", path)
	}
	return nil
}

// checkPath checks a path and returns the directory above it.
func checkPath(path []byte) (above string, err error) {
	if len(path) == 0 || len(path) > MaxPath {
		return "", ares.Errorf(ares.Invalid, "a path in a snapshot must have between 1 and %d bytes, got %d: %.80q", MaxPath, len(path), path)
	}
	if bytes.IndexByte(path, 0) >= 0 {
		return "", ares.Errorf(ares.Invalid, "the path %q contains a NUL byte", path)
	}
	depth := 0
	for name := range bytes.SplitSeq(path, []byte("/")) {
		if len(name) == 0 || len(name) > MaxName || string(name) == "." || string(name) == ".." {
			return "", ares.Errorf(ares.Invalid, "the path %q is not a path inside a directory", path)
		}
		depth++
	}
	if depth > MaxDepth {
		return "", TooDeep(path)
	}
	if i := bytes.LastIndexByte(path, '/'); i >= 0 {
		above = string(path[:i])
	}
	return above, nil
}

// CheckLink rejects a link that leads out of the tree. The job could not follow such a link on its node.
func CheckLink(path, target []byte) error {
	if len(target) == 0 || len(target) > MaxPath || bytes.IndexByte(target, 0) >= 0 {
		return ares.Errorf(ares.Invalid, "the link %q has no usable target: remove it, or add it to .aresignore", path)
	}
	depth := bytes.Count(path, []byte("/"))
	for name := range bytes.SplitSeq(target, []byte("/")) {
		switch string(name) {
		case "", ".":
		case "..":
			depth--
		default:
			depth++
		}
		if depth < 0 {
			break
		}
	}
	if target[0] == '/' || depth < 0 {
		return ares.Errorf(ares.Invalid, "the link %q leads out of the directory to %q, which the node does not have: replace the link with what it leads to, or add it to .aresignore", path, target)
	}
	return nil
}

// TooMany is the error of a directory with too many files.
func TooMany() *ares.Error {
	return ares.Errorf(ares.TooLarge, "the directory has more than %d files, which is the limit of --sync: sync a smaller directory, or list what to leave out in .aresignore", MaxEntries)
}

// TooLarge is the error of a directory with too many bytes.
func TooLarge() *ares.Error {
	return ares.Errorf(ares.TooLarge, "the directory has more than %d MiB, which is the limit of --sync: list the data in .aresignore, and put it where the nodes can read it", MaxBytes>>20)
}

// TooDeep is the error of a directory that is nested too deep.
func TooDeep(path []byte) *ares.Error {
	return ares.Errorf(ares.TooLarge, "%s has more than %d directories above it, which is the limit of --sync: move it up, or add it to .aresignore", short(path), MaxDepth)
}

func short(path []byte) string {
	const most = 120
	if len(path) > most {
		return fmt.Sprintf("%q...", path[:most])
	}
	return fmt.Sprintf("%q", path)
}
