package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeKubectl stands in for kubectl. It answers with the version in the file `version`, notes its other arguments in the
// file `calls`, and fails to wait for the rollout if the file `broken` exists.
const fakeKubectl = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$*" in
"config current-context") echo test ;;
"get --raw /version") cat version || exit 1 ;;
*"rollout status"*) echo "$*" >>calls; [ ! -e broken ] ;;
"apply -f -") echo "$*" >>calls; cat >applied ;;
*) echo "$*" >>calls ;;
esac
`

func TestDeployScript(t *testing.T) {
	const version = `{"major": "1", "minor": "MINOR", "gitVersion": "v1.MINOR.0"}`
	for _, c := range []struct {
		name, minor string
		args        []string
		broken      bool
		fails       bool
		want        string // in the output
		calls       string
	}{
		{name: "plain", minor: "37", want: "installing ares-kube-scheduler:local into Kubernetes 1.37 (context test)", calls: "apply -f deploy/\n-n kube-system rollout status deployment/topology-scheduler --timeout 120s\n"},
		{name: "the lowest version, as some clouds write it", minor: "36+", want: "into Kubernetes 1.36", calls: "apply -f deploy/\n"},
		{name: "another image", minor: "37", args: []string{"--image", "registry.example.com/ares:1.0", "--timeout", "5"}, want: "installing registry.example.com/ares:1.0", calls: "apply -f -\n-n kube-system rollout status deployment/topology-scheduler --timeout 5s\n"},
		{name: "too old", minor: "35", fails: true, want: "Kubernetes 1.35 is too old: the scheduler needs 1.36 or later"},
		{name: "no cluster", fails: true, want: "the cluster (context test) does not answer: check KUBECONFIG"},
		{name: "not started", minor: "37", broken: true, fails: true, want: "the scheduler did not start within 120 s", calls: "get pods -l app=topology-scheduler"},
		{name: "unknown argument", minor: "37", args: []string{"--images", "x"}, fails: true, want: "unknown argument --images; usage:"},
		{name: "missing value", minor: "37", args: []string{"--image"}, fails: true, want: "--image needs a value"},
		{name: "bad timeout", minor: "37", args: []string{"--timeout", "2m"}, fails: true, want: "--timeout 2m: write a number of seconds"},
		{name: "bad image", minor: "37", args: []string{"--image", "a|b"}, fails: true, want: "--image a|b: write the name of an image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write("kubectl", fakeKubectl)
			if c.minor != "" {
				write("version", strings.ReplaceAll(version, "MINOR", c.minor))
			}
			if c.broken {
				write("broken", "")
			}
			cmd := exec.Command("../../../scripts/deploy.sh", c.args...)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ARES_KUBE_IMAGE=")
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails || !strings.Contains(string(out), c.want) {
				t.Fatalf("%v: %s\nwant %q", err, out, c.want)
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil && c.calls != "" || !strings.Contains(string(calls), c.calls) || c.calls == "" && len(calls) > 0 {
				t.Errorf("called kubectl with %q, %v, want %q", calls, err, c.calls)
			}
			if applied, err := os.ReadFile(filepath.Join(dir, "applied")); err == nil {
				if !strings.Contains(string(applied), "image: registry.example.com/ares:1.0\n") || strings.Contains(string(applied), "image: ares-kube-scheduler:local") {
					t.Error("the image was not replaced")
				}
			}
		})
	}
}
