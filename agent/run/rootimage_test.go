//go:build linux

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// TestContainerRoot checks that a job with Container.Root is root in its image and may change everything in it, that a command beside it is
// the same root, and that the machine sees only the job's user, without capabilities.
func TestContainerRoot(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh(`id; cat /proc/self/uid_map /proc/self/gid_map; echo new > /etc/new; stat -c "owner %u:%g" /etc/new /usr/bin/busybox / /tmp "$ARES_SECRETS_DIR/key";
		chown 0:0 /etc/new && echo same; chown 5:5 /etc/new || echo no other; setsid sleep 1000 & rm /usr/bin/id && echo removed; cat "$ARES_SECRETS_DIR/key"; echo; echo x > $TMPDIR/mine;
		echo 100 > $ARES_PROGRESS_FILE && touch $ARES_CHECKPOINT_FILE && echo told; echo up; exec sleep 1000`))
	spec.Container.Root = true
	spec.Secrets = []Secret{{File: "key", Value: "k3y"}}
	p := w.start(spec)
	if err := until(w.ctx, func() bool { return strings.Contains(w.log(spec.Key), "up\n") || !lives(p.Pid()) }); err != nil || !lives(p.Pid()) {
		t.Fatalf("%s\n%+v", w.log(spec.Key), w.wait(p))
	}
	log := strings.Join(strings.Fields(w.log(spec.Key)), " ")
	one := fmt.Sprintf("0 %d 1", tenantA.UID)
	for _, want := range []string{"uid=0 gid=0", one + " " + one, strings.Repeat("owner 0:0 ", 5), "same", "no other", "removed", "k3y", "told"} {
		if !strings.Contains(log, want) {
			t.Errorf("the job has not printed %q:\n%s", want, log)
		}
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code, _ := w.output(w.exec(p, shell("cat /proc/self/uid_map; cat /proc/1/environ > /dev/null && echo traced; ps; rm /etc/new && echo removed")), "")
	for _, want := range []string{one, "traced", "removed"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) || code != 0 {
			t.Errorf("a command has not printed %q (%d): %s%s", want, code, out, errs)
		}
	}
	x := w.exec(p, Command{Argv: []string{"sleep", "1000"}})
	w.eventually("the command runs", func() bool { return strings.Count(w.processes(spec.Key), "sleep\n") == 3 })
	spaces := map[string]bool{}
	for pid := range strings.FieldsSeq(w.pidsOf(spec.Key)) {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			t.Fatal(err)
		}
		if id := fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d\n", tenantA.UID); !strings.Contains(string(status), id) || !strings.Contains(string(status), "NoNewPrivs:\t1\n") {
			t.Errorf("process %s of the job: %s", pid, status)
		}
		for _, set := range []string{"CapInh:\t0000000000000000", "CapPrm:\t00000000800001fb", "CapEff:\t00000000800001fb", "CapBnd:\t00000000800001fb"} {
			if !strings.Contains(string(status), set+"\n") {
				t.Errorf("process %s of the job has the capabilities %s", pid, status)
			}
		}
		space, err := os.Readlink("/proc/" + pid + "/ns/user")
		if err != nil || space == own {
			t.Errorf("process %s of the job is in the user namespace %s (%v)", pid, space, err)
		}
		spaces[space] = true
	}
	if len(spaces) != 1 {
		t.Errorf("the job and the commands beside it are in the user namespaces %v", spaces)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Kill(w.ctx); err != nil {
		t.Error(err)
	}
	w.wait(p) // it checks that the cgroup is gone
	if err := w.Forget(p.Key()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, seatsDir, spec.Key.String())); len(left) > 0 {
		t.Errorf("files of the job are left: %v", left)
	}
}

// pidsOf returns the processes of a job, one in each line.
func (w *world) pidsOf(k Key) string {
	w.Helper()
	b, err := os.ReadFile(filepath.Join(string(w.defaultGroup(k)), seat.JobGroup, "cgroup.procs"))
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

// processes returns the names of a job's processes.
func (w *world) processes(k Key) (names string) {
	w.Helper()
	for pid := range strings.FieldsSeq(w.pidsOf(k)) {
		b, _ := os.ReadFile("/proc/" + pid + "/comm") // it may have ended
		names += string(b)
	}
	return names
}

// TestContainerRootGroups checks that a job cannot drop its groups to reach what is closed to them.
func TestContainerRootGroups(t *testing.T) {
	w := newWorld(t)
	dir := w.open()
	closed := filepath.Join(dir, "closed")
	if err := os.WriteFile(closed, []byte("secret"), 0o604); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(closed, -1, 4242); err != nil {
		t.Fatal(err)
	}
	spec := w.inImage(sh("cat /mnt/closed; cat /proc/self/setgroups; " + SandboxWork + "/intruder setgroups=0"))
	user := *tenantA
	user.Groups = []uint32{4242}
	spec.User, spec.Container.Root, spec.Sandbox.Scratch = &user, true, w.withIntruder()
	spec.Container.Mounts = []Mount{{Source: dir, Target: "/mnt", Below: dir}}
	w.want(w.start(spec), Exited, 0)
	if log := w.log(spec.Key); strings.Contains(log, "secret") || !strings.Contains(log, "deny") || answers(log)["setgroups=0"] != notPermitted {
		t.Errorf("the job prints %s", log)
	}
}

// TestContainerRootProgram checks that a job cannot read the first program of its container. For the kernel, a process of such a program
// belongs to the machine, so the job can neither trace a command that enters its user namespace nor open the command's files.
func TestContainerRootProgram(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh("cat " + seat.SandboxInside + " > /dev/null && echo can read the program; stat -c %a:%u " + seat.SandboxInside))
	spec.Container.Root = true
	w.want(w.start(spec), Exited, 0)
	if log := w.log(spec.Key); strings.Contains(log, "can read") || !strings.Contains(log, "711:65534\n") {
		t.Errorf("the job can read the program, or it is not there: %s", log)
	}
}

// TestContainerRootQuota checks that root of an image cannot write more to it than other jobs.
func TestContainerRootQuota(t *testing.T) {
	w := needDisk(t)
	for name, spec := range map[string]Spec{"disk": w.inImage(w.onDisk("root-disk", "")), "memory": w.inImage(apart(sh("")))} {
		if name == "memory" {
			spec.Key, spec.Sandbox.Scratch, spec.Sandbox.OwnTmp, spec.Sandbox.TmpMB = key("root-memory"), w.open(), true, 8
		}
		spec.Argv = sh("dd if=/dev/zero of=/etc/big bs=1M count=64; stat -c size=%s /etc/big; rm /etc/big && echo x > /etc/small && stat -c owner=%u /etc/small").Argv
		spec.Container.Root, spec.Container.Data, spec.Dir = true, "", "/"
		w.want(w.start(spec), Exited, 0)
		if log := w.log(spec.Key); !strings.Contains(log, "No space left") || !strings.Contains(log, "owner=0") {
			t.Errorf("%s: %s", name, log)
		}
	}
}

// TestContainerRootTerminal checks that a command with a terminal controls it, and that the job's signals and exit codes are as without root.
func TestContainerRootTerminal(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done"))
	spec.Container.Root = true
	p := w.start(spec)
	w.untilUp(spec.Key)
	out, _, code, _ := w.output(w.exec(p, Command{Argv: []string{"sh", "-c", "echo on the terminal > /dev/tty; stty size; id -u; exit 3"}, Terminal: true}), "")
	if code != 3 || !strings.Contains(out, "on the terminal") || !strings.HasSuffix(strings.TrimSpace(out), "\n0") {
		t.Errorf("the command ended with %d: %q", code, out)
	}
	if _, err := p.Exec(w.ctx, Command{Argv: []string{"missing"}}, screen); err == nil || err.Error() != "command not found: missing, in the job's image: use a program that the image has" {
		t.Errorf("a missing command: %v", err)
	}
	if err := p.Stop(w.ctx, "enough", -1); err != nil {
		t.Fatal(err)
	}
	if res := w.wait(p); res.Outcome != Stopped || res.ExitCode != 7 {
		t.Errorf("the result is %+v", res)
	}
}

// TestContainerRootWithoutIDMaps starts jobs whose image is on a file system without idmapped mounts. A job that is root does not start, and
// the machine is at fault; other jobs run.
func TestContainerRootWithoutIDMaps(t *testing.T) {
	w := newWorld(t)
	layers := filepath.Join(w.dir, "layers")
	if err := os.MkdirAll(layers, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("ares-test", layers, "ramfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(layers, syscall.MNT_DETACH) })
	for _, root := range []bool{false, true} {
		spec := w.inImage(sh("echo ran"))
		spec.Key, spec.Container.Root, spec.Container.Data = key(fmt.Sprint("without-", root)), root, ""
		res := w.wait(w.start(spec))
		if want := w.log(spec.Key) != ""; want == root || (res.Outcome == Lost) != root || root && !strings.Contains(res.Reason, "has idmapped mounts") {
			t.Errorf("root %t: %+v: %q", root, res, w.log(spec.Key))
		}
	}
}

// TestAttacksAsRoot repeats the tests of attacks on the node with jobs that are root in their images.
func TestAttacksAsRoot(t *testing.T) {
	runcPath(t)
	setRoot = true
	defer func() { setRoot = false }()
	for name, test := range map[string]func(*testing.T){
		"EscapeByDirectory": TestEscapeByDirectory, "EscapeByProgram": TestEscapeByProgram, "EscapeByHookEnvironment": TestEscapeByHookEnvironment,
		"EscapeByLibraries": TestEscapeByLibraries, "EscapeByCopy": TestEscapeByCopy, "MountsRefused": TestMountsRefused, "MountsRace": TestMountsRace,
		"OutsideItsCgroup": TestContainerOutsideItsCgroup, "OutsideItsNetwork": TestContainerOutsideItsNetwork, "OwnNetwork": TestOwnNetwork,
		"ImageAtFault": TestContainerImageAtFault, "MountsGroups": TestMountsGroups,
	} {
		t.Run(name, test)
	}
}
