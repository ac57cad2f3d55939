package historytest

import (
	"fmt"

	"github.com/ares-scheduler/ares/history"
)

// manyScopes returns more scopes than SQLite allows as alternatives of one condition. Only the last scope has jobs: the
// given queue of tenant t1, or the whole tenant if no queue is given.
func manyScopes(queue string) []history.Scope {
	var out []history.Scope
	for i := range 3000 {
		s := history.Scope{Tenant: fmt.Sprint("other", i)}
		if queue != "" {
			s.Queue = queue
		}
		out = append(out, s, s) // a repeated scope counts once
	}
	return append(out, history.Scope{Tenant: "t1", Queue: queue})
}
