package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// A rankStage has a job with a rank on each of two nodes, which are connected to two servers.
type rankStage struct {
	*stage
	other *cluster.Process // the agent of the second node
	job   string
	// caller and called are the nodes of rank 0, in which the tests run their commands, and of rank 1.
	caller, called string
}

func newRankStage(t *testing.T, options ...cluster.Option) *rankStage {
	t.Helper()
	s := &rankStage{stage: newStage(t, options...)}
	s.other = s.StartAgent("node-2", s.Servers[0])
	s.AwaitOnline("node-2")
	answer, err := s.near.Submit(t.Context(), &apipb.JobSpec{
		RequestId: "ranks", Name: "ranks", Command: []string{"sleep", "1000"}, GpuCount: 4, Members: 2, LostAfterSeconds: 300,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.job = answer.GetJobId()
	live.Await(t, cluster.Patience, "the job to run", func() (bool, string) {
		j, err := s.near.Job(t.Context(), s.job)
		return j.GetState() == string(ares.Running), fmt.Sprint(j.GetState(), j.GetReason(), err)
	})
	// With certificates, the servers of the test cannot pass a session on to each other: they expect no TLS at a loopback address.
	for _, node := range []string{"node-1", "node-2"} {
		if _, err := s.clientOf(node).Exec(t.Context(), s.job, client.ExecOptions{Argv: []string{"true"}, Output: io.Discard, Errors: io.Discard}); err == nil {
			s.caller = node
			break
		}
	}
	var list apipb.ListRanksResponse
	out, errs, code := s.rank("", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.GetRanks()) != 2 {
		t.Fatalf("ares rank list: %q %q %d %v", out, errs, code, err)
	}
	for i, r := range list.GetRanks() {
		if int(r.GetRank()) != i || r.GetAddress() != "127.0.0.1" || r.GetState() != string(ares.SeatClaimed) {
			t.Errorf("rank %d is %v", i, r)
		}
	}
	s.caller, s.called = list.GetRanks()[0].GetNodeId(), list.GetRanks()[1].GetNodeId()
	if s.caller == s.called {
		t.Fatalf("both ranks are on node %s", s.caller)
	}
	return s
}

// The method `agentOf` returns the agent of a node.
func (s *rankStage) agentOf(node string) *cluster.Process {
	if node == "node-1" {
		return s.agent
	}
	return s.other
}

// The method `serverOf` returns the server to which a node is connected.
func (s *rankStage) serverOf(node string) *cluster.Server {
	if node == "node-1" {
		return s.Servers[1]
	}
	return s.Servers[0]
}

// The method `rank` runs `ares rank` in rank 0, without a token and without the address of a server.
func (s *rankStage) rank(input string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, errs bytes.Buffer
	res, err := s.clientOf(s.caller).Exec(s.t.Context(), s.job, client.ExecOptions{
		Argv: append([]string{s.Ares, "rank"}, args...), Input: strings.NewReader(input), Output: &out, Errors: &errs,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), res.ExitCode
}

// A rankCommand is `ares rank exec` in rank 0, in a session of its own, with a command in rank 1 that only SIGKILL ends.
type rankCommand struct {
	pid  int    // of the command in rank 1
	file string // the path of what it has printed; with .code, that of its exit code
}

func (s *rankStage) beginCommand(name string) *rankCommand {
	s.t.Helper()
	x := &rankCommand{file: s.Path(strings.ReplaceAll(name, " ", "-"))}
	script := fmt.Sprintf("%s rank exec -n --rank 1 -- sh -c 'echo $$ >%s.pid; %s' >%s 2>&1\necho $? >%s.code\n",
		s.Ares, x.file, stubborn, x.file, x.file)
	if err := os.WriteFile(x.file+".sh", []byte(script), 0o600); err != nil {
		s.t.Fatal(err)
	}
	_, err := s.clientOf(s.caller).Exec(s.t.Context(), s.job, client.ExecOptions{
		Argv: []string{"sh", "-c", "setsid sh " + x.file + ".sh >/dev/null 2>&1 & until [ -s " + x.file + ".pid ]; do sleep 0.05; done"}, Output: io.Discard, Errors: io.Discard,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	live.Await(s.t, cluster.Patience, "the command to begin", func() (bool, string) {
		b, _ := os.ReadFile(x.file + ".pid")
		x.pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		said, err := os.ReadFile(x.file)
		return x.pid > 0 && bytes.HasSuffix(b, []byte("\n")), fmt.Sprint(string(said), err)
	})
	if !cluster.Alive(x.pid) {
		s.t.Fatalf("pid %d is not alive", x.pid)
	}
	return x
}

// The method `ended` waits until both sides of a command have ended, and returns what the caller is told.
func (s *rankStage) ended(name string, x *rankCommand) string {
	s.t.Helper()
	live.Await(s.t, cluster.Patience, "the command to end after the death of "+name, func() (bool, string) { return !cluster.Alive(x.pid), cluster.State(x.pid) })
	var said []byte
	live.Await(s.t, cluster.Patience, "the caller to end after the death of "+name, func() (bool, string) {
		code, _ := os.ReadFile(x.file + ".code")
		said, _ = os.ReadFile(x.file)
		return string(code) == "125\n", fmt.Sprintf("%q %q", code, said)
	})
	return string(said)
}

// The method `clientOf` returns a client of the server to which a node is connected.
func (s *rankStage) clientOf(node string) *client.Client {
	if node == "node-1" {
		return s.near
	}
	return s.far
}

// TestRank lists the ranks of a job and runs commands in them, in a cluster whose nodes have the common token, and in one whose nodes have
// certificates of their own.
func TestRank(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]cluster.Option{"token": nil, "certificates": {cluster.TLS()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRanks(newRankStage(t, options...))
		})
	}
}

func checkRanks(s *rankStage) {
	t := s.t
	for rank, node := range []string{s.caller, s.called} {
		out, errs, code := s.rank("typed", "exec", "--rank", fmt.Sprint(rank), "--", "sh", "-c", `cat; echo " $RANK $ARES_NODE"; echo bad >&2; exit 7`)
		if want := fmt.Sprintf("typed %d %s\n", rank, node); out != want || errs != "bad\n" || code != 7 {
			t.Errorf("rank %d: %q %q %d, want %q", rank, out, errs, code, want)
		}
	}
	// As a launcher does: by the name of a node, through a shell, and from there to the first rank again.
	out, errs, code := s.rank("", "rsh", s.called, "cd", "/usr;", "pwd;", s.Ares, "rank", "rsh", "-n", s.caller, "'echo $RANK'")
	if out != "/usr\n0\n" || errs != "" || code != 0 {
		t.Errorf("rsh: %q %q %d", out, errs, code)
	}
	if out, errs, code = s.rank("", "exec", "-n", "--rank", "1", "--", "sh", "-c", "kill -9 $$"); code != 128+9 {
		t.Errorf("a signal: %q %q %d", out, errs, code)
	}
	for want, args := range map[string][]string{
		"has ranks 0 to 1, but rank 2 was requested":     {"exec", "--rank", "2", "--", "true"},
		"command not found: no-such-program":             {"exec", "--rank", "1", "--", "no-such-program"},
		`no rank of this job is on a node with the name`: {"rsh", "node-3", "true"},
	} {
		if out, errs, code = s.rank("", args...); code != 125 || !strings.Contains(errs, want) {
			t.Errorf("%v: %q %q %d, want %q", args, out, errs, code, want)
		}
	}
	// A process that is not of the job, with the same user and the same socket.
	socket, _, _ := s.rank("", "exec", "--rank", "0", "--", "sh", "-c", `printf %s "$ARES_JOB_SOCKET"`)
	p := s.Run("stranger", []string{client.JobSocketEnv + "=" + socket}, s.Ares, "rank", "list")
	if code := p.Exit(cluster.Patience).ExitCode(); code == 0 || !strings.Contains(p.Log(), "does not accept this process") {
		t.Errorf("a stranger: exit code %d, %s", code, p.Log())
	}
}

// TestRankScript runs the script of the page about sessions as a job.
func TestRankScript(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/guide/sessions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "## From inside of a job")
	_, after, _ = strings.Cut(after, "```sh\n")
	script, _, _ := strings.Cut(after, "```\n")
	s := newStage(t)
	s.StartAgent("node-2", s.Servers[0])
	s.AwaitOnline("node-2")
	answer, err := s.near.Submit(t.Context(), &apipb.JobSpec{
		RequestId: "script", Name: "script", Command: []string{"sh", "-c", script}, GpuCount: 4, Members: 2,
		Environment: map[string]string{"PATH": filepath.Dir(s.Ares) + ":" + os.Getenv("PATH")},
	})
	if err != nil {
		t.Fatal(err)
	}
	live.Await(t, cluster.Patience, "the job to succeed", func() (bool, string) {
		j, err := s.near.Job(t.Context(), answer.GetJobId())
		return j.GetState() == string(ares.Succeeded), fmt.Sprint(j.GetState(), j.GetReason(), err)
	})
	var out bytes.Buffer
	err = s.far.Logs(t.Context(), answer.GetJobId(), client.LogOptions{}, &out)
	for _, want := range []string{"work of rank 0 on node-", "work of rank 1 on node-"} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q, %v", want, out.String(), err)
		}
	}
}

// TestRankFaults ends a command in another rank by the death of each agent and each server on its way, and of the job. The command ends each
// time, its caller is told, the next command works, and the seats are free in the end.
func TestRankFaults(t *testing.T) {
	t.Parallel()
	s := newRankStage(t)
	for name, kill := range map[string]func() (restart func()){
		"the agent of the caller": func() func() {
			s.agentOf(s.caller).Kill()
			return func() { s.agentOf(s.caller).Start(); s.AwaitOnline(s.caller) }
		},
		"the other agent": func() func() {
			s.agentOf(s.called).Kill()
			return func() { s.agentOf(s.called).Start(); s.AwaitOnline(s.called) }
		},
		"the other server": func() func() {
			s.serverOf(s.called).Kill()
			return func() { s.serverOf(s.called).Start(); s.serverOf(s.called).AwaitReady() }
		},
	} {
		x := s.beginCommand(name)
		restart := kill()
		if said := s.ended(name, x); said == "" {
			t.Errorf("after the death of %s, the caller is told nothing", name)
		}
		restart()
		live.Await(t, cluster.Patience, "a command after the death of "+name, func() (bool, string) {
			var out, errs bytes.Buffer
			res, err := s.far.Exec(t.Context(), s.job, client.ExecOptions{
				Argv: []string{s.Ares, "rank", "exec", "-n", "--rank", "1", "--", "sh", "-c", "exit 5"}, Output: &out, Errors: &errs,
			})
			return err == nil && res.ExitCode == 5, fmt.Sprint(res, err, errs.String())
		})
	}
	x := s.beginCommand("the job")
	if _, err := s.near.Cancel(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	live.Await(t, cluster.Patience, "the command to end with the job", func() (bool, string) { return !cluster.Alive(x.pid), cluster.State(x.pid) })
	live.Await(t, cluster.Patience, "the seats to be free", func() (bool, string) {
		job, err := s.near.Job(t.Context(), s.job)
		free := job.GetState() == string(ares.Cancelled)
		for _, node := range []string{"node-1", "node-2"} {
			n, _ := s.near.Node(t.Context(), node)
			free = free && n.GetGpusFree() == n.GetGpusTotal() && n.GetGpusTotal() > 0 && len(n.GetJobs()) == 0
		}
		return free, fmt.Sprint(job.GetState(), err)
	})
}
