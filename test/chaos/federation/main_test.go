package federation_test

import (
	"os"
	"testing"

	"github.com/ares-scheduler/ares/test/namespaces"
)

// TestMain moves into new namespaces before any test runs: each machine of the suite has a network of its own.
func TestMain(m *testing.M) { os.Exit(namespaces.Run(m, false)) }
