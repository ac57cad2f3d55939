package logs

import (
	"fmt"
	"testing"

	"github.com/ares-scheduler/ares/objects/bucket"
	"github.com/ares-scheduler/ares/test/s3"
)

// TestInS3 repeats the tests of this package that do not look into the directory, with a real S3 server.
func TestInS3(t *testing.T) {
	server, n := s3.Start(t), 0
	somewhere = func(testing.TB) bucket.Place { n++; return server.Place(fmt.Sprintf("logs-%d", n)) }
	t.Cleanup(func() { somewhere = inTempDir })
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"attempts are apart", TestAttemptsAreApart},
		{"missing pieces", TestMissingPieces},
		{"calls share a pack", TestCallsShareAPack},
		{"the oldest logs go first", TestTheOldestLogsGoFirst},
		{"only output is flushed", TestOnlyOutputIsFlushed},
		{"too much at once", TestTooMuchAtOnce},
	} {
		t.Run(c.name, c.test)
	}
}
