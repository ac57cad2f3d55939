package server

import (
	"context"
	"time"

	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/control/recording"
)

// RecordingConfig is about the recording of what is seen and decided.
type RecordingConfig struct {
	// Dir is where to record it. Default empty: nowhere. The files hold what jobs were
	// given, their environments too.
	Dir string `yaml:"dir"`
	// FileMB is how large a file grows before the next begins, or twice its first
	// snapshot where that is more. Default 64.
	FileMB int `yaml:"file_mb"`
	// Files is how many files are kept; older ones are removed. Default 8, at least 2.
	Files int `yaml:"files"`
}

// record has the loop's engine recorded, if the configuration says so. It is
// called before the loop sees anything.
func (s *Server) record(run context.Context) {
	cfg := s.cfg.Recording
	if cfg.Dir == "" {
		return
	}
	s.Loop.Tape = control.NewTape(cfg.Dir, int64(cfg.FileMB)<<20, cfg.Files, s.log, func() recording.Header {
		return recording.NewHeader(s.name, Version, s.cfg.engine(), time.Now())
	})
	s.part("recording", func() error { return s.Loop.Tape.Run(run) })
}
