package federation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// clusterRestore sets the store of a cluster back by a few seconds.
func clusterRestore(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	return t.goBack(release, m)
}

// hubRestore sets the store of the hub back by a few seconds.
func hubRestore(t *tempter) *inject.Mishap {
	release, ok := t.reserveWith(t.f.hub)
	if !ok {
		return nil
	}
	return t.goBack(release, t.f.hub)
}

// bothRestore sets the stores of the hub and of a cluster back.
func bothRestore(t *tempter) *inject.Mishap {
	release, ok := t.reserveWith(t.f.hub)
	if !ok {
		return nil
	}
	m, free, ok := t.member()
	if !ok {
		release()
		return nil
	}
	return t.goBack(inject.Both(free, release), t.f.hub, m)
}

// goBack backs up stores and lets the run continue for a while. Then it restores them.
func (t *tempter) goBack(release func(), sites ...*site) *inject.Mishap {
	backups, target := make([]string, len(sites)), ""
	for i, s := range sites {
		backups[i] = filepath.Join(t.f.dir, fmt.Sprintf("backup-%s-%d", s.name, t.Uint64()))
		target += " " + s.name
		if _, err := s.backup(backups[i], t.IntN(len(s.controls))); err != nil {
			release() // a store that is down cannot be backed up
			return nil
		}
	}
	d := t.Between(2000, 30_000)
	return &inject.Mishap{Target: target[1:], Detail: "the last " + d.String() + " are forgotten", Lasts: d, Undo: func() {
		defer release()
		for i, s := range sites {
			t.f.restore(s, backups[i])
		}
	}}
}

// The method `restore` restores the store of a site with the steps of an operator who has lost it. An administrator then decides again
// what the backup does not have.
func (f *fleet) restore(s *site, backup string) {
	f.happened(verdict.Restored, s, true)
	s.kill()
	note := trace.Restore{At: trace.Now(), Highest: s.rec.Seen()}
	note.Backup = s.replaceStore(backup)
	note.Highest = max(note.Highest, note.Backup)
	s.meta.Restores = append(s.meta.Restores, note)
	s.start()
	if !s.isHub {
		return
	}
	for _, m := range f.members {
		if f.isGone(m) {
			f.declareDead(m, false)
		}
	}
}

// The method `replaceStore` replaces the store of a site by a backup, with `ares restore`. It returns the revision of the backup.
func (s *site) replaceStore(backup string) int64 {
	prepared := backup + ".prepared"
	said, err := s.command("restore", "prepare", backup, prepared, "-o", "json")
	var result struct {
		Snapshot int64 `json:"snapshot_revision"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(said), &result)
	}
	if err != nil {
		s.t.Errorf("prepare a restore: %v: %s", err, said)
	}
	for _, m := range s.stores {
		if err = os.RemoveAll(m.EtcdDir()); err == nil {
			said, err = s.command("restore", prepared, "--etcd-data-dir", m.EtcdDir(), "--name", m.Name,
				"--initial-cluster", machines.InitialCluster(s.stores), "--initial-advertise-peer-urls", m.PeerURL())
		}
		if err != nil {
			s.t.Errorf("restore %s: %v: %s", m.Name, err, said)
		}
	}
	return result.Snapshot
}

// The method `backup` makes a backup of the store of a site.
func (s *site) backup(file string, server int) (said string, err error) {
	return s.command("backup", file, "--server", s.address(server), "--tls-ca", s.file("ca.pem"), "--token-file", s.file("admin.token"))
}

// The method `kill` kills the servers of a site and its etcd members.
func (s *site) kill() {
	for _, p := range slices.Concat(s.servers, s.etcds) {
		p.Kill()
	}
}

// The method `start` starts the etcd members of a site and its servers.
func (s *site) start() {
	for _, p := range slices.Concat(s.etcds, s.servers) {
		p.Start()
	}
}

// The method `command` runs an ares command from the router's namespace.
func (s *site) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, live.Failpoints.Path(s.t), args...).CombinedOutput()
	return string(out), err
}
