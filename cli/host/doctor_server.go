package host

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/client"
)

// checkedServer is one server that doctor checks.
type checkedServer struct {
	at     string
	client *client.Client
	first  *apipb.GetServerStatusResponse
	seen   time.Time // time of the first status
}

// examineServers checks every server that --server names.
func (a *commands) examineServers(ctx context.Context) []finding {
	if a.IsStopped() {
		return append([]finding{{
			What: "server", State: fault, Detail: "no server is running with the data directory " + a.Dir(),
			Remedy: fmt.Sprintf("start one with %q, or choose another with --server", a.InvocationFor(a.Dir())+" up"),
		}}, examineClock()...)
	}
	var found []finding
	var patients []*checkedServer
	for _, at := range a.Addresses() {
		p := &checkedServer{at: strings.TrimSpace(at)}
		var err error
		p.client, err = a.ConnectTo(client.Options{Addresses: []string{p.at}, Attempts: 1, CallTimeout: 8 * time.Second})
		if err != nil {
			found = append(found, finding{What: "server", State: fault, Detail: p.at + ": " + err.Error()})
			continue
		}
		found = append(found, a.examineServer(ctx, p)...)
		patients = append(patients, p)
	}
	found = append(found, examineClock()...) // this check takes the time that must pass between two readings of a server's clock
	whole := false
	for _, p := range patients {
		found = append(found, p.examineRate(ctx)...)
		if !whole && p.first != nil {
			more, ok := examineCluster(ctx, p.client)
			found, whole = append(found, more...), ok
		}
		_ = p.client.Close() // no call is in progress
	}
	return found
}

// examineServer checks one server: connection, readiness, permission and store.
func (a *commands) examineServer(ctx context.Context, p *checkedServer) []finding {
	ready := p.client.Ready(ctx)
	// A server that runs but is not ready answers "not ready".
	if ares.CodeOf(ready) == ares.Unavailable && !strings.Contains(ready.Error(), "not ready") {
		found := []finding{{What: "server", State: fault, Detail: p.at + ": " + ready.Error(), Remedy: a.reach(p.at, ready)}}
		if command.OnThisMachine([]string{p.at}) {
			found = append(found, examinePorts()...)
		}
		return found
	}
	status, err := p.client.ServerStatus(ctx)
	p.first, p.seen = status, time.Now()
	server := finding{What: "server", State: fine, Detail: p.at}
	if ready != nil {
		why := ready.Error()
		if status.GetNotReady() != "" {
			why = status.GetNotReady()
		}
		server = finding{What: "server", State: fault, Detail: p.at + " is not ready: " + why, Remedy: notReadyRemedy(ready.Error())}
	}
	found := []finding{server}
	if err != nil {
		p.first = nil
		return append(found, accessFinding(err))
	}
	found = append(found, finding{What: "access", State: fine, Detail: "the token is accepted by version " + status.GetVersion()})
	if status.GetVersion() != a.Version {
		found = append(found, finding{What: "versions", State: note, Detail: fmt.Sprintf("this command is %s, the server %s", a.Version, status.GetVersion())})
	}
	found = append(found, examineStore(status)...)
	found = append(found, examineHistory(status), examineAudit(p.client.VerifyAuditEnd(ctx)))
	found = append(found, a.examineAuthority(ctx, p)...)
	if mb := status.GetDataDirFreeMb(); mb >= 0 && mb < littleSpaceMB {
		found = append(found, space("server's disk", "the data directory of "+p.at, int64(mb)))
	}
	return append(found, wallClock(p.at, status.GetWallClock().AsTime().Sub(p.seen))...)
}

func accessFinding(err error) finding {
	f := finding{What: "access", State: fault, Detail: err.Error()}
	switch ares.CodeOf(err) {
	case ares.Unauthentic, ares.Forbidden:
		f.Remedy = "set an admin token with --token-file or ARES_TOKEN: admin.token in the server's data directory"
	case ares.Unavailable:
		f.Remedy = "tokens are in the store, so restore that first; check its members with: etcdctl endpoint health --cluster"
	default: // the error text is sufficient
	}
	return f
}

// The method `reach` suggests a fix for a server that does not accept connections.
func (a *commands) reach(at string, err error) string {
	if remedy := command.ConnectRemedy(err); remedy != "" {
		return remedy
	}
	if !command.OnThisMachine([]string{at}) {
		return "check that a server runs there (systemctl status ares-server), or choose another with --server"
	}
	return `start one with "ares up", or choose another with --server`
}

// notReadyRemedy suggests a fix for a server that is not ready, based on the reason that the server
// reports.
func notReadyRemedy(word string) string {
	switch {
	case strings.Contains(word, "does not answer"):
		return "check that a majority of the etcd members runs and that the server reaches them (etcd.endpoints); jobs continue until their lost_after"
	case strings.Contains(word, "takes no writes"):
		return "free space for the store; jobs that end now are committed later"
	case strings.Contains(word, "earlier time"):
		return "make a backup with ares backup, stop every server, restore that backup with ares restore, and start the servers again"
	case strings.Contains(word, "lags"):
		return "check the server's log, and restart the server if it does not catch up"
	case strings.Contains(word, "stopping"), strings.Contains(word, "still being read"):
		return "wait, or use another server"
	}
	return "check the server's log"
}

// examineStore checks the store's members as the server sees them.
func examineStore(status *apipb.GetServerStatusResponse) []finding {
	var silent, full []string
	good := 0
	for _, m := range status.GetMembers() {
		switch {
		case m.GetError() != "":
			silent = append(silent, fmt.Sprintf("%s (%s)", m.GetEndpoint(), m.GetError()))
		case !m.GetHasLeader():
			silent = append(silent, m.GetEndpoint()+" (no leader)")
		default:
			good++
		}
		if q := m.GetQuotaMb(); q > 0 && m.GetSizeMb() > q-q/5 {
			full = append(full, fmt.Sprintf("%s: %d of %d MB, %d in use", m.GetEndpoint(), m.GetSizeMb(), q, m.GetInUseMb()))
		}
	}
	all := len(status.GetMembers())
	store := finding{What: "store", State: fine, Detail: fmt.Sprintf("%d of %d members of etcd answer", good, all)}
	if status.GetEmbedded() {
		store.Detail = "embedded in the server"
	}
	if len(silent) > 0 {
		store.State, store.Detail = note, fmt.Sprintf("%d of %d members of etcd do not answer: %s", len(silent), all, strings.Join(silent, ", "))
		store.Remedy = "start them again, or replace them while a majority runs (etcdctl member list)"
		if good <= all/2 {
			store.State = fault
			store.Detail = "no majority: " + store.Detail
			store.Remedy = "start etcd on those machines again; if a majority is lost for good, restore a backup (ares restore --help)"
		}
	}
	found := []finding{store}
	if len(full) > 0 {
		found = append(found, finding{What: "store space", State: note, Detail: "nearly full: " + strings.Join(full, ", "), Remedy: noSpace})
	}
	for _, alarm := range status.GetAlarms() {
		f := finding{What: "store alarm", State: fault, Detail: alarm, Remedy: "replace the member that etcdctl alarm list names, or restore a backup"}
		if alarm == "NOSPACE" {
			f.Detail, f.Remedy = "NOSPACE: etcd is out of space and accepts no writes", noSpace
		}
		found = append(found, f)
	}
	return found
}

const noSpace = "etcdctl compaction REVISION (etcdctl endpoint status tells it), etcdctl defrag --cluster, then etcdctl alarm disarm; raise --quota-backend-bytes if it fills again"

// examineHistory checks whether the server can reach its history database.
func examineHistory(status *apipb.GetServerStatusResponse) finding {
	if why := status.GetHistoryError(); why != "" {
		return finding{
			What: "history", State: fault, Detail: "does not answer: " + why,
			Remedy: "start the database, or correct history.url; jobs continue, and the store keeps finished jobs until history accepts them",
		}
	}
	if status.GetHistoryUpdating() {
		return finding{What: "history", State: note, Detail: "its tables are being migrated; queries of history wait, jobs do not"}
	}
	return finding{What: "history", State: fine, Detail: "it answers"}
}

// examineCluster checks facts that are the same on all servers, so asking one server is enough. examineCluster also returns
// whether the server answered.
func examineCluster(ctx context.Context, c *client.Client) ([]finding, bool) {
	status, err := c.ClusterStatus(ctx)
	if err != nil {
		return []finding{{What: "cluster", State: fault, Detail: err.Error()}}, false
	}
	leader := finding{What: "leader", State: fine, Detail: status.GetLeader()}
	if status.GetLeader() == "" {
		leader = finding{What: "leader", State: fault, Detail: "no server is leader, so no job is placed", Remedy: "check the servers' logs for the reason"}
	}
	found := []finding{leader}
	if status.GetAlert() != "" {
		found = append(found, finding{What: "alert", State: fault, Detail: status.GetAlert()})
	}
	nodes := finding{What: "nodes", State: fine, Detail: fmt.Sprintf("%d online of %d, %d GPUs", status.GetOnlineNodes(), status.GetTotalNodes(), status.GetTotalGpus())}
	if status.GetOnlineNodes() == 0 {
		nodes.State, nodes.Remedy = fault, "start one with ares agent"
	}
	found = append(found, nodes)
	list, err := c.Nodes(ctx)
	if err != nil {
		return append(found, finding{What: "nodes", State: fault, Detail: err.Error()}), true
	}
	for _, n := range list.GetNodes() {
		found = append(found, wallClock("node "+n.GetNodeId(), time.Duration(n.GetClockAheadSeconds()*float64(time.Second)))...)
	}
	return append(found, examineIsolation(list.GetNodes())...), true
}

// maxSkew is the tolerated difference between wall clocks. Leases do not depend on wall
// clocks, but certificates, deadlines and displayed times do.
const maxSkew = 5 * time.Second

// wallClock returns a finding if the wall clocks of two machines differ by more than maxSkew.
func wallClock(whose string, ahead time.Duration) []finding {
	if ahead.Abs() <= maxSkew {
		return nil
	}
	word := "ahead"
	if ahead < 0 {
		word = "behind"
	}
	return []finding{{
		What: "wall clock", State: note, Detail: fmt.Sprintf("%s is %s %s: this affects deadlines, certificates and displayed times, but not leases", whose, ahead.Abs().Round(time.Second), word),
		Remedy: "synchronize the clocks with NTP (timedatectl)",
	}}
}

// examineRate compares the speed of a server's clock with that of this machine's clock.
func (p *checkedServer) examineRate(ctx context.Context) []finding {
	if p.first == nil {
		return nil
	}
	asked := time.Now()
	again, err := p.client.ServerStatus(ctx)
	seen := time.Now()
	if err != nil || again.GetUptimeSeconds() <= p.first.GetUptimeSeconds() {
		return nil // it stopped or restarted; other checks report that
	}
	here := seen.Sub(p.seen).Seconds()
	there := again.GetUptimeSeconds() - p.first.GetUptimeSeconds()
	return []finding{rate("clock rate", p.at+" beside this machine", there/here-1, seen.Sub(asked).Seconds()/here)}
}

// The constant `tolerated` is the largest difference between clock rates that is safe, as a
// fraction. After a node loses contact, its supervisor stops a job when 80 % of the job's
// lost_after time has passed. The leader places the job elsewhere when the whole lost_after
// time has passed.
const tolerated = 0.25

// The function `rate` returns the finding for a difference between two clock rates. The argument `unsure` is the
// possible measurement error.
func rate(what, whose string, differs, unsure float64) finding {
	f := finding{What: what, State: fine, Detail: fmt.Sprintf("%s: %+.2f %% (± %.2f %%); up to %.0f %% is tolerated", whose, differs*100, unsure*100, tolerated*100)}
	switch off := math.Abs(differs) - unsure; {
	case off > tolerated/2:
		f.State, f.Remedy = fault, "a job can be placed elsewhere while its process still runs: drain the machine, or repair its clock source (see /sys/devices/system/clocksource)"
	case off > 0.01:
		f.State, f.Remedy = note, "this drift is too large: check the clock source of the machine"
	}
	return f
}
