package session

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run/seat"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// If this variable is set, the test binary acts as a job that listens. It sends SIZE bytes to each client, and then reads as many. The value
// is the file for its port.
const listenEnv, sizeEnv = "ARES_TEST_LISTEN", "ARES_TEST_SIZE"

func TestMain(m *testing.M) {
	if file := os.Getenv(listenEnv); file != "" {
		fmt.Fprintln(os.Stderr, listen(file))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func listen(file string) error {
	size, err := strconv.ParseInt(os.Getenv(sizeEnv), 10, 64)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(file+".new", []byte(strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	for err == nil {
		var conn net.Conn
		if conn, err = l.Accept(); err == nil {
			_, _ = io.CopyN(conn, zeros{}, size)
			_, _ = io.CopyN(io.Discard, conn, size)
			_, _ = conn.Write([]byte{1}) // everything has arrived
			_ = conn.Close()
		}
	}
	return err
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// A stage is a cluster of two servers. The node is connected to the second one. The user of its own jobs asks the first one.
type stage struct {
	*cluster.Cluster
	b    *testing.B
	user *client.Client
	size int64
	job  string
	port int
}

// BenchmarkSession has 50 other ranks on the node. The aim is an echo within 30 ms in 99 of 100 cases, 100 MB/s, and no renewal older than 5 s,
// which are two intervals. The benchmark does not fail without: every byte passes through five processes, which share the machine's processors
// with whatever else runs there.
func BenchmarkSession(b *testing.B) {
	s := &stage{b: b, Cluster: cluster.Start(b, cluster.Etcd(1), cluster.Servers(2)), size: rounds.Sized[int64](1<<28, 1<<20)}
	s.user = s.Client(s.Servers[0])
	s.StartAgentWith("node-1", []string{"--token-file", filepath.Join(s.Servers[1].Dir, server.NodeTokenFile), "--mock", "dgx-h100"}, s.Servers[1])
	s.AwaitOnline("node-1")
	s.runs(&apipb.JobSpec{Name: "others", Command: []string{"sleep", "100000"}, Members: int32(rounds.Sized(50, 2)), CpuCores: 1, MemoryMb: 16})
	file := s.Path("port")
	s.job = s.runs(&apipb.JobSpec{
		Name: "listens", Command: []string{os.Args[0]}, Environment: map[string]string{listenEnv: file, sizeEnv: fmt.Sprint(s.size)},
	})
	live.Await(b, cluster.Patience, "the job to listen", func() (bool, string) {
		data, err := os.ReadFile(file)
		s.port, _ = strconv.Atoi(string(data))
		return s.port != 0, fmt.Sprint(err)
	})
	paths := []*sessionPath{
		{name: "two servers", user: s.Client(s.Servers[0])},
		{name: "one server", user: s.Client(s.Servers[1])},
	}
	rows := [][]string{{"through", "key to echo, p50 ms", "p99 ms", "from the job, MB/s", "to the job, MB/s", "oldest renewal, ms"}}
	for range b.N {
		for range rounds.Count {
			for _, p := range paths {
				p.echoes = append(p.echoes, s.keys(p.user, rounds.Sized(1000, 20))...)
				p.oldest = max(p.oldest, s.watchRenewals(func() { s.forward(p) }))
			}
		}
	}
	for _, p := range paths {
		slices.Sort(p.echoes)
		echo := func(percent int) string {
			return fmt.Sprintf("%.2f", p.echoes[len(p.echoes)*percent/100].Seconds()*1000)
		}
		rows = append(rows, []string{p.name, echo(50), echo(99), p.down.Text(1, 0), p.up.Text(1, 0), fmt.Sprint(p.oldest.Milliseconds())})
	}
	title := fmt.Sprintf("Sessions with a node that runs 51 ranks, median of %d rounds (range)", rounds.Count)
	if err := rounds.Table(os.Stdout, title, rows); err != nil {
		b.Fatal(err)
	}
}

// A sessionPath is one way from the user to the node, and what was measured on it.
type sessionPath struct {
	name     string
	user     *client.Client
	echoes   []time.Duration
	down, up rounds.Figures // MB/s from the job, and to it
	oldest   time.Duration  // age of a renewal
}

// The method `runs` submits a job, and waits until it runs.
func (s *stage) runs(spec *apipb.JobSpec) string {
	s.b.Helper()
	answer, err := s.user.Submit(s.b.Context(), spec)
	if err != nil {
		s.b.Fatal(err)
	}
	job, err := s.user.WaitUntil(s.b.Context(), answer.GetJobId(), func(j *apipb.Job) bool {
		return j.GetState() == string(ares.Running) || ares.Phase(j.GetState()).Final()
	})
	if err != nil || job.GetState() != string(ares.Running) {
		s.b.Fatal(spec.GetName(), job.GetState(), job.GetReason(), err)
	}
	return answer.GetJobId()
}

// The method `keys` types on a terminal, and returns how long each key took until its echo was there.
func (s *stage) keys(user *client.Client, count int) (took []time.Duration) {
	s.b.Helper()
	in, input := io.Pipe()
	out, output := io.Pipe()
	ctx, leave := context.WithCancel(s.b.Context())
	done := make(chan error, 1)
	go func() {
		_, err := user.Exec(ctx, s.job, client.ExecOptions{
			Argv: []string{"cat"}, Terminal: &client.TerminalSize{Columns: 80, Rows: 24}, Term: "dumb", Input: in, Output: output,
		})
		_ = output.CloseWithError(io.EOF)
		done <- err
	}()
	for range count {
		sent := time.Now()
		if _, err := input.Write([]byte("x")); err != nil {
			s.b.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			s.b.Fatal(err, <-done)
		}
		took = append(took, time.Since(sent))
	}
	leave()
	_ = out.Close()
	_ = input.Close()
	<-done
	return took[1:] // the first one waited for the start of the command
}

// The method `forward` adds the rate from the job and to it.
func (s *stage) forward(p *sessionPath) {
	s.b.Helper()
	// A connection of the operating system, as those of ares forward are.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.b.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = p.user.Forward(s.b.Context(), s.job, 0, s.port, conn)
			_ = conn.Close()
		}
		done <- err
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		s.b.Fatal(err)
	}
	defer conn.Close()
	rate := func(copied func() error) float64 {
		began := time.Now()
		if err := copied(); err != nil {
			s.b.Fatal(err)
		}
		return float64(s.size) / 1e6 / time.Since(began).Seconds()
	}
	p.down = append(p.down, rate(func() error { _, err := io.CopyN(io.Discard, conn, s.size); return err }))
	p.up = append(p.up, rate(func() error {
		if _, err := io.CopyN(conn, zeros{}, s.size); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}))
	_ = conn.Close()
	<-done
}

// watchRenewals returns the greatest age of the last renewal that the supervisor of the job knew while a function ran.
func (s *stage) watchRenewals(do func()) (oldest time.Duration) {
	s.b.Helper()
	ctx, cancel := context.WithCancel(s.b.Context())
	done := make(chan error, 1)
	go func() {
		var failed error
		for failed == nil && pause.For(ctx, 50*time.Millisecond) {
			var age time.Duration
			if age, failed = s.renewalAge(); failed == nil {
				oldest = max(oldest, age)
			}
		}
		done <- failed
	}()
	do()
	cancel()
	if err := <-done; err != nil {
		s.b.Fatal(err)
	}
	return oldest
}

// renewalAge asks the supervisor of the job.
func (s *stage) renewalAge() (time.Duration, error) {
	var path string
	err := filepath.WalkDir(s.Path("node-1"), func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), s.job+".") {
			if _, err := os.Lstat(filepath.Join(file, seat.ControlFile)); err == nil {
				path = file
				return fs.SkipAll
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	dir, err := os.Open(path) // the path of a socket must be short
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	conn, err := net.Dial("unixpacket", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), seat.ControlFile))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	answer := make([]byte, 4<<10)
	n := 0
	if _, err = conn.Write([]byte("status")); err == nil {
		n, err = conn.Read(answer)
	}
	if err != nil {
		return 0, err
	}
	for word := range strings.FieldsSeq(string(answer[:n])) {
		if text, ok := strings.CutPrefix(word, "renewed="); ok {
			at, err := strconv.ParseInt(text, 10, 64)
			return seat.Now().Sub(seat.BootTime(at)), err
		}
	}
	return 0, fmt.Errorf("the supervisor answers %q", answer[:n])
}
