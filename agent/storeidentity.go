package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/apipb"
)

// storeIdentity identifies the store that the agent's servers use. A store that was restored from a backup counts as another store. The
// restored store has no record of the processes that were started after the backup. Therefore no process from before the restore may
// continue.
type storeIdentity struct {
	store   string // its identity, "" when unknown
	restore string // which restore of it, "" before the first
	since   int64  // revision of the first session under this restore
	highest int64  // highest revision of the store that the agent has seen, in a session or a fence
}

func storeIdentityPath(dir string) string { return filepath.Join(dir, "store") }

// readStoreIdentity reads the identity that an earlier run of the agent stored. An incomplete file counts as missing. This is
// safe, because other agents have stored the identity too.
func readStoreIdentity(dir string) storeIdentity {
	data, err := os.ReadFile(storeIdentityPath(dir))
	if err != nil {
		return storeIdentity{}
	}
	var l storeIdentity
	if _, err := fmt.Sscan(string(data), &l.store, &l.restore, &l.since, &l.highest); err != nil {
		return storeIdentity{}
	}
	if l.restore == "-" {
		l.restore = ""
	}
	return l
}

func (l *storeIdentity) write(dir string) error {
	return writeAtomically(storeIdentityPath(dir), l.text())
}

// storeIdentitySize is the length of the file, which ends with blanks.
const storeIdentitySize = 512

func (l *storeIdentity) text() string {
	return fmt.Sprintf("%-*s\n", storeIdentitySize-1, fmt.Sprint(l.store, " ", cmp.Or(l.restore, "-"), " ", l.since, " ", l.highest))
}

// The method `overwrite` stores a new fence in the existing file. A node that runs short jobs does this many times a second, and a new file
// each time would cost much more. A process that is killed leaves the old line or the new one, because it is written by one system call.
func (l *storeIdentity) overwrite(dir string) error {
	f, err := os.OpenFile(storeIdentityPath(dir), os.O_WRONLY, 0)
	if err != nil {
		return l.write(dir)
	}
	st, err := f.Stat()
	text := l.text()
	if err == nil && (st.Size() != storeIdentitySize || len(text) != storeIdentitySize) { // an earlier version wrote it
		return errors.Join(f.Close(), l.write(dir))
	}
	if err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	return errors.Join(err, f.Close())
}

// openSessionRequest returns the agent's request to open a session.
func (a *Agent) openSessionRequest() *apipb.OpenSessionRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	node := a.node
	return &apipb.OpenSessionRequest{
		Node: apipb.NewNodeInfo(&node), Instance: a.instance,
		StoreId: a.store.store, HighestFence: a.store.highest, WallClock: timestamppb.Now(),
	}
}

// noteStore records the identity of the store under which a session was opened. If the seats on this node belong to another store, they
// are marked as foreign. The supervisors of foreign seats get no more renewals. The seats are stopped as soon as a server of the new
// store has sent its orders.
func (a *Agent) noteStore(resp *apipb.OpenSessionResponse) error {
	if resp.GetStoreId() == "" {
		return nil // the server does not report its store
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.store
	next := storeIdentity{store: resp.GetStoreId(), restore: resp.GetRestoreId(), since: was.since, highest: max(was.highest, resp.GetSession())}
	changed := was.store != next.store || was.restore != next.restore
	switch {
	case was.store != next.store:
		next.since, next.highest = resp.GetSession(), resp.GetSession() // the other store's revisions have no meaning in this one
	case changed:
		next.since = resp.GetSession()
	}
	if was.store == "" {
		next.since, changed = 0, false // no store was known, so the seats here may belong to this store
	}
	if err := next.write(a.cfg.Dir); err != nil {
		return fmt.Errorf("note the store: %w", err)
	}
	a.store = next
	if !changed {
		return nil
	}
	a.log.Warn("the store is another one, or was restored from a backup: jobs started here before are stopped", "seats", len(a.seats))
	for _, s := range a.seats {
		s.foreign = true
	}
	return nil
}

// noteFences stores the highest fence that the agent has seen. The caller holds a.mu.
func (a *Agent) noteFences() {
	highest := a.store.highest
	for _, o := range a.orders {
		highest = max(highest, o.GetSeat().GetFence())
	}
	if highest == a.store.highest || a.store.store == "" {
		return
	}
	a.store.highest = highest
	if err := a.store.overwrite(a.cfg.Dir); err != nil {
		a.log.Warn("note a fence", "error", err) // tried again with the next fence
	}
}
