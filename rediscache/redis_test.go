package rediscache_test

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
	"github.com/ares-scheduler/ares/rediscache"
	"github.com/ares-scheduler/ares/test/live"
)

// `server` is a real Redis for one test.
type server struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *server {
	t.Helper()
	// The random address avoids port conflicts with other tests, even while this server is down.
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
		_ = s.cmd.Process.Kill() // it may have ended already
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) url() string { return "redis://" + s.addr + "/0" }

// This method sends an administrator's command to Redis.
func (s *server) do(args ...any) {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer client.Close()
	if err := client.Do(context.Background(), args...).Err(); err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
}

// This type counts the calls to Redis by outcome.
type outcomes struct {
	mu    sync.Mutex
	count map[rediscache.Outcome]int
	asked int // writes that a test requested
	noted int // writes that have an outcome
}

func (o *outcomes) observe(op string, of rediscache.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op == "note" {
		o.noted++
	}
	if o.count == nil {
		o.count = map[rediscache.Outcome]int{}
	}
	o.count[of]++
}

func (o *outcomes) of(of rediscache.Outcome) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count[of]
}

// This function returns a running Redis client, with a timeout that is long enough for slow
// machines.
func open(t *testing.T, url string) (*rediscache.Redis, *outcomes) {
	t.Helper()
	return openWithin(t, url, patience)
}

// patience is the maximum time that a test waits. Only a failing test waits that long.
const patience = time.Minute

func openWithin(t *testing.T, url string, timeout time.Duration) (*rediscache.Redis, *outcomes) {
	t.Helper()
	seen := &outcomes{}
	r, err := rediscache.Open(rediscache.Config{URL: url, Timeout: timeout, Observe: seen.observe})
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

// An accepted request is written to Redis in the background. This function waits until Redis returns the
// request and no write is pending.
func recalls(t *testing.T, r *rediscache.Redis, seen *outcomes) {
	t.Helper()
	live.Await(t, patience, "the request to be recalled", func() (bool, string) {
		seen.mu.Lock()
		seen.asked++
		seen.mu.Unlock()
		r.MarkSeen(id, digest)
		return r.Seen(t.Context(), id, digest), "it is not"
	})
	live.Await(t, patience, "the last note", func() (bool, string) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.noted == seen.asked, fmt.Sprintf("%d of %d", seen.noted, seen.asked)
	})
}

// TestRequestsAreRecalled checks that all servers find an accepted request by its digest, until Redis is flushed.
// While Redis is killed or stopped, lookups must find nothing. When Redis is back, it must be used again.
func TestRequestsAreRecalled(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	a, seen := open(t, s.url())
	b, _ := open(t, s.url())
	if a.Seen(t.Context(), id, digest) {
		t.Error("a request is recalled that nobody made")
	}
	recalls(t, a, seen)
	if !b.Seen(t.Context(), id, digest) {
		t.Error("the other server does not recall it")
	}
	if a.Seen(t.Context(), id, other) {
		t.Error("another body under the same request is recalled as the same")
	}
	s.do("FLUSHALL")
	if a.Seen(t.Context(), id, digest) {
		t.Error("a request is recalled that was flushed")
	}
	recalls(t, a, seen)
	s.kill()
	for range 10 {
		if a.Seen(t.Context(), id, digest) {
			t.Fatal("a dead Redis recalls something")
		}
	}
	if seen.of(rediscache.Failed) < 3 || seen.of(rediscache.Resting) == 0 {
		t.Errorf("a dead Redis: %v, want failures and then a rest", seen.count)
	}
	s.start()
	recalls(t, a, seen)
}

// TestAStoppedRedisIsNotWaitedFor checks that calls do not wait for a Redis that keeps its connections open and does
// not answer.
func TestAStoppedRedisIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	r, seen := openWithin(t, s.url(), time.Second)
	recalls(t, r, seen)
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	failed, rested := seen.of(rediscache.Failed), seen.of(rediscache.Resting) // a slow machine may have caused some
	defer func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }()              // the test kills it next in any case
	for range 5 {
		if r.Seen(t.Context(), id, digest) {
			t.Fatal("a stopped Redis recalls something")
		}
		if _, known := r.Spend(t.Context(), "ann", 1, 1); known {
			t.Fatal("a stopped Redis counts")
		}
	}
	if seen.of(rediscache.Failed)-failed > 4 || seen.of(rediscache.Resting)-rested < 6 {
		t.Errorf("a stopped Redis: %v, want it left alone after three failures", seen.count)
	}
}

// TestOneRateForAllServers checks that two servers share one rate limit. Each caller must have its own limit. No
// caller may wait longer than the interval between two allowed calls.
func TestOneRateForAllServers(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	a, _ := open(t, s.url())
	b, _ := open(t, s.url())
	let := 0
	for i := range 40 {
		wait, known := [2]*rediscache.Redis{a, b}[i%2].Spend(t.Context(), "ann", 0.001, 10)
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

// TestALyingRedis checks that no caller is rejected because of an impossible answer from Redis. Redis's answer about
// a request must be only a hint.
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
				if r.Seen(t.Context(), id, digest) {
					t.Fatal("it is believed to recall")
				}
			}
		})
	}
}

// `liar` is a server that gives the same answer to every request.
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
		_ = l.Close() // this ends the loop above
		all.Wait()
	})
	return l.Addr().String()
}

func TestAURLIsReadWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	_, err := rediscache.Open(rediscache.Config{URL: "http://user:canary@host:1/x"})
	if ares.CodeOf(err) != ares.Invalid || err.Error() != "http://host:1/x is not a Redis URL: use the form redis://host:6379/0 or rediss://host:6379/0" {
		t.Errorf("got %v", err)
	}
	if got := rediscache.Redacted("redis://:canary@host:6379/0"); got != "redis://host:6379/0" {
		t.Errorf("got %q", got)
	}
	if got := rediscache.Redacted("canary"); got != "what was given" {
		t.Errorf("got %q", got)
	}
}
