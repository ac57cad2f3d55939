package robustness_test

import (
	"testing"

	"github.com/ares-scheduler/ares/test/namespaces"
)

// TestMain moves into new namespaces before any test runs: each machine of the
// suite has a network of its own.
func TestMain(m *testing.M) { namespaces.Main(m, false) }
