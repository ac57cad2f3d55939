package server

import (
	"path/filepath"
	"time"
)

// AuditConfig configures the audit log.
type AuditConfig struct {
	// Dir is the directory of the log; each server has its own. Default audit in
	// the data directory.
	Dir string `yaml:"dir"`
	// MaxSegmentMB is the size at which the next file of the log starts; each
	// day starts one too. Default 64, 1 to 1024.
	MaxSegmentMB int `yaml:"max_segment_mb"`
	// KeepDays is the shortest time that entries are kept. Default 365; 0 for
	// ever.
	KeepDays int `yaml:"keep_days"`
}

func defaultAudit() AuditConfig { return AuditConfig{MaxSegmentMB: 64, KeepDays: 365} }

func (c *AuditConfig) ranges() []intRange {
	return []intRange{
		{"audit.max_segment_mb", c.MaxSegmentMB, 1, 1024},
		{"audit.keep_days", c.KeepDays, 0, 36_600},
	}
}

// The method `dir` returns the directory of the audit log. Without a configured
// directory, it is inside the given data directory.
func (c *AuditConfig) dir(data string) string {
	if c.Dir != "" {
		return c.Dir
	}
	return AuditDir(data)
}

// AuditDir returns the default directory of the audit log inside a data
// directory.
func AuditDir(data string) string { return filepath.Join(data, "audit") }

func (c *AuditConfig) keep() time.Duration { return time.Duration(c.KeepDays) * 24 * time.Hour }
