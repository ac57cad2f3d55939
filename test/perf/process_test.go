package perf

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/live"
)

// process is a program of its own that a benchmark starts and measures.
type process struct {
	cmd *exec.Cmd
	log string
}

// start runs a program until the benchmark ends. Its output is shown when the
// benchmark fails.
func start(b *testing.B, dir, name, path string, args ...string) *process {
	p := &process{log: filepath.Join(dir, name+".log")}
	out, err := os.Create(p.log)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if err := p.cmd.Start(); err != nil {
		b.Fatalf("start %s: %v", name, err)
	}
	b.Cleanup(func() {
		_ = p.cmd.Process.Kill() // gone already is as good
		_ = p.cmd.Wait()
		if data, err := os.ReadFile(p.log); err == nil && b.Failed() {
			b.Logf("end of the log of %s:\n%s", name, data[max(0, len(data)-4000):])
		}
	})
	return p
}

// cpu is the processor time the process has used so far.
func (p *process) cpu() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(data), ") ") // its name may hold anything
	fields := strings.Fields(after)
	ticks := 0
	for _, i := range []int{11, 12} { // user and system, in hundredths of a second
		n, _ := strconv.Atoi(fields[i])
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory is what the process has in memory now and the most it ever had, in
// bytes.
func (p *process) memory() (now, peak int64) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak
}

// plant is one `ares server` on an etcd, each a process of its own.
type plant struct {
	dir          string
	at           server.Endpoints
	etcd, ares   *process
	endpoint     string // of etcd
	admin, agent string // tokens
}

// newPlant starts etcd and a server. config is added to the server's file.
func newPlant(b *testing.B, config string) *plant {
	p := &plant{dir: b.TempDir(), endpoint: "http://" + live.FreeAddr(b)}
	peer := "http://" + live.FreeAddr(b)
	p.etcd = start(b, p.dir, "etcd", live.Program(b, "ARES_TEST_ETCD", "../../.bin/etcd", "make tools"),
		"--name", "perf", "--data-dir", filepath.Join(p.dir, "etcd"),
		"--listen-client-urls", p.endpoint, "--advertise-client-urls", p.endpoint,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "perf="+peer,
		"--log-level", "error")
	p.at = server.Endpoints{HTTP: live.FreeAddr(b), GRPC: live.FreeAddr(b), Metrics: live.FreeAddr(b)}
	data := filepath.Join(p.dir, "server")
	file := filepath.Join(p.dir, "server.yaml")
	text := fmt.Sprintf("data_dir: %s\nhttp_addr: %s\ngrpc_addr: %s\nmetrics_addr: %s\netcd: {endpoints: [%s]}\n%s\n",
		data, p.at.HTTP, p.at.GRPC, p.at.Metrics, p.endpoint, config)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	p.ares = start(b, p.dir, "server", live.Program(b, "ARES_TEST_BIN", "../../bin/ares", "make build"), "server", "--config", file)
	p.await(b, "the server to be ready", 30*time.Second, func() error {
		return p.get(b.Context(), p.at.HTTP, "/api/v1/ready", nil)
	})
	p.admin, p.agent = p.token(b, server.AdminTokenFile), p.token(b, server.NodeTokenFile)
	return p
}

func (p *plant) token(b *testing.B, file string) string {
	data, err := os.ReadFile(filepath.Join(p.dir, "server", file))
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// await tries until something succeeds.
func (p *plant) await(b *testing.B, what string, atMost time.Duration, try func() error) time.Duration {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		err := try()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > atMost {
			b.Fatalf("waited %s for %s: %v", atMost, what, err)
		}
	}
}

// get reads a page, line by line.
func (p *plant) get(ctx context.Context, addr, path string, line func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.admin)
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", path, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if line != nil {
			line(lines.Text())
		}
	}
	return lines.Err()
}

// metric reads one figure of the server's metrics, 0 when it is not there.
func (p *plant) metric(b *testing.B, name string) float64 {
	sum := 0.0
	err := p.get(b.Context(), p.at.Metrics, "/metrics", func(line string) {
		key, value, ok := strings.Cut(line, " ")
		if base, _, _ := strings.Cut(key, "{"); ok && base == name {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

// usage is what the plant's two processes used over a while.
type usage struct {
	server, etcd    float64 // cores
	serverMB        float64
	serverPeakMB    float64
	etcdMB          float64
	goroutines      int
	openDescriptors int
}

// during measures the plant while do runs.
func (p *plant) during(b *testing.B, do func()) usage {
	begin, s, e := time.Now(), p.ares.cpu(), p.etcd.cpu()
	do()
	took := time.Since(begin).Seconds()
	u := usage{server: (p.ares.cpu() - s).Seconds() / took, etcd: (p.etcd.cpu() - e).Seconds() / took}
	now, peak := p.ares.memory()
	u.serverMB, u.serverPeakMB = float64(now)/(1<<20), float64(peak)/(1<<20)
	now, _ = p.etcd.memory()
	u.etcdMB = float64(now) / (1 << 20)
	u.goroutines = int(p.metric(b, "go_goroutines"))
	u.openDescriptors = int(p.metric(b, "process_open_fds"))
	return u
}
