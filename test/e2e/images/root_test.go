package images

import (
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
)

// TestContainerRoot submits a job that is root in its image, and one that is not. The image's layers are unpacked by another user than the
// job's, and both jobs share them.
func TestContainerRoot(t *testing.T) {
	t.Parallel()
	w := start(t)
	n, err := w.admin.Node(t.Context(), "boxes")
	if err != nil || !n.GetContainerRoot() {
		t.Fatalf("the node cannot run the job: %q (%v)", n.GetNoContainerRoot(), err)
	}
	ref := w.push("team/root:1", busybox(t, "one"))
	for _, root := range []bool{true, false, true} {
		id := w.submit(&apipb.JobSpec{
			Name: "root", Image: ref, ContainerRoot: root, Retry: &apipb.RetryPolicy{MaxRetries: new(int32)},
			Args: []string{`id -u; echo two > version; cat version; echo; echo x > /etc/new; cat /proc/self/uid_map; echo $USER; exit 0`},
		})
		job := w.ended(id)
		out := w.output(id)
		isRoot := strings.HasPrefix(out, "0\ntwo\n") && strings.Contains(out, "\nroot\n") && !strings.Contains(out, "4294967295")
		isUser := strings.Contains(out, "\none\n") && strings.Contains(out, "4294967295")
		if job.GetState() != "succeeded" || isRoot != root || isUser == root {
			t.Errorf("container_root %t: %s %s: %s", root, job.GetState(), job.GetReason(), out)
		}
	}
}
