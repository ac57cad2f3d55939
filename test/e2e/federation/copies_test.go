package federation

import (
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// TestClustersInACluster lists the clusters of a hub at the hub and in one of its clusters: while the hub answers, after it ended,
// and after the servers of the cluster were started anew without it.
func TestClustersInACluster(t *testing.T) {
	t.Parallel()
	f := startHub(t)
	east := f.start("east", "dgx-h100")
	if out := must(t, east, "cluster", "list"); !strings.Contains(out, "No clusters") {
		t.Errorf("a cluster without a hub lists\n%s", out)
	}
	f.start("west", "dgx-a100")
	f.join("east", "--region", "eu-east", "--label", "tier=gold", "--price", "H100=2.5")
	f.join("west", "--region", "us-west")
	f.await("east", "ready")
	f.await("west", "ready")
	shows := func(what string, at *cluster.Cluster, words []string, args ...string) {
		t.Helper()
		live.Await(t, cluster.Patience, what, func() (bool, string) {
			out, bad, err := run(t, at, args...)
			for _, w := range words {
				if err != nil || !strings.Contains(out, w) {
					return false, w + " is missing:\n" + out + bad
				}
			}
			return true, ""
		})
	}
	all := []string{"east", "eu-east", "8 NVIDIA H100", "west", "us-west", "8 NVIDIA A100", "ready"}
	shows("the list of the hub", f.hub, all, "cluster", "list", "-o", "wide")
	shows("the list of a cluster", east, append(all, "tier=gold", "the copy of this cluster; the hub answers"), "cluster", "list", "-o", "wide")
	shows("a cluster in another one", f.members["west"], []string{"eu-east", "H100 2.5", "Nodes        1, with", "8 NVIDIA H100"}, "cluster", "get", "east")
	if out := must(t, f.members["west"], "cluster", "get", "east"); strings.Contains(out, "Jobs") || strings.Contains(out, "Federated") {
		t.Errorf("a cluster cannot know this of another one:\n%s", out)
	}
	refused(t, east, "there is no cluster north", "cluster", "get", "north")

	f.hub.Servers[0].Kill()
	old := "old: the hub does not answer"
	shows("the last list, with its age", east, append(all, old), "cluster", "list", "-o", "wide")
	east.Servers[0].Kill()
	east.Servers[0].Start()
	shows("the last list after a new start", east, append(all, old), "cluster", "list", "-o", "wide")
	list, err := east.Client().Clusters(t.Context())
	if err != nil || len(list.GetClusters()) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, c := range list.GetClusters() {
		if age := time.Since(c.GetCopiedAt().AsTime()); age <= 0 || age > time.Hour {
			t.Errorf("the copy of cluster %s is %s old", c.GetName(), age)
		}
	}
}
