//go:build linux

package image_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/ares-scheduler/ares/agent/image"
)

func TestMain(m *testing.M) {
	image.RunUnpacker() // this program is also the child of the store under test
	goleak.VerifyTestMain(m)
	os.Exit(0)
}
