package cli

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

// patient is one server under examination.
type patient struct {
	at     string
	client *client.Client
	first  *apipb.GetServerStatusResponse
	seen   time.Time // when the first status came
}

// examineServers looks at every server the other commands may talk to.
func (a *app) examineServers(ctx context.Context) []finding {
	if a.stopped() {
		return append([]finding{{
			What: "server", State: fault, Detail: "no server runs in the data directory " + a.dir(),
			Remedy: fmt.Sprintf("start one with %q, or name another with --server", a.self(a.dir())+" up"),
		}}, examineClock()...)
	}
	var found []finding
	var patients []*patient
	for _, at := range a.addresses() {
		p := &patient{at: strings.TrimSpace(at)}
		var err error
		p.client, err = a.connectTo(client.Options{Addresses: []string{p.at}, Attempts: 1, CallTimeout: 8 * time.Second})
		if err != nil {
			found = append(found, finding{What: "server", State: fault, Detail: p.at + ": " + err.Error()})
			continue
		}
		found = append(found, a.examineServer(ctx, p)...)
		patients = append(patients, p)
	}
	found = append(found, examineClock()...) // takes the time that lies between two readings of a server's clock
	whole := false
	for _, p := range patients {
		found = append(found, p.examineRate(ctx)...)
		if !whole && p.first != nil {
			more, ok := examineWhole(ctx, p.client)
			found, whole = append(found, more...), ok
		}
		_ = p.client.Close() // nothing is under way any more
	}
	return found
}

// examineServer looks at one server: reached, ready, allowed, its store.
func (a *app) examineServer(ctx context.Context, p *patient) []finding {
	ready := p.client.Ready(ctx)
	// A server that is there says "not ready" when it is not.
	if ares.CodeOf(ready) == ares.Unavailable && !strings.Contains(ready.Error(), "not ready") {
		found := []finding{{What: "server", State: fault, Detail: p.at + ": " + ready.Error(), Remedy: a.reach(p.at, ready)}}
		if onThisMachine([]string{p.at}) {
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
	if status.GetVersion() != Version {
		found = append(found, finding{What: "versions", State: note, Detail: fmt.Sprintf("this command is %s, the server %s", Version, status.GetVersion())})
	}
	found = append(found, examineStore(status)...)
	found = append(found, examineHistory(status))
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
		f.Remedy = "give an admin token with --token-file or ARES_TOKEN: admin.token in the server's data directory"
	case ares.Unavailable:
		f.Remedy = "tokens are in the store: bring that back first; etcdctl endpoint health --cluster asks its members themselves"
	case ares.Invalid, ares.NotFound, ares.Conflict, ares.Fenced, ares.Refused, ares.TooLarge, ares.Exhausted, ares.Internal:
	}
	return f
}

// reach says what to do about a server that cannot be connected to.
func (a *app) reach(at string, err error) string {
	if remedy := connectRemedy(err); remedy != "" {
		return remedy
	}
	if !onThisMachine([]string{at}) {
		return "see that a server runs there (systemctl status ares-server), or name another with --server"
	}
	return `start one with "ares up", or name another with --server`
}

// connectRemedy says what to do about a connection that fails in a way that is
// known, "" for others.
func connectRemedy(err error) string {
	text := err.Error()
	for _, c := range []struct{ sign, remedy string }{
		{"does not look like a TLS handshake", "the server speaks no TLS there: leave --tls and --tls-ca away, or have it listen beyond the loopback"},
		{"unknown authority", "name the authority that signed the server's certificate with --tls-ca FILE: ca.crt in its data directory, unless it has a certificate of its own"},
		{"certificate is valid for", "use a name that the certificate has, or add the name to the server's hosts (or give it another certificate, where it has its own)"},
		{"certificate has expired", "give the server a new certificate; also compare the clocks"},
		{"not yet valid", "compare the clocks of this machine and the server"},
		{"error reading server preface", "the server seems to want TLS: add --tls or --tls-ca FILE"},
		{"no such host", "correct the name, or see to the name service"},
		{"deadline exceeded", "nothing answers: see whether the machine is up, and whether a firewall is between"},
		{"i/o timeout", "nothing answers: see whether the machine is up, and whether a firewall is between"},
	} {
		if strings.Contains(text, c.sign) {
			return c.remedy
		}
	}
	return ""
}

// notReadyRemedy says what to do by the word that anybody is told.
func notReadyRemedy(word string) string {
	switch {
	case strings.Contains(word, "does not answer"):
		return "see that a majority of etcd's members runs and that the server reaches them (etcd.endpoints); jobs run on until their lost_after"
	case strings.Contains(word, "takes no writes"):
		return "free the store's space; jobs that end meanwhile are committed later"
	case strings.Contains(word, "earlier time"):
		return "stop every server, restore the backup with ares restore, and start them again"
	case strings.Contains(word, "lags"):
		return "see the server's log, and restart it if it does not catch up"
	case strings.Contains(word, "stopping"), strings.Contains(word, "still being read"):
		return "wait a moment, or ask another server"
	}
	return "see the server's log"
}

// examineStore judges the members of the store as a server reaches them.
func examineStore(status *apipb.GetServerStatusResponse) []finding {
	var silent, full []string
	good := 0
	for _, m := range status.GetMembers() {
		switch {
		case m.GetError() != "":
			silent = append(silent, fmt.Sprintf("%s (%s)", m.GetEndpoint(), m.GetError()))
		case !m.GetHasLeader():
			silent = append(silent, m.GetEndpoint()+" (it knows no leader)")
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
		store.Remedy = "start them again, or replace them while a majority is there (etcdctl member list)"
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
			f.Detail, f.Remedy = "NOSPACE: etcd is out of space and takes no writes", noSpace
		}
		found = append(found, f)
	}
	return found
}

const noSpace = "etcdctl compaction REVISION (etcdctl endpoint status tells it), etcdctl defrag --cluster, then etcdctl alarm disarm; raise --quota-backend-bytes if it fills again"

// examineHistory says whether the server reaches its history.
func examineHistory(status *apipb.GetServerStatusResponse) finding {
	if why := status.GetHistoryError(); why != "" {
		return finding{
			What: "history", State: fault, Detail: "does not answer: " + why,
			Remedy: "bring the database back, or correct history.url; jobs go on meanwhile, and what ends is kept in the store until history takes it",
		}
	}
	if status.GetHistoryUpdating() {
		return finding{What: "history", State: note, Detail: "its tables are being brought up to date; what asks for it waits, jobs do not"}
	}
	return finding{What: "history", State: fine, Detail: "it answers"}
}

// examineWhole looks at what every server tells alike, and says whether one did.
func examineWhole(ctx context.Context, c *client.Client) ([]finding, bool) {
	status, err := c.ClusterStatus(ctx)
	if err != nil {
		return []finding{{What: "cluster", State: fault, Detail: err.Error()}}, false
	}
	leader := finding{What: "leader", State: fine, Detail: status.GetLeader()}
	if status.GetLeader() == "" {
		leader = finding{What: "leader", State: fault, Detail: "no server leads, so nothing is placed", Remedy: "see the servers' logs for why none can"}
	}
	found := []finding{leader}
	if status.GetAlert() != "" {
		found = append(found, finding{What: "alert", State: fault, Detail: status.GetAlert()})
	}
	nodes := finding{What: "nodes", State: fine, Detail: fmt.Sprintf("%d online of %d, %d GPUs", status.GetOnlineNodes(), status.GetTotalNodes(), status.GetTotalGpus())}
	if status.GetOnlineNodes() == 0 {
		nodes.State, nodes.Remedy = fault, "start an agent with ares agent; nothing runs without one"
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

// maxSkew is how far wall clocks may be apart before it is worth a word. Leases
// do not depend on them; certificates, deadlines and people do.
const maxSkew = 5 * time.Second

// wallClock judges how far a clock is ahead.
func wallClock(whose string, ahead time.Duration) []finding {
	if ahead.Abs() <= maxSkew {
		return nil
	}
	word := "ahead"
	if ahead < 0 {
		word = "behind"
	}
	return []finding{{
		What: "wall clock", State: note, Detail: fmt.Sprintf("%s is %s %s: leases do not mind, but deadlines, certificates and what people read do", whose, ahead.Abs().Round(time.Second), word),
		Remedy: "let NTP set the clocks (timedatectl)",
	}}
}

// examineRate compares how fast a server's clock runs with this machine's.
func (p *patient) examineRate(ctx context.Context) []finding {
	if p.first == nil {
		return nil
	}
	asked := time.Now()
	again, err := p.client.ServerStatus(ctx)
	seen := time.Now()
	if err != nil || again.GetUptimeSeconds() <= p.first.GetUptimeSeconds() {
		return nil // it went, or was started again: told elsewhere
	}
	here := seen.Sub(p.seen).Seconds()
	there := again.GetUptimeSeconds() - p.first.GetUptimeSeconds()
	return []finding{rate("clock rate", p.at+" beside this machine", there/here-1, seen.Sub(asked).Seconds()/here)}
}

// tolerated is the difference in rate that the protocol allows for: a supervisor
// ends a job at 0.8 of its lost_after, and the leader gives it away at 1.0.
const tolerated = 0.25

// rate judges by how much two clocks differ in rate; unsure is how much of it
// the measuring may have made.
func rate(what, whose string, differs, unsure float64) finding {
	f := finding{What: what, State: fine, Detail: fmt.Sprintf("%s: %+.2f %% (± %.2f %%); up to %.0f %% is tolerated", whose, differs*100, unsure*100, tolerated*100)}
	switch off := math.Abs(differs) - unsure; {
	case off > tolerated/2:
		f.State, f.Remedy = fault, "a job may be given away while its process lives: take the machine out of service, or repair its clock source (see /sys/devices/system/clocksource)"
	case off > 0.01:
		f.State, f.Remedy = note, "no machine should be off by that much: see to its clock source"
	}
	return f
}
