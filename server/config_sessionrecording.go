package server

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/sessionrecording"
)

// SessionRecordingConfig configures the recording of what sessions with jobs
// show. The recordings are in objects.dir or objects.url.
type SessionRecordingConfig struct {
	// Record says which sessions are recorded: off for none, terminal for those
	// with a terminal, and all for commands without one too. Recordings may contain
	// secrets that a command prints. Default off.
	Record string `yaml:"record"`
	// KeepDays is how long recordings are kept. Default 30, 1 to 3660.
	KeepDays int `yaml:"keep_days"`
	// MaxMB limits the recording of one session, in MiB. A longer session goes on
	// without being recorded. Default 16, 1 to 1024.
	MaxMB int `yaml:"max_mb"`
	// TenantMB limits the recordings of one tenant, in MiB; the oldest ones are
	// removed beyond it. Default 4096, 16 to 100000000.
	TenantMB int `yaml:"tenant_mb"`
}

func defaultSessionRecording() SessionRecordingConfig {
	return SessionRecordingConfig{Record: string(sessionrecording.Off), KeepDays: 30, MaxMB: 16, TenantMB: 4096}
}

func (c *SessionRecordingConfig) ranges() []intRange {
	return []intRange{
		{"session_recording.keep_days", c.KeepDays, 1, 3660},
		{"session_recording.max_mb", c.MaxMB, 1, 1024},
		{"session_recording.tenant_mb", c.TenantMB, 16, 100_000_000},
	}
}

func (c *SessionRecordingConfig) check(all *Config, p *ares.Problems) {
	switch mode := sessionrecording.Mode(c.Record); {
	case mode != sessionrecording.Off && mode != sessionrecording.Terminal && mode != sessionrecording.All:
		p.Add("session_recording.record", "%q is unknown: use off, terminal or all", c.Record)
	case mode != sessionrecording.Off && len(all.Etcd.Endpoints) > 0 && all.Objects.Dir == "" && all.Objects.URL == "":
		p.Add("session_recording.record", "needs objects.url or objects.dir with etcd.endpoints: set one to a bucket or a directory that all servers share")
	}
}

// This method returns the recorder of sessions. It keeps recordings where the code of jobs is.
func (s *Server) newSessionRecorder() *sessionrecording.Recorder {
	c := &s.cfg.SessionRecording
	return &sessionrecording.Recorder{
		Objects: s.Code.Objects, Disabled: s.Code.Disabled, Mode: sessionrecording.Mode(c.Record),
		MaxBytes: int64(c.MaxMB) << 20, TenantBytes: int64(c.TenantMB) << 20, Keep: time.Duration(c.KeepDays) * 24 * time.Hour,
		Log: s.log, Now: func() time.Time { return time.Now().Truncate(time.Microsecond) },
	}
}
