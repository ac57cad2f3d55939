package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Status is the result of an operation.
type Status string

// These are the possible results of an operation.
const (
	Done    Status = "done"    // it was done
	Refused Status = "refused" // it was rejected and not done
	Unknown Status = "unknown" // it failed before its result was known; the store shows whether it was done
)

// Statuses lists every status.
func Statuses() []Status { return []Status{Done, Refused, Unknown} }

// Entry is one line of the log. An entry holds names and digests, never the values that a caller sent.
type Entry struct {
	// Sequence counts the entries of one server from 1, without gaps.
	Sequence uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	// Server is the server whose log contains the entry. Cluster is the name of the cluster that the server belongs
	// to.
	Server  string `json:"server"`
	Cluster string `json:"cluster,omitempty"`
	// Action is the operation, such as SUBMIT_JOB.
	Action string `json:"action"`
	// User is the name of the caller, or "" if it is unknown. Tenant is the tenant of the object. The field Outside is true if the
	// user neither belongs to the object's tenant nor has a role in it.
	User    string `json:"user,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Outside bool   `json:"outside,omitempty"`
	// Object is the object of the operation: a job's ID, or a kind and a name (queue/red/night).
	Object string `json:"object,omitempty"`
	// Source is the caller's network address. Door is the protocol that the caller used.
	Source string `json:"source,omitempty"`
	Door   string `json:"door,omitempty"`
	// Request is the SHA-256 digest of the request. Before and After are the digests of the object before and after the operation.
	Request string `json:"request_digest,omitempty"`
	Before  string `json:"before_digest,omitempty"`
	After   string `json:"after_digest,omitempty"`

	Status Status `json:"status"`
	// Code is the code of the error, or "" if the operation succeeded.
	Code      string `json:"code,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	// Detail is further information that the server adds.
	Detail string `json:"detail,omitempty"`
	// Count is the number of similar rejections that the entry stands for. Count is 0 if the entry describes a single operation. Since
	// is the time of the first rejection that Count includes.
	Count int       `json:"count,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Previous is the hash of the previous entry, and Hash is the hash of this entry. Every entry in the log has both
	// hashes.
	Previous string `json:"prev,omitempty"`
	Hash     string `json:"-"`
}

// Outsider replaces the name of a user outside the tenant if the reader may not see that name.
const Outsider = "somebody outside this tenant"

// WithoutActor returns the entry in the form that its tenant may see. The returned entry shows which operation an outsider tried and
// when, but nothing that identifies the outsider. The returned entry has no hashes. A hash covers the whole entry, so a guessed
// name could be checked against it. Each hash is also in the next entry. The tenant could not use the hashes anyway, because a
// hash chain can be verified only with all entries of the log.
func (e *Entry) WithoutActor() Entry {
	out := *e
	out.Previous, out.Hash = "", ""
	if out.Outside {
		out.User = Outsider
		out.Source, out.RequestID, out.Request, out.Before, out.After = "", "", "", "", ""
	}
	return out
}

// EventCount returns how many operations the entry describes.
func (e *Entry) EventCount() int { return max(e.Count, 1) }

// These constants limit the fields of an entry. Longer values are truncated, so that a caller cannot fill the log with
// a long name.
const (
	maxField  = 256
	maxDetail = 512
	// MaxEntry is the maximum length of a line. A line reaches this length if every field has its maximum length and
	// every byte is escaped.
	MaxEntry = 32 << 10
)

// The variable `genesis` is used as the previous hash in the first entry of a log.
var genesis = strings.Repeat("0", 2*sha256.Size)

// Each line ends with its own hash, which always has the same length.
const (
	hashKey = `,"hash":"`
	hashEnd = `"}`
	tail    = len(hashKey) + 2*sha256.Size + len(hashEnd)
)

// The function `clean` shortens the text of a field, makes it valid, and removes characters that disturb a terminal.
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

// The function `plain` reports whether a text is printable ASCII, which nearly every field is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// The method `seal` completes an entry. The argument `prev` is the hash of the previous entry. The method appends the line of the
// completed entry to b.
func (e *Entry) seal(b []byte, seq uint64, prev string) ([]byte, error) {
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
	return e.appendLine(b)
}

// Line returns the entry as one line of the log, with its hash but without the newline.
func (e *Entry) Line() ([]byte, error) { return e.appendLine(nil) }

// appendLine appends the line of the entry, without the newline.
func (e *Entry) appendLine(b []byte) ([]byte, error) {
	begin := len(b)
	body, err := e.appendJSON(b)
	if err != nil {
		return nil, fmt.Errorf("encode an audit entry: %w", err)
	}
	body = body[:len(body)-1] // the hash goes before the brace
	e.Hash = hashOf(body[begin:])
	line := append(body, hashKey...)
	line = append(line, e.Hash...)
	return append(line, hashEnd...), nil
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// ReadLine parses one line without its newline, and returns an error if the hash does not match the text.
func ReadLine(line []byte) (e Entry, err error) {
	if len(line) < tail || len(line) > MaxEntry {
		return e, fmt.Errorf("an audit entry must have %d to %d bytes, but this entry has %d", tail, MaxEntry, len(line))
	}
	body, end := line[:len(line)-tail], line[len(line)-tail:]
	hash := string(end[len(hashKey) : len(hashKey)+2*sha256.Size])
	if !bytes.HasPrefix(end, []byte(hashKey)) || !bytes.HasSuffix(end, []byte(hashEnd)) {
		return e, fmt.Errorf("the audit entry does not end with the field \"hash\"")
	}
	if hashOf(body) != hash {
		return e, fmt.Errorf("the entry was changed: its hash does not match its text")
	}
	if e, err = parseEntry(body); err == nil {
		e.Hash = hash
	}
	return e, err
}

// Digest returns the SHA-256 of data in the format that entries use.
func Digest(data []byte) string { return hashOf(data) }
