//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// TestExecsInImages repeats the tests of commands with jobs in images.
func TestExecsInImages(t *testing.T) {
	runcPath(t)
	setInImage = true
	defer func() { setInImage, setRoot = false, false }()
	for name, test := range map[string]func(*testing.T){
		"Signal": TestExecSignal, "HangsUp": TestExecHangsUp, "HangsUpGroup": TestExecHangsUpGroup, "EndsWithJob": TestExecEndsWithJob, "RacesWithEnd": TestExecRacesWithEnd,
		"LeavesChildren": TestExecLeavesChildren, "Limits": TestExecLimits,
	} {
		setRoot = false
		t.Run(name, test)
		setRoot = true
		t.Run(name+" as root", test)
	}
}

// TestExecInImage checks what a command beside a job in an image sees, and that it gets what the devices' CDI specifications gave the job.
func TestExecInImage(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh("echo changed > /tmp/x; echo up; exec sleep 1000"))
	spec.Env = append(spec.Env, "OWN=value")
	spec.Secrets = []Secret{{Env: "TOKEN", Value: "s3cret"}, {File: "key", Value: "k3y"}}
	p := w.start(spec)
	w.untilUp(spec.Key)
	config := filepath.Join(w.dir, seatsDir, spec.Key.String(), seat.BundleDir, "config.json")
	b, err := os.ReadFile(config)
	var bundle specs.Spec
	if err == nil {
		err = json.Unmarshal(b, &bundle)
	}
	bundle.Process.Env = append(bundle.Process.Env, "FROM_CDI=yes", "OWN=other")
	bundle.Process.User.AdditionalGids = append(bundle.Process.User.AdditionalGids, 4242)
	if err == nil {
		b, err = json.Marshal(bundle)
	}
	if err == nil {
		err = os.WriteFile(config, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	script := `cat /tmp/x; readlink /proc/1/exe; echo $OWN $FROM_CDI "$GOMAXPROCS" "$TOKEN"; cat $ARES_SECRETS_DIR/key; echo; id -G; ls /proc/self/fd
		kill -0 1 && echo reached; cat /proc/self/cgroup; touch /new; echo end`
	out, errs, code, _ := w.output(w.exec(p, shell(script)), "")
	for _, want := range []string{
		"changed\n", "/usr/bin/busybox\n", "value yes  \n", "k3y\n", fmt.Sprintf("%d 4242\n", tenantA.GID), "\n0\n1\n2\n3\n", "reached\n", "0::/\n", "end\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "/new: Permission denied") || code != 0 {
		t.Errorf("code %d: %s", code, errs)
	}
}

// TestExecWithoutShell checks the error about a program that the image does not have, and runs one that it has.
func TestExecWithoutShell(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh(""))
	spec.Container.Layers, spec.Container.Data, spec.Sandbox.ShmMB = []string{"program"}, "", 16
	w.makeLayer("program", func(dir string) {
		b, err := os.ReadFile(intruderPath)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "program"), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	spec.Argv = []string{"/program", "burn=600000"}
	p := w.start(spec)
	const want = "command not found: sh, in the job's image: use a program that the image has"
	if _, err := p.Exec(w.ctx, shell("true"), screen); err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	out, _, code, _ := w.output(w.exec(p, Command{Argv: []string{"/program", "read=" + token(w), "setuid=0", "call=keyctl"}}), "")
	if strings.Contains(out, "did") || strings.Count(out, "\n") != 3 || code != 0 {
		t.Errorf("the machine's file, another user, or a denied system call: %s", out)
	}
}

// The function `token` makes a file on the machine that every user may read.
func token(w *world) string {
	w.Helper()
	path := filepath.Join(w.open(), "token")
	if err := os.WriteFile(path, []byte("secret"), 0o644); err != nil {
		w.Fatal(err)
	}
	return path
}

// TestExecIsNotAmbushed runs commands beside a job in an image that attacks each new process: it tries to trace the process before it has the
// filter of system calls, and to open the machine's files through it.
func TestExecIsNotAmbushed(t *testing.T) {
	defer func() { setRoot = false }()
	for _, setRoot = range []bool{false, true} {
		t.Run(fmt.Sprintf("root %t", setRoot), testAmbush)
	}
}

func testAmbush(t *testing.T) {
	needFilter(t)
	w := newWorld(t)
	spec := w.inImage(sh(""))
	spec.Sandbox.Scratch, spec.Sandbox.Scoped = w.withIntruder(), false // the scope alone would be enough
	spec.Argv = []string{SandboxWork + "/intruder", "ambush="}
	p := w.start(spec)
	w.eventually("the intruder waits", func() bool { return strings.Contains(w.log(spec.Key), "waiting\n") })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				x, err := p.Exec(w.ctx, Command{Argv: []string{"/bin/sleep", "0.01"}}, screen)
				if err != nil { // it may have killed the command
					continue
				}
				_, _, _ = x.Wait(w.ctx)
				_ = x.Close()
			}
		})
	}
	wg.Wait()
	w.exec(p, Command{Argv: []string{"touch", "/tmp/enough"}})
	w.want(p, Exited, 0)
	log := strings.Split(strings.TrimSpace(w.log(spec.Key)), "\n")
	seen := slices.IndexFunc(log, func(line string) bool { return strings.HasPrefix(line, "processes seen: ") })
	if seen < 0 || log[seen] == "processes seen: 0" {
		t.Errorf("it saw no process: %q", log)
	}
	for _, line := range log {
		if strings.HasPrefix(line, "got ") {
			t.Error(line)
		}
	}
}

// TestExecInFirstNamespaces checks that a command does not follow the job's main process into namespaces that the process has made.
func TestExecInFirstNamespaces(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh("exec unshare -U -m -r sh -c 'echo up; exec sleep 1000'"))
	spec.Sandbox.UserNamespaces = true
	p := w.start(spec)
	if err := until(w.ctx, func() bool { return strings.Contains(w.log(spec.Key), "up\n") || !lives(p.Pid()) }); err != nil || !lives(p.Pid()) {
		t.Fatal("the job ended; this test needs user namespaces: ", w.log(spec.Key))
	}
	for _, space := range []string{"mnt", "user"} {
		job, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.Pid(), space))
		if err != nil {
			t.Fatal(err)
		}
		out, _, _, _ := w.output(w.exec(p, Command{Argv: []string{"readlink", "/proc/self/ns/" + space}}), "")
		if got := strings.TrimSpace(out); got == job || !strings.HasPrefix(got, space+":[") {
			t.Errorf("%s: the command has %q, the job has made %q", space, got, job)
		}
	}
	if out, _, _, _ := w.output(w.exec(p, shell("id -u")), ""); out != fmt.Sprintln(tenantA.UID) {
		t.Errorf("the command's user is %q", out)
	}
}

// TestExecInImageStopped checks that a job in an image ends on time, and with everything of it, while a command beside it is being started and is held
// up by the job's other processes.
func TestExecInImageStopped(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh(""))
	spec.Sandbox.Scratch, spec.Sandbox.Scoped = w.withIntruder(), false
	spec.Argv = []string{SandboxWork + "/intruder", "hinder="}
	p := w.start(spec)
	w.eventually("the intruder waits", func() bool { return strings.Contains(w.log(spec.Key), "waiting\n") })
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			x, err := p.Exec(w.ctx, Command{Argv: []string{"/bin/sleep", "1000"}}, screen)
			if err == nil {
				_, _, _ = x.Wait(w.ctx)
				_ = x.Close()
			}
		})
	}
	w.eventually("it has seen a command", func() bool { return strings.Contains(w.log(spec.Key), "hindered\n") })
	if err := p.Kill(w.ctx); err != nil {
		t.Fatal(err)
	}
	res := w.wait(p) // it checks that the cgroup is gone
	wg.Wait()
	if res.Outcome != Stopped || res.Signal != syscall.SIGKILL {
		t.Errorf("%+v", res)
	}
}
