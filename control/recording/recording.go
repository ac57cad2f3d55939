// Package recording is the file in which a server keeps what its engine saw and
// decided, so that the same can be decided again elsewhere: the configuration,
// a snapshot, every batch after it, and what came of each decision.
//
// A file is one stream of gzip. In it are frames: a length, a kind, a body and a
// sum of both. Whoever was killed while writing leaves a file that can be read
// up to its last whole frame.
package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// version of the format. A reader refuses a newer one.
const version = 1

// magic begins the first frame's body.
const magic = "ares recording"

// The kinds of frames.
const (
	frameHeader   = 'H'
	framePart     = 'P' // events of a batch whose rest follows
	frameBatch    = 'B' // the last events of a batch, or all
	frameDecision = 'D'
	frameEnd      = 'E'
)

// Suffix ends the name of a recording.
const Suffix = ".recording"

// maxFrame bounds what a reader takes for a frame, and partEvents what a writer
// puts into one: a snapshot of a large fleet is many.
const (
	maxFrame   = 256 << 20
	partEvents = 2000
)

// Header begins a recording.
type Header struct {
	Format  string        `json:"format"`
	Version int           `json:"version"`
	Server  string        `json:"server"`
	Build   string        `json:"build"` // version of Ares
	Began   time.Time     `json:"began"`
	Config  config.Config `json:"config"`
	Digest  string        `json:"config_digest"`
}

// NewHeader is the header of a recording that begins now.
func NewHeader(server, build string, cfg config.Config, now time.Time) Header {
	return Header{Format: magic, Version: version, Server: server, Build: build, Began: now.UTC(), Config: cfg, Digest: cfg.Digest()}
}

// readHeader takes a header only if this program decides by the same rules: a
// configuration that it cannot read whole would be another one.
func readHeader(body []byte) (Header, error) {
	var about struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if json.Unmarshal(body, &about) != nil || about.Format != magic {
		return Header{}, ares.Errorf(ares.Invalid, "this is no recording of Ares")
	}
	if about.Version > version {
		return Header{}, ares.Errorf(ares.Invalid, "the recording has format %d, this Ares reads up to %d: use a newer one", about.Version, version)
	}
	var h Header
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&h); err != nil {
		return h, ares.Errorf(ares.Invalid, "the recording of Ares %s has a header that this Ares does not know: %s", h.Build, err)
	}
	if got := h.Config.Digest(); got != h.Digest {
		return h, ares.Errorf(ares.Invalid, "the recording's configuration reads as %s here and was %s: Ares %s had other options than this one", got, h.Digest, h.Build)
	}
	return h, nil
}

// Decision is what is kept of one decision. An empty plan is kept too: that
// nothing was to be done is as much a decision.
type Decision struct {
	Revision int64     `json:"revision"` // of the state it was made from
	Now      time.Time `json:"now"`
	Digest   string    `json:"digest"` // of the plan
	Placed   int       `json:"placed,omitzero"`
	Ready    int       `json:"ready,omitzero"`
	Arrays   int       `json:"arrays,omitzero"`
	Stopped  int       `json:"stopped,omitzero"`
}

// DecisionOf is the decision that a plan is.
func DecisionOf(p *ares.Plan) Decision {
	return Decision{
		Revision: p.Revision, Now: p.Now.UTC(), Digest: p.Digest(),
		Placed: len(p.Place), Ready: len(p.Ready), Arrays: len(p.Arrays), Stopped: len(p.Stop),
	}
}

func (d Decision) String() string {
	return fmt.Sprintf("revision %d at %s: %d placed, %d readied, %d arrays, %d stopped (%s)",
		d.Revision, d.Now.Format(time.RFC3339Nano), d.Placed, d.Ready, d.Arrays, d.Stopped, d.Digest)
}

// End is the mark at the end of a recording, and why it ends.
type End struct {
	Why string `json:"why"`
}

// Why recordings end.
const (
	EndClosed    = "the server stopped"
	EndContinued = "it goes on in another file"
	EndBehind    = "the disk was too slow"
	EndSnapshot  = "one moment was asked for"
)
