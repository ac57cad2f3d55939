package scripts

import (
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// The script command "tmpfs SIZE DIR" mounts a small file system in memory, as a disk that is soon full. It is unmounted at the end of
// the script, or by "! tmpfs SIZE DIR".
func tmpfs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: tmpfs SIZE DIR")
	}
	dir := ts.MkAbs(args[1])
	if neg {
		ts.Check(exec.Command("umount", "--lazy", dir).Run())
		return
	}
	ts.Check(os.MkdirAll(dir, 0o711))
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=0711,size="+args[0], "ares-test", dir).CombinedOutput()
	if err != nil {
		ts.Fatalf("mount: %v: %s", err, strings.TrimSpace(string(out)))
	}
	ts.Defer(func() { _ = exec.Command("umount", "--lazy", dir).Run() }) // it fails if the script has unmounted it
}
