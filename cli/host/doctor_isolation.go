package host

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/apipb"
)

// examineUser checks which user the jobs of an agent on this machine would run as.
func examineUser() finding {
	if os.Geteuid() != 0 {
		return finding{
			What: "user", State: note, Detail: "an agent of this user is not root: all jobs run as this user, without isolation, and only platform administrators may submit them",
			Remedy: "run agents as root (see deploy/systemd and docs/guide/isolation.md), or set isolation.allow_untrusted",
		}
	}
	return finding{What: "user", State: fine, Detail: "root: the agent runs the jobs of each tenant as a separate user"}
}

// examineIsolation lists the nodes that do not isolate jobs, grouped by reason.
func examineIsolation(nodes []*apipb.Node) []finding {
	const untold = "unknown: its agent is older than this command"
	lacking := map[string][]string{}
	for _, n := range nodes {
		says := n.GetIsolation()
		switch {
		case says == "":
			lacking[untold] = append(lacking[untold], n.GetNodeId())
		case strings.HasPrefix(says, "none"), strings.Contains(says, "; no "), !strings.Contains(says, "cpu, memory, pids"):
			lacking[says] = append(lacking[says], n.GetNodeId())
		}
	}
	if len(lacking) == 0 {
		if len(nodes) == 0 {
			return nil
		}
		return []finding{{What: "isolation", State: fine, Detail: "every node isolates its jobs"}}
	}
	var found []finding
	for _, why := range slices.Sorted(maps.Keys(lacking)) {
		names := lacking[why]
		who := "node " + names[0]
		if len(names) > 1 {
			who = fmt.Sprintf("%s and %d more", who, len(names)-1)
		}
		found = append(found, finding{
			What: "isolation", State: note, Detail: fmt.Sprintf("%s: %s", who, why),
			Remedy: "see docs/guide/isolation.md for the requirements; isolation.require excludes nodes that do not meet them",
		})
	}
	return found
}
