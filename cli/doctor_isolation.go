package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/apipb"
)

// examineUser says whom the jobs of an agent that is started here would run as.
func examineUser() finding {
	if os.Geteuid() != 0 {
		return finding{
			What: "user", State: note, Detail: "an agent of this user is not root: its jobs run as the same user, without isolation",
			Remedy: "run agents as root (see deploy/systemd); docs/isolation.md says what that gives",
		}
	}
	return finding{What: "user", State: fine, Detail: "root: an agent gives each tenant's jobs a user of their own"}
}

// examineIsolation says which nodes do not set jobs apart, and why: nodes that
// say the same are named together.
func examineIsolation(nodes []*apipb.Node) []finding {
	const untold = "its agent does not tell: it is older than this"
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
		return []finding{{What: "isolation", State: fine, Detail: "every node sets its jobs apart"}}
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
			Remedy: "docs/isolation.md says what each part needs; isolation.require keeps jobs off nodes that lack any",
		})
	}
	return found
}
