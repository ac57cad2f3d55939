package quota

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/live"
)

// plant is an etcd and two servers on it, each a process of its own.
type plant struct {
	dir  string
	etcd string
	grpc [2]string
}

// startPlant starts them; config is added to the servers' files.
func startPlant(t *testing.T, config string) *plant {
	t.Helper()
	p := &plant{dir: t.TempDir(), etcd: "http://" + live.FreeAddr(t)}
	peer := "http://" + live.FreeAddr(t)
	p.start(t, "etcd", live.Program(t, "ARES_TEST_ETCD", "../../.bin/etcd", "make tools"),
		"--name", "one", "--data-dir", filepath.Join(p.dir, "etcd"), "--listen-client-urls", p.etcd, "--advertise-client-urls", p.etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "one="+peer, "--log-level", "error")
	for i := range p.grpc {
		name, http := fmt.Sprintf("server%d", i), live.FreeAddr(t)
		p.grpc[i] = live.FreeAddr(t)
		file := filepath.Join(p.dir, name+".yaml")
		text := fmt.Sprintf("data_dir: %s\nhttp_addr: %s\ngrpc_addr: %s\nmetrics_addr: %s\netcd: {endpoints: [%s]}\n%s",
			filepath.Join(p.dir, name), http, p.grpc[i], live.FreeAddr(t), p.etcd, config)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.start(t, name, live.Program(t, "ARES_TEST_BIN", "../../bin/ares", "make build"), "server", "--config", file)
		live.Await(t, time.Minute, name+" to be ready", func() (bool, string) { return ready(t, http) })
	}
	return p
}

// start runs a program until the test ends.
func (p *plant) start(t *testing.T, name, path string, args ...string) {
	t.Helper()
	_ = p.process(t, name, path, args...)
}

// process is start for one that the test means to harm.
func (p *plant) process(t *testing.T, name, path string, args ...string) *os.Process {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // gone already is as good
		_ = cmd.Wait()
		_ = log.Close()
		if data, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("end of the log of %s:\n%s", name, data[max(0, len(data)-4000):])
		}
	})
	return cmd.Process
}

// log is what a program has written by now.
func (p *plant) log(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func ready(t *testing.T, addr string) (bool, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/api/v1/ready", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return false, err.Error()
	}
	return resp.StatusCode == http.StatusOK, fmt.Sprint(resp.Status, resp.Body.Close())
}

// client is one of a server's own.
func (p *plant) client(t *testing.T, server int) *client.Client {
	t.Helper()
	return p.as(t, server, "admin.token")
}

func (p *plant) as(t *testing.T, nth int, file string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{
		Addresses: []string{p.grpc[nth]}, TokenFile: filepath.Join(p.dir, fmt.Sprintf("server%d", nth), file), CallTimeout: time.Minute, Attempts: 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// startAgents lets nodes live whose jobs end as soon as they have begun.
func (p *plant) startAgents(t *testing.T, n int) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range n {
		c := p.as(t, i%2, server.NodeTokenFile)
		a := &agent{t: t, door: apipb.NewAgentServiceClient(c.Conn()), name: fmt.Sprintf("node-%d", i)}
		a.open(t)
		all.Go(func() { a.live(ctx) })
	}
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
}

// agent is a node without processes: what it is given starts and succeeds at once.
type agent struct {
	t    *testing.T
	door apipb.AgentServiceClient
	name string
	ref  *apipb.SessionRef
	busy sync.Map // seats that are being seen to
	all  sync.WaitGroup
}

// open begins the agent's session.
func (a *agent) open(t *testing.T) {
	t.Helper()
	node := &apipb.NodeInfo{NodeId: a.name, Address: "127.0.0.1", CpuCores: 64, MemoryMb: 1 << 19, Mock: true, Version: "test"}
	for i := range 8 {
		node.Devices = append(node.Devices, &apipb.DeviceInfo{
			DeviceId: fmt.Sprintf("%s-gpu-%d", a.name, i), Index: int32(i), Type: "gpu", Model: "H100", MemoryMb: 81920, Healthy: true,
		})
	}
	opened, err := a.door.OpenSession(t.Context(), &apipb.OpenSessionRequest{Node: node, Instance: "instance-of-" + a.name})
	if err != nil {
		t.Fatalf("open a session of %s: %v", a.name, err)
	}
	a.ref = &apipb.SessionRef{NodeId: a.name, Session: opened.GetSession()}
}

func (a *agent) live(ctx context.Context) {
	defer a.all.Wait()
	a.all.Go(func() { a.renew(ctx) })
	stream, err := a.door.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: a.ref})
	for err == nil {
		var got *apipb.WatchSeatsResponse
		if got, err = stream.Recv(); err != nil {
			break
		}
		for _, o := range got.GetSeats() {
			key := fmt.Sprint(o.GetSeat())
			if _, known := a.busy.LoadOrStore(key, true); !known {
				a.all.Go(func() { a.run(ctx, o) })
			}
		}
	}
	if ctx.Err() == nil {
		a.t.Errorf("the seats of %s: %v", a.name, err)
	}
}

func (a *agent) renew(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := a.door.RenewSession(ctx, &apipb.RenewSessionRequest{Ref: a.ref}); err != nil && ctx.Err() == nil {
			a.t.Logf("renew %s: %v", a.name, err) // the next one may do
		}
	}
}

// run sees one seat through. A busy server is asked again.
func (a *agent) run(ctx context.Context, o *apipb.SeatOrder) {
	steps := []func() error{
		func() error {
			_, err := a.door.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: a.ref, Seat: o.GetSeat()})
			return err
		},
		func() error {
			_, err := a.door.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: a.ref, Seat: o.GetSeat(), Result: &apipb.RankResult{Outcome: "succeeded"}})
			return err
		},
		func() error {
			_, err := a.door.ReleaseSeat(ctx, &apipb.ReleaseSeatRequest{Ref: a.ref, Seat: o.GetSeat()})
			return err
		},
	}
	for _, step := range steps {
		for ctx.Err() == nil {
			err := step()
			if err == nil {
				break
			}
			a.t.Logf("seat %v: %v", o.GetSeat(), err)
		}
	}
}
