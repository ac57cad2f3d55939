package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Status is what became of a deed.
type Status string

// What becomes of a deed.
const (
	Done    Status = "done"    // it was done
	Refused Status = "refused" // it was not done
	Unknown Status = "unknown" // it failed on the way: the store's records tell
)

// Statuses lists every status.
func Statuses() []Status { return []Status{Done, Refused, Unknown} }

// Entry is one line of the log. It holds names and digests, never the values
// that somebody sent.
type Entry struct {
	// Sequence counts the entries of one server from 1, without a gap.
	Sequence uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	// Server whose log it is, and the cluster that the server serves.
	Server  string `json:"server"`
	Cluster string `json:"cluster,omitempty"`
	// Action is what was asked for, such as SUBMIT_JOB.
	Action string `json:"action"`
	// User who asked, "" for somebody unknown, and the tenant it is about. Outside
	// is that the user neither belongs to that tenant nor has a role there.
	User    string `json:"user,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Outside bool   `json:"outside,omitempty"`
	// Object is what it is about: a job's ID, or a kind and a name (queue/red/night).
	Object string `json:"object,omitempty"`
	// Source is the address that asked, Door the way it came.
	Source string `json:"source,omitempty"`
	Door   string `json:"door,omitempty"`
	// Request, Before and After are SHA-256 digests: of what was sent, and of the
	// object before and after.
	Request string `json:"request_digest,omitempty"`
	Before  string `json:"before_digest,omitempty"`
	After   string `json:"after_digest,omitempty"`

	Status Status `json:"status"`
	// Code of the error, "" without one.
	Code      string `json:"code,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	// Detail says more, in words of the server's own.
	Detail string `json:"detail,omitempty"`
	// Count is how many refusals alike the entry stands for, the first of them at
	// Since; 0 for one.
	Count int       `json:"count,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Previous is the hash of the entry before, Hash that of this one. In the log
	// every entry has both.
	Previous string `json:"prev,omitempty"`
	Hash     string `json:"-"`
}

// Outsider stands for the name of somebody outside the tenant, where that is not
// told.
const Outsider = "somebody outside this tenant"

// Unnamed is the entry as the tenant it is about may see it: that an outsider
// tried, what and when, but not who, nor what the name could be found out by. The
// hashes are of the whole entry, so a guess could be tried on them, and one entry's
// is also in the next: they are told of none. Part of a log proves no chain anyway.
func (e *Entry) Unnamed() Entry {
	out := *e
	out.Previous, out.Hash = "", ""
	if out.Outside {
		out.User = Outsider
		out.Source, out.RequestID, out.Request, out.Before, out.After = "", "", "", "", ""
	}
	return out
}

// Stands is how many deeds the entry stands for.
func (e *Entry) Stands() int { return max(e.Count, 1) }

// The longest a field of an entry may be. What is longer is cut: a caller must
// not fill the log with a name.
const (
	maxField  = 256
	maxDetail = 512
	// MaxEntry bounds a line: every field as long as it may be, each byte escaped.
	MaxEntry = 32 << 10
)

// genesis is what the first entry of a log carries as the hash before it.
var genesis = strings.Repeat("0", 2*sha256.Size)

// The line's end: its own hash, always of the same length.
const (
	hashKey = `,"hash":"`
	hashEnd = `"}`
	tail    = len(hashKey) + 2*sha256.Size + len(hashEnd)
)

// clean makes a field fit for a line: short, valid, and without what would
// disturb a terminal.
func clean(s string, limit int) string {
	if len(s) <= limit && plain(s) {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != '\uFFFD' {
			return r
		}
		return '?'
	}, s[:min(len(s), limit+4)])
	if len(s) <= limit {
		return s
	}
	cut := limit - len("…")
	for cut > 0 && s[cut]&0xC0 == 0x80 { // in the middle of a rune
		cut--
	}
	return s[:cut] + "…"
}

// plain says whether a text is printable ASCII, as nearly every field is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// seal completes an entry that follows the one with hash prev, and makes its line.
func (e *Entry) seal(seq uint64, prev string) ([]byte, error) {
	e.Sequence, e.Previous = seq, prev
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	e.Since = e.Since.UTC().Truncate(time.Microsecond)
	for _, f := range []*string{
		&e.Server, &e.Cluster, &e.Action, &e.User, &e.Tenant, &e.Object, &e.Source, &e.Door,
		&e.Request, &e.Before, &e.After, &e.Code, &e.RequestID,
	} {
		*f = clean(*f, maxField)
	}
	e.Detail = clean(e.Detail, maxDetail)
	return e.Line()
}

// Line is the entry as it stands in the log, with its hash, without the newline.
func (e *Entry) Line() ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode an audit entry: %w", err)
	}
	body = body[:len(body)-1] // the hash goes before the brace
	e.Hash = hashOf(body)
	line := append(body, hashKey...)
	line = append(line, e.Hash...)
	return append(line, hashEnd...), nil
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// ReadLine reads one line, without its newline, and says whether its hash is
// that of its text.
func ReadLine(line []byte) (e Entry, err error) {
	if len(line) < tail || len(line) > MaxEntry {
		return e, fmt.Errorf("a line of %d bytes is not an entry", len(line))
	}
	body, end := line[:len(line)-tail], line[len(line)-tail:]
	hash := string(end[len(hashKey) : len(hashKey)+2*sha256.Size])
	if !bytes.HasPrefix(end, []byte(hashKey)) || !bytes.HasSuffix(end, []byte(hashEnd)) {
		return e, fmt.Errorf("the line does not end in a hash")
	}
	if hashOf(body) != hash {
		return e, fmt.Errorf("the entry does not have the hash that it carries: it was changed")
	}
	whole := append(bytes.Clone(body), '}')
	if err = json.Unmarshal(whole, &e); err != nil {
		return e, fmt.Errorf("read the entry: %w", err)
	}
	e.Hash = hash
	return e, nil
}

// Digest is the SHA-256 of some bytes as entries carry it.
func Digest(data []byte) string { return hashOf(data) }
