package server

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
	"github.com/ares-scheduler/ares/pause"
)

// TestGPUSchedulerDatabase checks with a real PostgreSQL that the section database of the gpu-scheduler's file becomes a
// history URL that works, and that its sslmode is respected.
func TestGPUSchedulerDatabase(t *testing.T) {
	at, err := url.Parse(historytest.StartPostgres(t).Database(t, "gpu_scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("host: localhost", "host: "+at.Hostname(), "user: postgres", "user: ares").Replace(gpuSchedulerFile)
	for mode, works := range map[string]bool{"disable": true, "require": false} { // the database has no TLS
		cfg, err := loadText(t, strings.Replace(text, "sslmode: disable", "sslmode: "+mode, 1),
			"GPU_SCHEDULER_DATABASE_PORT="+at.Port(), "GPU_SCHEDULER_DATABASE_PASSWORD=a b%/?#@:")
		if err != nil {
			t.Fatal(err)
		}
		h, err := history.Open(history.Config{URL: cfg.History.URL})
		if err != nil {
			t.Fatal(err)
		}
		err = h.Ready(t.Context())
		for errors.Is(err, history.ErrUpdating) && pause.For(t.Context(), 50*time.Millisecond) {
			err = h.Ready(t.Context())
		}
		if (err == nil) != works {
			t.Errorf("sslmode %s: %v", mode, err)
		}
		if err = h.Close(); err != nil {
			t.Error(err)
		}
	}
}
