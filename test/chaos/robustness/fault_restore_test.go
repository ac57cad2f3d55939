package robustness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/cluster"
)

// `restore` backs up the store and lets the run continue for a while. It then
// deletes the data of all three etcd members and restores them from the
// backup.
func restore(t *tempter) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	backup := filepath.Join(t.fleet.dir, fmt.Sprintf("backup-%d", t.Uint64()))
	_, err := t.fleet.command("backup", backup, "--server", fmt.Sprintf("%s:%d", t.fleet.controls[i].IP, grpcPort),
		"--tls-ca", t.fleet.file("ca.pem"), "--token-file", t.fleet.file("admin.token"))
	if err != nil {
		release() // a store that is down cannot be backed up
		return nil
	}
	d := t.Between(2000, 12000)
	return &inject.Mishap{Target: "etcd", Detail: "the last " + d.String() + " are forgotten", Lasts: d, Undo: func() {
		defer release()
		t.fleet.goBack(t.scene, backup)
	}}
}

// goBack restores the store from a backup, with the steps of an operator who
// has lost the store.
func (f *fleet) goBack(s *scene, backup string) {
	for _, p := range append(append([]*cluster.Process{}, f.servers...), f.etcds...) {
		p.Kill()
	}
	defer func() {
		for _, p := range append(append([]*cluster.Process{}, f.etcds...), f.servers...) {
			p.Start()
		}
	}()
	note := trace.Restore{At: trace.Now(), Highest: s.rec.Seen()}
	prepared := backup + ".prepared"
	said, err := f.command("restore", "prepare", backup, prepared, "-o", "json")
	var result struct {
		Snapshot int64 `json:"snapshot_revision"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(said), &result)
	}
	if err != nil {
		f.t.Errorf("prepare a restore: %v: %s", err, said)
		return
	}
	note.Backup = result.Snapshot
	note.Highest = max(note.Highest, note.Backup)
	for _, c := range f.controls {
		dir := c.EtcdDir()
		if err := os.RemoveAll(dir); err != nil {
			f.t.Error(err)
		}
		said, err := f.command("restore", prepared, "--etcd-data-dir", dir, "--name", c.Name,
			"--initial-cluster", machines.InitialCluster(f.controls), "--initial-advertise-peer-urls", c.PeerURL())
		if err != nil {
			f.t.Errorf("restore %s: %v: %s", c.Name, err, said)
		}
	}
	s.restores = append(s.restores, note)
}

// This method runs an ares command from the router's namespace.
func (f *fleet) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, f.ares, args...).CombinedOutput()
	return string(out), err
}
