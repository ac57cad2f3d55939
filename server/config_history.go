package server

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// HistoryConfig is about jobs that ended, what was used and what it cost.
type HistoryConfig struct {
	// URL is the address of a PostgreSQL database, such as
	// postgres://ares:secret@db/ares?sslmode=verify-full. Default empty: SQLite, in
	// history.db of the data directory. Several servers need one database.
	URL string `yaml:"url"`
	// RetentionDays is how long a job is kept after its end; its use stays in the
	// sums. Default 0: for ever. Up to 36,500, and longer than
	// jobs.archive_after_minutes.
	RetentionDays int `yaml:"retention_days"`
	// Currency is what prices are in. Default USD.
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
		p.Add("history.retention_days", "%d days are no longer than jobs.archive_after_minutes: a job would leave history while it is live", days)
	}
	if n := len(c.Currency); n == 0 || n > 16 {
		p.Add("history.currency", "%q is not a currency: write it as USD", c.Currency)
	}
}
