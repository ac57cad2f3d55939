package server

import (
	"context"
	"testing"

	"github.com/ares-scheduler/ares/audit"
)

// auditLog opens an audit log and keeps it writing until the test ends.
func auditLog(t *testing.T) *audit.Log {
	t.Helper()
	log, err := audit.Open(audit.Config{Dir: t.TempDir(), Server: "here"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return log
}
