package sessionrecording

import (
	"crypto/rand"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// infoPart is the part of a recording with its Info. The parts with the asciicast have the names of numbers.
const infoPart = "info"

// Info describes a recording.
type Info struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Job     string `json:"job"`
	JobName string `json:"job_name"`
	Rank    int    `json:"rank"`
	User    string `json:"user"`
	// Outside is true if the user neither belongs to the tenant nor has a role in it.
	Outside bool      `json:"outside,omitempty"`
	Node    string    `json:"node"`
	Began   time.Time `json:"began"`
	// Ended is zero while the session lasts, and stays zero if its server was killed.
	Ended time.Time `json:"ended,omitzero"`
	// Result is how the session ended.
	Result string `json:"result,omitempty"`
	// Bytes is the size of the asciicast, and Missing the number of bytes of output that it lacks.
	Bytes   int64 `json:"bytes"`
	Missing int64 `json:"missing,omitempty"`
}

// An ID begins with the time, so that IDs sort by it, and ends with random characters.
const idTime = "20060102T150405"

const idRandom = 10

var idForm = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}-[a-z2-7]{10}$`)

// NewID returns the ID of a recording that begins now.
func NewID(now time.Time) string {
	return now.UTC().Format(idTime) + "-" + strings.ToLower(rand.Text()[:idRandom])
}

// checkID returns an error if a text is no ID. IDs become file names, so nothing else may pass.
func checkID(id string) error {
	if !idForm.MatchString(id) {
		return ares.Errorf(ares.Invalid, "recording_id: %q is not the ID of a recording: see `ares session list`", ares.Clip(id)).At("recording_id")
	}
	return nil
}

// beganAt returns the time in an ID.
func beganAt(id string) (time.Time, bool) {
	if !idForm.MatchString(id) {
		return time.Time{}, false
	}
	at, err := time.Parse(idTime, id[:len(idTime)])
	return at, err == nil
}

func (i *Info) encode() []byte {
	data, _ := json.Marshal(i) // text, numbers and times of this millennium can always be encoded
	return data
}
