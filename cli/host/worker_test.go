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

	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/apipb"
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
	for _, c := range []struct{ dir, endpoint, address, want, fails string }{
		{fresh, "", nowhere, "its embedded store", ""},
		{fresh, "", at, "the etcd at " + at, ""},
		{fresh, "etcd-1:2379", at, "the etcd at etcd-1:2379", ""},
		{embedded, "", at, "its embedded store", ""},
		{external, "", at, "the etcd at " + at, ""},
		{external, "", nowhere, "", "used an etcd before, and none answers at " + nowhere + ": start that etcd, set ETCD_ENDPOINTS, or choose another --data-dir"},
	} {
		cfg := server.Config{DataDir: c.dir}
		if c.endpoint != "" {
			cfg.Etcd.Endpoints = []string{c.endpoint}
		}
		got, err := chooseStore(t.Context(), &cfg, c.address)
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
		if used := strings.Join(cfg.Etcd.Endpoints, ","); strings.HasPrefix(got, "the etcd") && got != "the etcd at "+used {
			t.Errorf("%+v: the endpoints are %s", c, used)
		}
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
	} {
		w.watch(c)
	}
	want := `Worker w: Found job j (attempt 1/3)
Worker w: Found job j rank 1 (attempt 5)
Worker w: ACQUIRED LEASE (token=7) for j
Worker w: Job j → FAILED (exit code 3)
Worker w: RESULT REJECTED for j: fenced
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
