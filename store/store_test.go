package store_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEmbedded(t *testing.T) { storetest.Run(t, storetest.Embedded) }

func TestExternal(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) *store.Store { return storetest.External(tb).Open(tb) })
}

// TestALateCommitWithAnOldFenceIsRefused runs a test that is also part of the conformance suite.
// The test is listed separately, because all other guarantees depend on the guarantee that it
// tests.
func TestALateCommitWithAnOldFenceIsRefused(t *testing.T) {
	storetest.ALateCommitWithAnOldFenceIsRefused(t, storetest.External(t).Open(t))
}
