package federation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// A disk is a copy of the data on a cluster's first machine, as in a snapshot of the machine's disk.
type disk string

func (d disk) etcd() string   { return filepath.Join(string(d), "etcd") }
func (d disk) server() string { return filepath.Join(string(d), "server") }
func (d disk) remove()        { _ = os.RemoveAll(string(d)) }

func (t *tempter) saveDisk(m *site) (disk, error) {
	d := disk(filepath.Join(t.f.dir, fmt.Sprintf("disk-%s-%d", m.name, t.Uint64())))
	m.etcds[0].Kill()
	err := errors.Join(os.CopyFS(d.etcd(), os.DirFS(m.stores[0].EtcdDir())), os.CopyFS(d.server(), os.DirFS(m.dataDir(m.controls[0]))))
	m.etcds[0].Start()
	return d, err
}

// aged waits until a cluster's store has changed since a revision, and its servers have noted that. It returns false if nothing changes.
// One revision is enough: all servers compare before they write or serve agents, and the first one tells the others. If only a server
// that has not noted the change were to start first, agents could write through it, and nobody would notice the rollback. That case
// is a stated limit (docs/guide/operations.md), so the pause lets every server note the change.
func (t *tempter) aged(m *site, since int64) bool {
	ctx, cancel := fromRouter(5 * time.Second)
	defer cancel()
	for m.rec.Seen() <= since {
		if !pause.For(ctx, 50*time.Millisecond) {
			return false
		}
	}
	ctx, cancel = fromRouter(time.Minute)
	defer cancel()
	return pause.For(ctx, 3*time.Second) // a server writes its mark every second, and the cluster beats every second
}

// rollBack puts the store of a cluster back to an earlier state without `ares restore`. The servers must notice that, and must not lead.
// Then an administrator does what their error says: a backup of this state, and a restore of that backup.
func rollBack(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	revision := m.rec.Seen()
	saved, err := t.saveDisk(m)
	if err != nil {
		saved.remove()
		release()
		return nil
	}
	d := t.Between(1000, 12_000)
	return &inject.Mishap{Target: m.name, Detail: "the last " + d.String() + " are gone without a restore", Lasts: d, Undo: func() {
		defer release()
		defer saved.remove()
		if t.aged(m, revision) {
			t.f.rollBack(m, saved)
		}
	}}
}

func (f *fleet) rollBack(m *site, saved disk) {
	m.away.Store(true)
	defer m.away.Store(false)
	f.happened(verdict.Restored, m, true)
	m.kill()
	resume := m.rec.Suspend()
	defer resume()
	note := trace.Restore{At: trace.Now(), Highest: m.rec.Seen()}
	dir := m.stores[0].EtcdDir()
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(saved.etcd()))); err != nil {
		m.t.Errorf("put the disk of %s back: %v", m.name, err)
	}
	m.etcds[0].Start()
	note.Backup = m.revision()
	note.Highest = max(note.Highest, note.Backup)
	m.start()
	m.awaitAlert("put back to an earlier time")
	backup := string(saved) + ".backup"
	live.Await(m.t, time.Minute, "a backup of "+m.name+", which was put back", func() (bool, string) {
		said, err := m.backup(backup, 0)
		return err == nil, said
	})
	m.kill()
	m.replaceStore(backup)
	m.meta.Restores = append(m.meta.Restores, note)
	m.start()
}

// The method `revision` waits for a site's store and returns its revision.
func (s *site) revision() (out int64) {
	live.Await(s.t, time.Minute, "the store of "+s.name, func() (bool, string) {
		ctx, cancel := fromRouter(5 * time.Second)
		defer cancel()
		at, err := store.Open(ctx, store.Config{Endpoints: machines.EtcdURLs(s.stores), Timeout: 5 * time.Second})
		if err != nil {
			return false, err.Error()
		}
		defer at.Close()
		out, err = at.Revision(ctx)
		return err == nil, fmt.Sprint(err)
	})
	return out
}

// awaitAlert waits until every server of a site shows an alert.
func (s *site) awaitAlert(want string) {
	for i := range s.servers {
		live.Await(s.t, time.Minute, "an alert of "+s.name, func() (bool, string) {
			ctx, cancel := fromRouter(5 * time.Second)
			defer cancel()
			alert, err := s.alert(ctx, i)
			return strings.Contains(alert, want), fmt.Sprint(alert, err)
		})
	}
}

// The method `alerts` says whether any server of a site shows an alert. A refused cluster is an alert only of the server that leads.
func (s *site) alerts(ctx context.Context, want string) bool {
	for i := range s.servers {
		if alert, _ := s.alert(ctx, i); strings.Contains(alert, want) {
			return true
		}
	}
	return false
}

func (s *site) alert(ctx context.Context, server int) (string, error) {
	c := s.client(server, 2*time.Second)
	defer c.Close()
	status, err := c.ClusterStatus(ctx)
	return status.GetAlert(), err
}

// copyStore starts a copy of a cluster's store beside the cluster, with a server and without agents, as a snapshot of a machine that is
// started once more. The copy has the cluster's name, certificate and cookie. The cluster has changed since, so the hub refuses the
// copy if it has heard of that, and the cluster continues. If it has not, because its leader has just changed, it may hear the copy first
// and refuse the cluster, which an administrator then restores. Each cluster is copied at most once in a run.
func copyStore(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	if !t.f.Take("the copy of " + m.name) {
		release()
		return nil
	}
	revision := m.rec.Seen()
	saved, err := t.saveDisk(m)
	if err != nil || !t.aged(m, revision) {
		saved.remove()
		t.f.Drop("the copy of " + m.name)
		release()
		return nil
	}
	end := t.f.startCopy(m, saved)
	defer saved.remove()
	detail := "the hub did not hear it"
	began := time.Now()
	ctx, cancel := fromRouter(t.Between(5000, 15_000))
	defer cancel()
	for pause.For(ctx, 200*time.Millisecond) {
		if t.f.hub.alerts(ctx, "cluster "+m.name+" was refused") {
			detail = "the hub refused it after " + time.Since(began).Round(time.Millisecond).String()
			break
		}
	}
	d := t.Between(0, 5000)
	return &inject.Mishap{Target: m.name, Detail: detail, Lasts: d, Undo: func() {
		defer release()
		end()
		t.f.afterCopy(m)
	}}
}

// The method `afterCopy` restores a cluster that the hub refuses because it has heard the copy first.
func (f *fleet) afterCopy(m *site) {
	ctx, cancel := fromRouter(time.Minute)
	defer cancel()
	if !pause.For(ctx, 8*time.Second) { // the hub does not take the copy for alive any more
		return
	}
	first, refused := "", false
	f.hub.administer("cluster "+m.name+" to be ready, or refused, after the end of its copy", func(ctx context.Context, c *client.Client) error {
		at, err := c.Cluster(ctx, m.name)
		last := at.GetRefusedAt().AsTime().String()
		switch {
		case err != nil:
			return err
		case at.GetState() != "unreachable":
			return nil
		case first == "":
			first = last
		}
		if refused = last != first; refused { // only the cluster itself can have been refused since
			return nil
		}
		return fmt.Errorf("it is %s, refused at %s", at.GetState(), last)
	})
	if !refused {
		return
	}
	m.away.Store(true)
	defer m.away.Store(false)
	backup := filepath.Join(f.dir, "backup-"+m.name+"-refused")
	live.Await(m.t, time.Minute, "a backup of "+m.name+", which the hub refuses", func() (bool, string) {
		said, err := m.backup(backup, 0)
		return err == nil, said
	})
	f.restore(m, backup)
}

// startCopy starts an etcd member and a server with the data on a disk, on a machine of their own.
func (f *fleet) startCopy(m *site, saved disk) (end func()) {
	i := slices.Index(f.members, m)
	at := machines.New(f.t, f.dir, m.name+"-copy", 20*(i+1)+10)
	c := &site{t: f.t, name: m.name + "-copy", logs: m.logs, proxies: m.proxies, controls: []*machines.Machine{at}, stores: []*machines.Machine{at}, rates: []string{""}}
	err := errors.Join(os.CopyFS(at.EtcdDir(), os.DirFS(saved.etcd())), os.CopyFS(c.dataDir(at), os.DirFS(saved.server())))
	if err != nil {
		f.t.Errorf("copy %s: %v", m.name, err)
	}
	c.etcds = append(c.etcds, at.StartEtcd(c.logs, c.stores, storeSpace, "--force-new-cluster"))
	c.servers = append(c.servers, at.Start(c.logs, "server-"+at.Name, c.env(0), live.Failpoints.Path(f.t), "server", "--config", c.configure(at)))
	f.mu.Lock()
	f.copies = append(f.copies, c.processes()...)
	f.mu.Unlock()
	return func() {
		for _, p := range c.processes() {
			p.End()
		}
	}
}
