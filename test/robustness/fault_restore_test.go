package robustness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// restore backs the store up, lets things go on for a while, loses every
// member of etcd and makes all three anew from the backup.
func restore(t *tempter) *mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	backup := filepath.Join(t.fleet.dir, fmt.Sprintf("backup-%d", t.Uint64()))
	_, err := t.fleet.command("backup", backup, "--server", fmt.Sprintf("%s:%d", t.fleet.controls[i].ip, grpcPort),
		"--tls-ca", t.fleet.file("ca.pem"), "--token-file", t.fleet.file("admin.token"))
	if err != nil {
		release() // there is no backup of a store that is away
		return nil
	}
	d := t.between(2000, 12000)
	return &mishap{target: "etcd", detail: "the last " + d.String() + " are forgotten", lasts: d, undo: func() {
		defer release()
		t.fleet.goBack(t.scene, backup)
	}}
}

// goBack is what an operator does who has lost the store.
func (f *fleet) goBack(s *scene, backup string) {
	for _, p := range append(append([]*process{}, f.servers...), f.etcds...) {
		p.down(syscall.SIGKILL)
	}
	defer func() {
		for _, p := range append(append([]*process{}, f.etcds...), f.servers...) {
			p.up()
		}
	}()
	note := trace.Restore{At: trace.Now(), Highest: s.rec.seen()}
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
	var cluster []string
	for _, c := range f.controls {
		cluster = append(cluster, fmt.Sprintf("%s=http://%s:%d", c.name, c.ip, peerPort))
	}
	for _, c := range f.controls {
		dir := filepath.Join(c.disk, "etcd")
		if err := os.RemoveAll(dir); err != nil {
			f.t.Error(err)
		}
		said, err := f.command("restore", prepared, "--etcd-data-dir", dir, "--name", c.name,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-advertise-peer-urls", fmt.Sprintf("http://%s:%d", c.ip, peerPort))
		if err != nil {
			f.t.Errorf("restore %s: %v: %s", c.name, err, said)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restores = append(s.restores, note)
}

// command runs an ares command at the router.
func (f *fleet) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, f.ares, args...).CombinedOutput()
	return string(out), err
}
