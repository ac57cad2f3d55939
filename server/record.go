package server

import (
	"context"
	"time"

	"github.com/ares-scheduler/ares/control/recording"
)

// RecordingConfig configures the recording of decisions and their inputs.
type RecordingConfig struct {
	// Dir is the directory of recordings. Default empty: no recording. The files
	// contain the specs of jobs, including their environments.
	Dir string `yaml:"dir"`
	// FileMB is the size at which the next file starts, or twice the first
	// snapshot of a file if that is larger. Default 64.
	FileMB int `yaml:"file_mb"`
	// Files is the number of files that are kept; older ones are removed.
	// Default 8, at least 2.
	Files int `yaml:"files"`
}

// startRecording starts the recording of the loop's decisions, if recording is configured. The method must be
// called before the loop sees any event.
func (s *Server) startRecording(run context.Context) {
	cfg := s.cfg.Recording
	if cfg.Dir == "" {
		return
	}
	s.Loop.Recorder = recording.NewDecisionRecorder(cfg.Dir, int64(cfg.FileMB)<<20, cfg.Files, s.log, func() recording.Header {
		return recording.NewHeader(s.name, Version, s.cfg.engine(), time.Now())
	})
	s.runPart("recording", func() error { return s.Loop.Recorder.Run(run) })
}
