package aside_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/aside"
	"github.com/ares-scheduler/ares/test/live"
)

// server is a real Redis of the test's own.
type server struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *server {
	t.Helper()
	// An address where nobody else looks for a free port, also while this is down.
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: l.Addr().String()}
	if err = l.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.addr)
	s.cmd = exec.Command("redis-server", "--port", port, "--bind", host, "--save", "", "--appendonly", "no", "--dir", s.t.TempDir())
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start a Redis (Debian's package is redis-server): %v", err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer client.Close()
	live.Await(s.t, patience, "Redis to answer", func() (bool, string) {
		err := client.Ping(context.Background()).Err()
		return err == nil, fmt.Sprint(err)
	})
}

func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // gone already is as good
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) url() string { return "redis://" + s.addr + "/0" }

// do sends Redis a command of an administrator.
func (s *server) do(args ...any) {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer client.Close()
	if err := client.Do(context.Background(), args...).Err(); err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
}

// outcomes counts what became of calls.
type outcomes struct {
	mu    sync.Mutex
	count map[aside.Outcome]int
	asked int // notes that a test asked for
	noted int // those of which something became
}

func (o *outcomes) observe(op string, of aside.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op == "note" {
		o.noted++
	}
	if o.count == nil {
		o.count = map[aside.Outcome]int{}
	}
	o.count[of]++
}

func (o *outcomes) of(of aside.Outcome) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count[of]
}

// open makes a Redis of the package's, and runs it. It waits for answers as long as a
// slow machine takes to give them.
func open(t *testing.T, url string) (*aside.Redis, *outcomes) {
	t.Helper()
	return openWithin(t, url, patience)
}

// patience bounds every wait of a test; it is only reached by a failure.
const patience = time.Minute

func openWithin(t *testing.T, url string, timeout time.Duration) (*aside.Redis, *outcomes) {
	t.Helper()
	seen := &outcomes{}
	r, err := aside.Open(aside.Config{URL: url, Timeout: timeout, Observe: seen.observe})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx) // ends with the test
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return r, seen
}

var (
	id     = ares.NewJobID("default", "one")
	digest = ares.DigestOf(ares.Spec{Name: "one"})
	other  = ares.DigestOf(ares.Spec{Name: "other"})
)

// recalls waits until a noted request is recalled: it is written down in its own time.
// No note is under way afterwards.
func recalls(t *testing.T, r *aside.Redis, seen *outcomes) {
	t.Helper()
	live.Await(t, patience, "the request to be recalled", func() (bool, string) {
		seen.mu.Lock()
		seen.asked++
		seen.mu.Unlock()
		r.Note(id, digest)
		return r.Recall(t.Context(), id, digest), "it is not"
	})
	live.Await(t, patience, "the last note", func() (bool, string) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.noted == seen.asked, fmt.Sprintf("%d of %d", seen.noted, seen.asked)
	})
}

// TestRequestsAreRecalled by all servers, by what was asked, and no longer once they
// are flushed. A Redis that is killed or stopped knows nothing, and is asked again
// when it is back.
func TestRequestsAreRecalled(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	a, seen := open(t, s.url())
	b, _ := open(t, s.url())
	if a.Recall(t.Context(), id, digest) {
		t.Error("a request is recalled that nobody made")
	}
	recalls(t, a, seen)
	if !b.Recall(t.Context(), id, digest) {
		t.Error("the other server does not recall it")
	}
	if a.Recall(t.Context(), id, other) {
		t.Error("another body under the same request is recalled as the same")
	}
	s.do("FLUSHALL")
	if a.Recall(t.Context(), id, digest) {
		t.Error("a request is recalled that was flushed")
	}
	recalls(t, a, seen)
	s.kill()
	for range 10 {
		if a.Recall(t.Context(), id, digest) {
			t.Fatal("a dead Redis recalls something")
		}
	}
	if seen.of(aside.Failed) < 3 || seen.of(aside.Resting) == 0 {
		t.Errorf("a dead Redis: %v, want failures and then a rest", seen.count)
	}
	s.start()
	recalls(t, a, seen)
}

// TestAStoppedRedisIsNotWaitedFor: it holds its connections and says nothing.
func TestAStoppedRedisIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	r, seen := openWithin(t, s.url(), time.Second)
	recalls(t, r, seen)
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	failed, rested := seen.of(aside.Failed), seen.of(aside.Resting) // on a slow machine
	defer func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }()    // it is killed next in any case
	for range 5 {
		if r.Recall(t.Context(), id, digest) {
			t.Fatal("a stopped Redis recalls something")
		}
		if _, known := r.Spend(t.Context(), "ann", 1, 1); known {
			t.Fatal("a stopped Redis counts")
		}
	}
	if seen.of(aside.Failed)-failed > 4 || seen.of(aside.Resting)-rested < 6 {
		t.Errorf("a stopped Redis: %v, want it left alone after three failures", seen.count)
	}
}

// TestOneRateForAllServers: two servers share a bucket; each caller has its own; and
// nobody is told to wait for longer than until one more call is allowed.
func TestOneRateForAllServers(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	a, _ := open(t, s.url())
	b, _ := open(t, s.url())
	let := 0
	for i := range 40 {
		wait, known := [2]*aside.Redis{a, b}[i%2].Spend(t.Context(), "ann", 0.001, 10)
		if !known {
			t.Fatal("it does not know")
		}
		if wait > 1000*time.Second {
			t.Fatalf("the wait is %s", wait)
		}
		if wait == 0 {
			let++
		}
	}
	if let != 10 {
		t.Errorf("%d of 40 calls were let through, want the 10 that may come at once", let)
	}
	if wait, known := a.Spend(t.Context(), "bob", 0.001, 10); !known || wait != 0 {
		t.Errorf("another caller waits %s (%t)", wait, known)
	}
}

// TestALyingRedis answers whatever it likes: with what cannot be nobody is turned
// away, and what it says of requests is only ever a hint.
func TestALyingRedis(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a huge number":     ":9223372036854775807\r\n",
		"a negative number": ":-5\r\n",
		"a text":            "$4\r\nlies\r\n",
		"nothing":           "$-1\r\n",
		"an error":          "-ERR no\r\n",
		"garbage":           "\x00\xff\x00garbage\r\n",
		"a long promise":    "$2147483647\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := openWithin(t, "redis://"+liar(t, answer)+"/0", 100*time.Millisecond)
			for range 5 {
				if wait, known := r.Spend(t.Context(), "ann", 10, 10); known && wait > 0 {
					t.Fatalf("it is believed to wait %s", wait)
				}
				if r.Recall(t.Context(), id, digest) {
					t.Fatal("it is believed to recall")
				}
			}
		})
	}
}

// liar listens and gives the same answer to whatever it is asked.
func liar(t *testing.T, answer string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if line[0] != '*' {
						continue
					}
					if _, err := c.Write([]byte(answer)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // the loop above ends with it
		all.Wait()
	})
	return l.Addr().String()
}

func TestAURLIsReadWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	_, err := aside.Open(aside.Config{URL: "http://user:canary@host:1/x"})
	if ares.CodeOf(err) != ares.Invalid || err.Error() != "http://host:1/x is not the URL of a Redis: give one like redis://host:6379/0 or rediss://host:6379/0" {
		t.Errorf("got %v", err)
	}
	if got := aside.Redacted("redis://:canary@host:6379/0"); got != "redis://host:6379/0" {
		t.Errorf("got %q", got)
	}
	if got := aside.Redacted("canary"); got != "what was given" {
		t.Errorf("got %q", got)
	}
}
