package host

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/server"
)

// TestChooseStore checks where the server of a worker keeps its state. It must not change to an empty store silently.
func TestChooseStore(t *testing.T) {
	etcd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			_, _ = w.Write([]byte(`{"health":"true","reason":""}`))
		}
	}))
	defer etcd.Close()
	at := strings.TrimPrefix(etcd.URL, "http://")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := silent.Addr().String()
	if err = silent.Close(); err != nil {
		t.Fatal(err)
	}
	fresh, embedded, external := t.TempDir(), t.TempDir(), t.TempDir()
	if err = os.Mkdir(filepath.Join(embedded, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(filepath.Join(external, server.RevisionMarkFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hint := "An etcd answers at " + at + ". To use it: ETCD_ENDPOINTS=" + at + " worker\n"
	for _, c := range []struct{ dir, endpoint, address, want, hint, fails string }{
		{fresh, "", nowhere, "its embedded store", "", ""},
		{fresh, "", at, "its embedded store", hint, ""},
		{fresh, "etcd-1:2379", at, "the etcd at etcd-1:2379", "", ""},
		{embedded, "", at, "its embedded store", "", ""},
		{external, "", at, "", hint, "used an etcd before: set ETCD_ENDPOINTS to its address, or choose another --data-dir"},
		{external, "", nowhere, "", "", "used an etcd before: set ETCD_ENDPOINTS to its address, or choose another --data-dir"},
		{external, "etcd-1:2379", nowhere, "the etcd at etcd-1:2379", "", ""},
	} {
		cfg := server.Config{DataDir: c.dir}
		if c.endpoint != "" {
			cfg.Etcd.Endpoints = []string{c.endpoint}
		}
		var said bytes.Buffer
		got, err := chooseStore(t.Context(), &workerPrinter{out: &said, name: "w"}, &cfg, c.address)
		if got != c.want || said.String() != c.hint || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%+v: got %q, %q, %v", c, got, said.String(), err)
		}
		if used := strings.Join(cfg.Etcd.Endpoints, ","); used != c.endpoint {
			t.Errorf("%+v: the endpoints are %s", c, used)
		}
	}
}

// TestAnswers checks that only a refused connection means that no server runs. A second server in place of a slow one would
// have another store.
func TestAnswers(t *testing.T) {
	slow, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	at := slow.Addr().String()
	t.Setenv("ARES_SERVER", at)
	app := &command.App{DataDir: t.TempDir()}
	a := &commands{app}
	found, err := a.answers(t.Context(), 100*time.Millisecond)
	if found || err == nil || !strings.Contains(err.Error(), "the server at "+at+" did not answer within 100ms") {
		t.Errorf("a slow server: %v, %v", found, err)
	}
	if err = slow.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err = a.answers(t.Context(), 10*time.Second); found || err != nil {
		t.Errorf("no server: %v, %v", found, err)
	}
	t.Setenv("ARES_SERVER", "ares.invalid:9090")
	if found, err = a.answers(t.Context(), 10*time.Second); found || err == nil {
		t.Errorf("a name that does not exist: %v, %v", found, err)
	}
}

func TestWorkerPrinter(t *testing.T) {
	var out bytes.Buffer
	w := &workerPrinter{out: &out, name: "w"}
	for _, c := range []agent.Change{
		{Step: agent.StepRegistered}, // before the devices are known
		{Step: agent.StepFound, Job: "j", Attempt: 1, Of: 3},
		{Step: agent.StepFound, Job: "j", Attempt: 5, Of: 3, Ranks: 2, Rank: 1},
		{Step: agent.StepClaimed, Job: "j", Fence: 7},
		{Step: agent.StepEnded, Job: "j", Text: "exit code\x1b[0m 3"},
		{Step: agent.StepRejected, Job: "j", Text: "fenced"},
		{Step: agent.StepDropped, Dropped: 12},
	} {
		w.watch(c)
	}
	want := `Worker w: Found job j (attempt 1/3)
Worker w: Found job j rank 1 (attempt 5)
Worker w: ACQUIRED LEASE (token=7) for j
Worker w: Job j → FAILED (exit code 3)
Worker w: RESULT REJECTED for j: fenced
Worker w: 12 lines are missing here, because the output was blocked
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestNVLinkPairs(t *testing.T) {
	n := &apipb.Node{Links: []*apipb.LinkRow{{To: []string{"X", "NV2", "SYS"}}, {To: []string{"NV2", "X", "SYS"}}, {To: []string{"SYS", "SYS", "X"}}}}
	for _, c := range []struct {
		gpus []int32
		want int
	}{{[]int32{0, 1}, 1}, {[]int32{0, 1, 2}, 1}, {[]int32{1, 2}, 0}, {[]int32{0, 9}, 0}, {nil, 0}} {
		if got := nvlinkPairs(n, c.gpus); got != c.want {
			t.Errorf("%v: %d, want %d", c.gpus, got, c.want)
		}
	}
}
