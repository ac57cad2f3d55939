package objects

import (
	"fmt"
	"testing"

	"github.com/ares-scheduler/ares/objects/bucket"
	"github.com/ares-scheduler/ares/test/s3"
)

// TestInS3 repeats the tests of this package that do not look into the directory, with a real S3 server.
func TestInS3(t *testing.T) {
	server, n := s3.Start(t), 0
	somewhere = func(testing.TB) bucket.Place { n++; return server.Place(fmt.Sprintf("objects-%d", n)) }
	t.Cleanup(func() { somewhere = inTempDir })
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"only changed chunks are missing", TestOnlyChangedChunksAreMissing},
		{"tenants do not see each other", TestTenantsDoNotSeeEachOther},
		{"commit refuses bad trees", TestCommitRefusesBadTrees},
		{"quota", TestQuota},
		{"unused objects are deleted", TestUnusedObjectsAreDeletedAfterADay},
		{"objects of jobs stay", TestObjectsOfJobsStay},
		{"submission during collect", TestSubmissionDuringCollect},
		{"uploads and collect at the same time", TestUploadsAndCollectAtTheSameTime},
	} {
		t.Run(c.name, c.test)
	}
}
