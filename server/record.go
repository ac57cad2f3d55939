package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/control/recording"
)

// RecordingConfig configures the recording of decisions and their inputs.
type RecordingConfig struct {
	// Enabled records the decisions of the scheduler, so that ares audit verify
	// --decisions can repeat them. Default true.
	Enabled bool `yaml:"enabled"`
	// Dir is the directory of recordings. Default recordings in the data
	// directory. The files contain the specs of jobs without their
	// environments.
	Dir string `yaml:"dir"`
	// MaxMB is the size of all recordings together; the oldest files are removed
	// beyond it. The file that is being written is always kept. Default 512, 4 to
	// 1000000.
	MaxMB int `yaml:"max_mb"`
	// FileMB is the size at which the next file starts, or twice the first
	// snapshot of a file if that is larger. It is at most a quarter of max_mb.
	// Default 64.
	FileMB int `yaml:"file_mb"`
	// Files is the number of files that are kept; older ones are removed.
	// Default 1000, at least 2.
	Files int `yaml:"files"`
}

func defaultRecording() RecordingConfig {
	return RecordingConfig{Enabled: true, MaxMB: 512, FileMB: 64, Files: 1000}
}

func (c *RecordingConfig) ranges() []intRange {
	return []intRange{
		{"recording.max_mb", c.MaxMB, 4, 1_000_000},
		{"recording.file_mb", c.FileMB, 1, 100_000},
		{"recording.files", c.Files, 2, 10_000},
	}
}

// The method `dir` returns the directory of recordings. Without a configured directory, it is inside the given data
// directory.
func (c *RecordingConfig) dir(data string) string {
	if c.Dir != "" {
		return c.Dir
	}
	return RecordingDir(data)
}

// RecordingDir returns the default directory of recordings inside a data directory.
func RecordingDir(data string) string { return filepath.Join(data, "recordings") }

// removalWithin is how long a recording waits for the audit entry about its removal. If the entry cannot be written, the
// recording is removed nevertheless: on a full disk, recordings make room for the audit log, which keeps the entry in memory.
const removalWithin = 2 * time.Second

// recordingFreeMB is the free space that recordings leave to the store and the audit log, in MB. Without these, the server cannot work.
const recordingFreeMB = 128

// startRecording starts the recording of the loop's decisions, if recording is configured. The digests of the recordings
// become entries of the audit log. The method must be called before the loop sees any event.
func (s *Server) startRecording(run context.Context, m *serverMetrics) {
	cfg := s.cfg.Recording
	if !cfg.Enabled {
		s.Audit.Note(recording.Stopped("recording.enabled is false"))
		return
	}
	r := recording.NewDecisionRecorder(cfg.dir(s.cfg.DataDir), int64(min(cfg.FileMB, max(cfg.MaxMB/4, 1)))<<20, cfg.Files, s.log, func() recording.Header {
		return recording.NewHeader(s.name, Version, s.cfg.engine(), time.Now())
	})
	r.MaxBytes = int64(cfg.MaxMB) << 20
	r.Room = func() error {
		if mb := FreeMB(r.Dir); mb >= 0 && mb < recordingFreeMB {
			return fmt.Errorf("only %d MB are free at %s, and recordings leave %d MB to the store and the audit log: free some space, or lower recording.max_mb", mb, r.Dir, recordingFreeMB)
		}
		return nil
	}
	r.Stopped = func(why string) { s.Audit.Note(recording.Stopped(why)) }
	r.Wrote = func(d recording.FileDigest) { s.Audit.Note(d.Entry()) }
	r.Removed = func(gone recording.Removal) {
		ctx, cancel := context.WithTimeout(context.Background(), removalWithin)
		defer cancel()
		_ = s.Audit.Record(ctx, gone.Entry()) // an unwritten entry is kept in memory
	}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ares_recording_failing", Help: "1 while decisions are not being recorded because the disk fails; scheduling goes on.",
		}, func() float64 {
			if r.Problem() != "" {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ares_recording_bytes", Help: "Size of all recordings of decisions.",
		}, func() float64 { return float64(r.Size()) }))
	s.Loop.Recorder, s.recorded = r, make(chan struct{})
	s.runPart("recording", func() error {
		defer close(s.recorded)
		return r.Run(run)
	})
}

// awaitRecording waits until the recording has ended, so that its last digest is in the audit log.
func (s *Server) awaitRecording(ctx context.Context) {
	if s.recorded == nil {
		return
	}
	select {
	case <-s.recorded:
	case <-ctx.Done():
	}
}
