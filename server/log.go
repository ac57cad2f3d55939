package server

import (
	"io"
	"log/slog"
)

func logLevel(s string) (slog.Level, error) {
	var l slog.Level
	err := l.UnmarshalText([]byte(s))
	return l, err
}

// NewLog returns the configured logger.
func (c *Config) NewLog(w io.Writer) *slog.Logger {
	level, err := logLevel(c.Log.Level)
	if err != nil {
		level = slog.LevelInfo // Check has reported the mistake
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
