package server

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// HistoryConfig configures the database of finished jobs, usage and cost.
type HistoryConfig struct {
	// URL is the address of a PostgreSQL database, such as
	// postgres://ares:secret@db/ares?sslmode=verify-full. Default empty: SQLite, in
	// history.db of the data directory. Several servers need one database.
	URL string `yaml:"url"`
	// RetentionDays is the number of days for which a finished job is kept. The
	// sums of usage keep its share. Default 0: for ever. Up to 36,500, and longer
	// than jobs.archive_after_minutes.
	RetentionDays int `yaml:"retention_days"`
	// Currency is the currency of prices. Default USD.
	Currency string `yaml:"currency"`
}

func (c *HistoryConfig) check(p *ares.Problems, jobs *JobsConfig) {
	if c.URL != "" {
		if err := history.CheckURL(c.URL); err != nil {
			p.Add("history.url", "%s", err)
		}
	}
	switch days := c.RetentionDays; {
	case days < 0 || days > 36_500:
		p.Add("history.retention_days", "must be between 0 and 36500, got %d", days)
	case days > 0 && days*24*60 <= jobs.ArchiveAfterMinutes:
		p.Add("history.retention_days", "%d days are not longer than jobs.archive_after_minutes: a job would be deleted from history while it is live", days)
	}
	if n := len(c.Currency); n == 0 || n > 16 {
		p.Add("history.currency", "%q is not a currency: write it as USD", c.Currency)
	}
}
