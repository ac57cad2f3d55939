package server

import (
	"path/filepath"
	"time"
)

// AuditConfig is about the log of who did what.
type AuditConfig struct {
	// Dir is where the log is, each server's its own. Default audit in the data
	// directory.
	Dir string `yaml:"dir"`
	// MaxSegmentMB is how large a file of the log becomes before the next is
	// begun; each day begins one too. Default 64, 1 to 1024.
	MaxSegmentMB int `yaml:"max_segment_mb"`
	// KeepDays is how long entries are kept at least. Default 365; 0 for ever.
	KeepDays int `yaml:"keep_days"`
}

func defaultAudit() AuditConfig { return AuditConfig{MaxSegmentMB: 64, KeepDays: 365} }

func (c *AuditConfig) ranges() []intRange {
	return []intRange{
		{"audit.max_segment_mb", c.MaxSegmentMB, 1, 1024},
		{"audit.keep_days", c.KeepDays, 0, 36_600},
	}
}

// dir is where the log is, with this data directory.
func (c *AuditConfig) dir(data string) string {
	if c.Dir != "" {
		return c.Dir
	}
	return AuditDir(data)
}

// AuditDir is where the audit log of a data directory is by default.
func AuditDir(data string) string { return filepath.Join(data, "audit") }

func (c *AuditConfig) keep() time.Duration { return time.Duration(c.KeepDays) * 24 * time.Hour }
