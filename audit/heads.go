package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// These are the names of the files next to the segments.
const (
	headsPrefix = "heads-" // followed by the segment's number, because each segment has its own file
	floorFile   = "floor.json"
	keyFile     = "head.key"
	lockFile    = "lock"
)

// headsName returns the name of the file with the heads that were signed while a segment was written. The last entry of a segment is always
// signed before the next segment begins.
func headsName(first uint64) string {
	return headsPrefix + strings.TrimPrefix(segmentName(first), segmentPrefix)
}

// headsFirst reads the name of a heads file. It returns the sequence number of the first entry in the segment that
// belongs to the file.
func headsFirst(path string) (first uint64, ok bool) {
	number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), headsPrefix), segmentSuffix)
	first, err := strconv.ParseUint(number, 10, 64)
	return first, err == nil && headsName(first) == filepath.Base(path)
}

// HeadKind is the kind of a signed head.
type HeadKind string

// These are the kinds of heads.
const (
	Top   HeadKind = "head"  // the log reached this entry
	Floor HeadKind = "floor" // entries up to this one were removed because of their age
)

// Head is a signed statement that the log's entry with this sequence number has this hash.
type Head struct {
	Kind     HeadKind  `json:"kind"`
	Number   uint64    `json:"n"` // counts the heads of a segment from 1
	Server   string    `json:"server"`
	Sequence uint64    `json:"seq"`
	Hash     string    `json:"hash"`
	Time     time.Time `json:"time"`
	Key      string    `json:"key"` // public, base64
	// Signature is the signature over all fields above, in base64.
	Signature string `json:"signature"`
}

// The method `signed` returns the text that the signature covers. Each field is on a separate line, and no field
// can contain a newline.
func (h *Head) signed() []byte {
	return fmt.Appendf(nil, "ares audit head 1\n%s\n%d\n%q\n%d\n%s\n%s\n%s\n",
		h.Kind, h.Number, h.Server, h.Sequence, h.Hash, h.Time.UTC().Format(time.RFC3339Nano), h.Key)
}

// Check returns an error if the signature does not match the key in the head.
func (h *Head) Check() error {
	key, err := base64.StdEncoding.DecodeString(h.Key)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return errors.New("the audit-log head contains an invalid public key")
	}
	signature, err := base64.StdEncoding.DecodeString(h.Signature)
	if err != nil || !ed25519.Verify(key, h.signed(), signature) {
		return errors.New("the signature of the audit-log head does not match the public key in the head")
	}
	return nil
}

// ReadHead reads an exported head and checks its signature.
func ReadHead(data []byte) (Head, error) {
	var h Head
	err := json.Unmarshal(data, &h)
	if err == nil {
		err = h.Check()
	}
	if err != nil {
		return h, ares.Errorf(ares.Invalid, "the audit-log head is invalid (%s): use a file with the output of `ares audit heads`", err)
	}
	return h, nil
}

// readHead parses a line of a heads file. The line must have exactly the form in which it was written.
func readHead(line []byte) (h Head, err error) {
	if err = json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("read the head: %w", err)
	}
	if again, same := json.Marshal(h); same != nil || !bytes.Equal(again, line) {
		return h, errors.New("the audit-log head was changed after it was written")
	}
	return h, h.Check()
}

// The type `signer` signs heads and remembers the last ones.
type signer struct {
	dir    string
	server string
	key    ed25519.PrivateKey
	first  uint64 // first entry of the segment of the last head
	last   Head   // zero if no head was signed yet
	floor  Head
}

// openSigner reads the signing key and the last heads. For a new log, openSigner creates the key.
func openSigner(dir, server string, all []segment) (*signer, error) {
	s := &signer{dir: dir, server: server}
	for _, one := range slices.Backward(all) {
		heads, err := readHeads(filepath.Join(dir, headsName(one.first)))
		if err != nil {
			return nil, err
		}
		if len(heads) > 0 {
			s.first, s.last = one.first, heads[len(heads)-1]
			break
		}
	}
	if floor, err := readFloor(dir); err == nil {
		s.floor = floor
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	path := filepath.Join(dir, keyFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.last.Sequence == 0:
		if s.key, err = makeKey(path); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("the key that signs the audit log cannot be read (%w): restore the key from a backup, or move the directory %s away to begin a new log", err, dir)
	default:
		if s.key, err = parseKey(data); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if s.last.Sequence > 0 && s.last.Key != s.public() {
		return nil, fmt.Errorf("the audit log was not signed with the key in %s: restore the original key, or move the directory %s away to begin a new log", keyFile, dir)
	}
	return s, nil
}

func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key that signs the audit log: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key that signs the audit log: %w", err)
	}
	data := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err = writeSafely(path, data); err != nil {
		return nil, fmt.Errorf("write the key that signs the audit log: %w", err)
	}
	return key, nil
}

func parseKey(data []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the key file is not a PEM file")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("the key file does not contain an Ed25519 key")
	}
	return key, nil
}

func (s *signer) public() string {
	return base64.StdEncoding.EncodeToString(s.key.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // an Ed25519 key's public part is one
}

// The method `sign` signs a head for the given entry. The argument `first` is the sequence number of the first entry in
// the log's last segment.
func (s *signer) sign(first, seq uint64, hash string, now time.Time) error {
	number := uint64(1)
	if s.first == first {
		number = s.last.Number + 1
	}
	h := s.head(Top, number, seq, hash, now)
	line, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode a head: %w", err)
	}
	if err = appendSafely(filepath.Join(s.dir, headsName(first)), append(line, '\n')); err != nil {
		return fmt.Errorf("write a head of the audit log: %w", err)
	}
	s.first, s.last = first, h
	return nil
}

// The method `lower` signs a statement that all entries up to the given one were removed because of their age.
func (s *signer) lower(seq uint64, hash string, now time.Time) error {
	h := s.head(Floor, 1, seq, hash, now)
	line, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode a head: %w", err)
	}
	if err = writeSafely(filepath.Join(s.dir, floorFile), append(line, '\n')); err != nil {
		return fmt.Errorf("write the record of removed audit entries: %w", err)
	}
	s.floor = h
	return nil
}

func (s *signer) head(kind HeadKind, number, seq uint64, hash string, now time.Time) Head {
	h := Head{
		Kind: kind, Number: number, Server: s.server, Sequence: seq, Hash: hash, Time: now.UTC().Truncate(time.Microsecond), Key: s.public(),
	}
	h.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, h.signed()))
	return h
}

// readFloor reads the signed statement that names the last entry that was removed because of its age.
func readFloor(dir string) (Head, error) {
	path := filepath.Join(dir, floorFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return Head{}, fmt.Errorf("read the record of removed audit entries: %w", err)
	}
	line, whole := bytes.CutSuffix(data, []byte{'\n'})
	if !whole {
		return Head{}, fmt.Errorf("%s: the file does not end with a newline, so it is incomplete", path)
	}
	h, err := readHead(line)
	if err == nil && h.Kind != Floor {
		err = fmt.Errorf("the file contains an audit-log head of kind %q, but the kind must be %q", h.Kind, Floor)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// readHeads reads the complete heads of a file. readHeads leaves out an incomplete last line, because that head was never used. Verify
// reports all other damage.
func readHeads(path string) ([]Head, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the heads of the audit log: %w", err)
	}
	var out []Head
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			break
		}
		h, err := readHead(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w: run `ares audit verify` for details", path, n, err)
		}
		out, data = append(out, h), rest
	}
	return out, nil
}
