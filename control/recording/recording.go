// Package recording writes and reads files from which an engine's decisions can be repeated elsewhere. A recording file contains the
// configuration, a snapshot, every later batch, and the result of each decision.
//
// A recording file is one gzip stream of frames. A frame consists of a length, a kind, a body, and a checksum of kind and body. If the
// server was killed, its recording can be read up to the last complete frame.
package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// The constant `version` is the version of the format. A reader rejects a recording of a newer version.
const version = 1

// The constant `magic` is the start of the first frame's body.
const magic = "ares recording"

// These are the kinds of frames.
const (
	frameHeader   = 'H'
	framePart     = 'P' // events of a batch that continues in the next frame
	frameBatch    = 'B' // the last or all events of a batch
	frameDecision = 'D'
	frameEnd      = 'E'
)

// Suffix is the file name suffix of a recording.
const Suffix = ".recording"

// maxFrame is the largest frame that a reader accepts. The constant partEvents is the maximum number of events that a
// writer puts into one frame. So the snapshot of a large cluster takes many frames.
const (
	maxFrame   = 256 << 20
	partEvents = 2000
)

// Header is the first frame of a recording.
type Header struct {
	Format  string        `json:"format"`
	Version int           `json:"version"`
	Server  string        `json:"server"`
	Build   string        `json:"build"` // version of Ares
	Began   time.Time     `json:"began"`
	Config  config.Config `json:"config"`
	Digest  string        `json:"config_digest"`
}

// NewHeader returns the header of a recording that begins now.
func NewHeader(server, build string, cfg config.Config, now time.Time) Header {
	return Header{Format: magic, Version: version, Server: server, Build: build, Began: now.UTC(), Config: cfg, Digest: cfg.Digest()}
}

// readHeader accepts a header only if this program can read the whole configuration. If part of the
// configuration were ignored, a replay would follow different rules than the recorded engine did.
func readHeader(body []byte) (Header, error) {
	var about struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if json.Unmarshal(body, &about) != nil || about.Format != magic {
		return Header{}, ares.Errorf(ares.Invalid, "the file is not a recording made by Ares")
	}
	if about.Version > version {
		return Header{}, ares.Errorf(ares.Invalid, "the recording has format %d, but this version of Ares reads only formats up to %d: use a newer version of Ares", about.Version, version)
	}
	var h Header
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&h); err != nil {
		return h, ares.Errorf(ares.Invalid, "the recording was made by Ares %s, and this version cannot read its header: %s", h.Build, err)
	}
	if got := h.Config.Digest(); got != h.Digest {
		return h, ares.Errorf(ares.Invalid, "the recorded configuration has digest %s, but this version computes %s: the recording was made by Ares %s, which has different options", h.Digest, got, h.Build)
	}
	return h, nil
}

// Decision is the record of one decision. An empty plan is recorded too, because placing nothing is also a decision.
type Decision struct {
	Revision int64     `json:"revision"` // revision of the state it was made from
	Now      time.Time `json:"now"`
	Digest   string    `json:"digest"` // digest of the plan
	Placed   int       `json:"placed,omitzero"`
	Ready    int       `json:"ready,omitzero"`
	Arrays   int       `json:"arrays,omitzero"`
	Stopped  int       `json:"stopped,omitzero"`
}

// DecisionOf returns the record of a plan.
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

// End is the mark at the end of a recording, with the reason why it ends.
type End struct {
	Why string `json:"why"`
}

// These are the reasons why a recording ends.
const (
	EndClosed    = "the server stopped"
	EndContinued = "it goes on in another file"
	EndBehind    = "the disk was too slow"
	EndSnapshot  = "it is a snapshot"
)
