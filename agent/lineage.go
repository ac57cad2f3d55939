package agent

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/apipb"
)

// lineage is what an agent knows of the store it is served from. A store that
// was restored from a backup is another one: it knows nothing of what was
// started after the backup, so nothing from before may live on.
type lineage struct {
	store   string // its identity, "" when not known
	restore string // which restore of it, "" before the first
	since   int64  // revision of the first session under this restore
	highest int64  // revision that was ever seen of it, as a session or a fence
}

func lineagePath(dir string) string { return filepath.Join(dir, "store") }

// readLineage finds what an earlier run knew. A torn file is as good as none:
// other agents know, too.
func readLineage(dir string) lineage {
	data, err := os.ReadFile(lineagePath(dir))
	if err != nil {
		return lineage{}
	}
	var l lineage
	if _, err := fmt.Sscan(string(data), &l.store, &l.restore, &l.since, &l.highest); err != nil {
		return lineage{}
	}
	if l.restore == "-" {
		l.restore = ""
	}
	return l
}

func (l *lineage) write(dir string) error {
	return replace(lineagePath(dir), fmt.Sprintln(l.store, cmp.Or(l.restore, "-"), l.since, l.highest))
}

// introduce is what the agent says of itself to open a session.
func (a *Agent) introduce() *apipb.OpenSessionRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	node := a.node
	return &apipb.OpenSessionRequest{
		Node: apipb.NewNodeInfo(&node), Instance: a.instance,
		StoreId: a.store.store, HighestFence: a.store.highest, WallClock: timestamppb.Now(),
	}
}

// belong notes which store has opened a session. When that is not the one the
// seats here are of, they are disowned: their supervisors hear of no renewal any
// more, and they are ended as soon as a server has told what it knows of them.
func (a *Agent) belong(resp *apipb.OpenSessionResponse) error {
	if resp.GetStoreId() == "" {
		return nil // a server that does not tell
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.store
	next := lineage{store: resp.GetStoreId(), restore: resp.GetRestoreId(), since: was.since, highest: max(was.highest, resp.GetSession())}
	changed := was.store != next.store || was.restore != next.restore
	switch {
	case was.store != next.store:
		next.since, next.highest = resp.GetSession(), resp.GetSession() // what the other one had reached says nothing here
	case changed:
		next.since = resp.GetSession()
	}
	if was.store == "" {
		next.since, changed = 0, false // nothing was known: the seats here may be of this very store
	}
	if err := next.write(a.cfg.Dir); err != nil {
		return fmt.Errorf("note the store: %w", err)
	}
	a.store = next
	if !changed {
		return nil
	}
	a.log.Warn("the store is another one, or was restored from a backup: what runs here from before is ended", "seats", len(a.seats))
	for _, s := range a.seats {
		s.foreign = true
	}
	return nil
}

// noteFences keeps the highest fence that was seen. The caller holds a.mu.
func (a *Agent) noteFences() {
	highest := a.store.highest
	for _, o := range a.orders {
		highest = max(highest, o.GetSeat().GetFence())
	}
	if highest == a.store.highest || a.store.store == "" {
		return
	}
	a.store.highest = highest
	if err := a.store.write(a.cfg.Dir); err != nil {
		a.log.Warn("note a fence", "error", err) // the next one is tried again
	}
}
