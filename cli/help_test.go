package cli

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
)

// The variable `unrun` lists the commands whose examples the test does not run. Each entry gives
// the reason.
var unrun = map[string]string{
	"ares up":                   "it runs until it is interrupted; the test itself starts one",
	"ares server":               "it runs until it is interrupted",
	"ares agent":                "it runs until it is interrupted, and needs a second machine",
	"ares debug watch":          "it runs until it is interrupted",
	"ares exec":                 "it needs a job that runs; test/e2e/scripts/testdata/sessions.txtar runs it",
	"ares shell":                "it needs a terminal; test/e2e/scripts/testdata/sessions.txtar runs it",
	"ares attach":               "it needs a terminal and a job with one; test/e2e/scripts/testdata/sessions.txtar runs it",
	"ares cp":                   "it needs a job that runs; test/e2e/scripts/testdata/sessions.txtar runs it",
	"ares forward":              "it runs until it is interrupted; test/e2e/scripts/testdata/sessions.txtar runs it",
	"ares rank":                 "it needs a job with ranks; test/e2e/session runs its commands",
	"ares rank list":            "it needs a job with ranks; test/e2e/session runs it",
	"ares rank exec":            "it needs a job with ranks; test/e2e/session runs it",
	"ares rank rsh":             "it needs a job with ranks; test/e2e/session runs it",
	"ares session get":          "it needs a recording; test/e2e/scripts/testdata/sessionrecording.txtar runs it",
	"ares session play":         "it needs a recording; test/e2e/scripts/testdata/sessionrecording.txtar runs it",
	"ares node remove":          "it needs a machine that is gone",
	"ares image":                "it needs an agent that runs images; test/e2e/images runs its commands",
	"ares image list":           "it needs an agent that runs images; test/e2e/images runs it",
	"ares image pull":           "it needs an agent that runs images; test/e2e/images runs it",
	"ares image remove":         "it needs an agent that runs images; test/e2e/images runs it",
	"ares login":                "it needs an OpenID issuer; TestLogin has one",
	"ares logout":               "it needs a context; TestLogin runs it",
	"ares cluster register":     "it needs a hub and a cluster; test/e2e/federation runs it",
	"ares cluster get":          "it needs a hub and a cluster; test/e2e/federation runs it",
	"ares cluster cordon":       "it needs a hub and a cluster; test/e2e/federation runs it",
	"ares cluster uncordon":     "it needs a hub and a cluster; test/e2e/federation runs it",
	"ares cluster drain":        "it needs a hub and a cluster; test/e2e/federation runs it",
	"ares cluster declare-dead": "it needs a hub and a cluster; test/e2e/federation runs it",
	"ares cluster leave":        "it needs a hub and a cluster; test/e2e/federation runs it",
	"ares join":                 "it needs a hub and a cluster; test/e2e/federation runs it",
	"ares demo":                 "TestDemos runs it",
	"ares demo idempotency":     "TestDemos runs it",
	"ares demo lease":           "TestDemos runs it",
	"ares demo retry":           "TestDemos runs it",
	"ares demo gpu":             "TestDemos runs it",
	"ares demo exactly-once":    "TestDemos runs it",
}

// The variable `first` lists the commands whose examples create objects that other examples need.
// The variable `last` lists the commands whose examples remove these objects or keep jobs off the
// node. The examples of all other commands run after those in `first` and before those in `last`.
var (
	first = []string{
		"ares tenant create", "ares queue create", "ares token create", "ares binding create", "ares node token create", "ares policy apply",
		"ares price set", "ares backup", "ares sim record", "ares secret create",
	}
	last = []string{
		"ares node cordon", "ares node uncordon", "ares price delete", "ares secret rotate-key", "ares secret delete", "ares reservation create", "ares reservation get", "ares reservation delete", "ares policy delete", "ares node token revoke", "ares binding delete",
		"ares token revoke", "ares queue delete", "ares tenant delete", "ares node drain",
	}
)

// The function `walk` calls the function `visit` for every command that a user can see. It visits
// a command before its subcommands.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			walk(sub, visit)
		}
	}
}

// TestEveryPage checks the help of every command. The help must begin with a verb and have an
// example, and every top-level command must have a group.
func TestEveryPage(t *testing.T) {
	root := newRoot(&command.App{})
	for _, c := range root.Commands() {
		if c.GroupID == "" && !c.Hidden {
			t.Errorf("%s has no group: add it to groups", c.CommandPath())
		}
	}
	walk(root, func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Short[:1] != strings.ToUpper(c.Short[:1]) {
			t.Errorf("%s: short text %q: write what the command does, such as %q", c.CommandPath(), c.Short, "List jobs")
		}
		if word, _, _ := strings.Cut(c.Short, " "); slices.Contains([]string{"See", "Say", "Who", "What", "How", "A", "The"}, word) {
			t.Errorf("%s: short text %q must begin with a verb that says what the command does", c.CommandPath(), c.Short)
		}
		if !strings.Contains(c.Example, "ares ") {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the line %q of the example is not indented by two spaces", c.CommandPath(), line)
			}
		}
	})
}

// TestGlobalFlagsAreOnOnePage checks that only "ares help flags" lists the global flags.
func TestGlobalFlagsAreOnOnePage(t *testing.T) {
	for args, has := range map[string]bool{"help flags": true, "help": false, "job list --help": false, "help job": false} {
		code, stdout, stderr := run(t, strings.Fields(args)...)
		if code != 0 || strings.Contains(stdout, "--token-file") != has {
			t.Errorf("ares %s: exit %d\n%s%s", args, code, stdout, stderr)
		}
		if !has && !strings.Contains(stdout, "Global flags: ares help flags") {
			t.Errorf("ares %s does not name the page of the global flags:\n%s", args, stdout)
		}
	}
	_, stdout, _ := run(t, "help")
	at := -1
	for _, g := range groups {
		if i := strings.Index(stdout, "\n"+g.title+"\n"); i > at {
			at = i
		} else {
			t.Errorf("there is no group %s in its place:\n%s", g.title, stdout)
		}
	}
}

// TestFlagsOfOtherNames checks that the program shows its flags under the names of other schedulers, but no global ones.
func TestFlagsOfOtherNames(t *testing.T) {
	for name, flag := range map[string]string{"scheduler": "--config", "worker": "--mock", "gpu-cli": ""} {
		var out, errs bytes.Buffer
		code := MainAs(t.Context(), name, []string{"--help"}, strings.NewReader(""), &out, &errs)
		if code != 0 || !strings.Contains(out.String(), flag) || strings.Contains(out.String(), "--tls-ca") {
			t.Errorf("%s --help ended with %d and does not list %s:\n%s%s", name, code, flag, &out, &errs)
		}
		if listed := strings.Contains(out.String(), "\nFlags:\n"); listed != (flag != "") {
			t.Errorf("%s --help has a list of flags: %t:\n%s", name, listed, &out)
		}
	}
}

// TestExamples runs the example of every command in a shell, against a real server with
// simulated GPUs.
func TestExamples(t *testing.T) {
	dir := startExampleCluster(t)
	examples := map[string]string{}
	walk(newRoot(&command.App{}), func(c *cobra.Command) { examples[c.CommandPath()] = c.Example })
	for path := range unrun {
		if examples[path] == "" {
			t.Errorf("%s is in the list of examples that do not run, and has none: remove it", path)
		}
	}
	order := slices.DeleteFunc(slices.Sorted(maps.Keys(examples)), func(path string) bool {
		return unrun[path] != "" || slices.Contains(first, path) || slices.Contains(last, path)
	})
	for _, path := range slices.Concat(first, order, last) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := shell(ctx, dir, "set -e\n"+examples[path])
		cancel()
		if err != nil {
			t.Errorf("the example of %q does not work: %s\n%s\n%s", path, err, examples[path], out)
		}
	}
}

// The function `shell` runs a script in a directory whose bin subdirectory contains the ares
// program.
func shell(ctx context.Context, dir, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"ARES_DATA_DIR="+filepath.Join(dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "ARES_ISOLATION_MODE=none", "ARES_CONTEXT=", "ARES_SERVER=", "ARES_TOKEN=", "ARES_TOKEN_FILE=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 5*time.Second
	err := cmd.Run()
	return out.String(), err
}

// startExampleCluster starts a server with one simulated node, gpu-1, and creates the files
// that the examples name. startExampleCluster returns the directory in which to run the
// examples.
func startExampleCluster(t *testing.T) string {
	t.Helper()
	binary, err := filepath.Abs(os.Getenv("ARES_TEST_BIN"))
	if os.Getenv("ARES_TEST_BIN") == "" {
		binary, err = filepath.Abs("../bin/ares")
	}
	if err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil {
		t.Fatalf("the examples need the ares binary: run `make build`, or set ARES_TEST_BIN to one: %s", err)
	}
	dir := t.TempDir()
	if err = os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err = os.Symlink(binary, filepath.Join(dir, "bin", "ares")); err != nil {
		t.Fatal(err)
	}
	channel := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(channel.Close)
	budget, err := os.ReadFile("../deploy/policies/gpu-budget.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"server.yaml":           "alerts:\n  channels:\n    - {name: ops, kind: webhook, url_file: channel.url}\n",
		"channel.url":           channel.URL + "\n",
		"budget.yaml":           string(budget),
		"job.yaml":              "name: from-file\ncommand: [echo, hello]\n",
		"scheduler-config.yaml": "scheduler: {scheduling_interval_ms: 1000}\napi: {http_port: 8080}\n",
		"jobs.csv":              exampleTrace,
		"token.txt":             "example",
		"user.txt":              "example",
		"password.txt":          "example",
		"fleet.yaml":            exampleFleet,
		"train.py":              "print('hello')\n",
		".aresignore":           "*\n!train.py\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan string, 1)
	go func() {
		out, _ := shell(ctx, dir, "exec ares up --config server.yaml --mock dgx-a100 --node gpu-1 --node-label pool=h100 --node-label rack=r1"+
			" --record recordings --http-addr 127.0.0.1:0 --grpc-addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0")
		done <- out
	}()
	t.Cleanup(func() {
		stop()
		if out := <-done; t.Failed() {
			t.Logf("the server printed:\n%.4000s", out)
		}
	})
	ask := time.NewTicker(100 * time.Millisecond)
	defer ask.Stop()
	for began := time.Now(); ; <-ask.C {
		out, err := shell(t.Context(), dir, "ares node list -o json")
		if err == nil && strings.Contains(out, `"online"`) {
			return dir
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("no node is online: %v\n%s", err, out)
		}
	}
}

const (
	exampleTrace = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 06:00:00,600.5,4,2400.0,b\n2017-10-09 07:00:00,60.0,1,60.0,a\n"
	exampleFleet = "machines:\n  - {profile: v100-4, count: 2, leaf_size: 2}\n"
)
