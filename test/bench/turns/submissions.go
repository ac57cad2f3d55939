package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/pause"
)

// A server is a running `ares server` with an embedded store.
type server struct {
	url, token string
	process    *exec.Cmd
	ended      chan error
	http       *http.Client
}

// startServer starts a server of a version in a new directory, and waits until it is ready.
func startServer(ctx context.Context, program, dir string) (*server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var at [3]string
	for i := range at {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		at[i] = l.Addr().String()
		_ = l.Close() // the server takes the port
	}
	config := filepath.Join(dir, "ares.yaml")
	text := fmt.Sprintf("data_dir: %s\nhttp_addr: %s\ngrpc_addr: %s\nmetrics_addr: %s\n", filepath.Join(dir, "data"), at[0], at[1], at[2])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &server{
		url: "http://" + at[0], process: exec.CommandContext(ctx, program, "server", "--config", config), ended: make(chan error, 1),
		http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 128}},
	}
	s.process.Stdout, s.process.Stderr = log, log
	if err = s.process.Start(); err != nil {
		return nil, err
	}
	go func() { s.ended <- s.process.Wait() }()
	if err = s.awaitReady(ctx); err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, errors.Join(err, s.stop(), fmt.Errorf("the log of %s:\n%s", program, said))
	}
	token, err := os.ReadFile(filepath.Join(dir, "data", "admin.token"))
	s.token = strings.TrimSpace(string(token))
	return s, err
}

func (s *server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/v1/ready", http.NoBody)
		if err != nil {
			return err
		}
		if resp, err := s.http.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return errors.New("the server was not ready within a minute")
		}
	}
}

func (s *server) stop() error {
	if s == nil {
		return nil
	}
	_ = s.process.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
		return nil
	case <-time.After(30 * time.Second):
		return s.process.Process.Kill()
	}
}

// The method `submit` posts a job, or a batch of jobs, that no node runs.
func (s *server) submit(ctx context.Context, tag string, call, size int) error {
	jobs := make([]map[string]any, size)
	for k := range jobs {
		jobs[k] = map[string]any{
			"request_id": fmt.Sprintf("turns-%s-%d", tag, call*size+k), "name": "train-resnet", "gpu_count": 4, "cpu_cores": 16, "memory_mb": 64_000,
			"gpu_memory_mb": 40_000, "command": []string{"python", "train.py"}, "args": []string{"--epochs", "100"}, "image": "pytorch:2.0",
		}
	}
	path, body := "/api/v1/jobs", any(jobs[0])
	if size > 1 {
		path, body = "/api/v1/jobs:batch", map[string]any{"jobs": jobs}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s answered %s: %s", path, resp.Status, text)
	}
	var answer struct{ Accepted int }
	if err == nil && size > 1 {
		if err = json.Unmarshal(text, &answer); err == nil && answer.Accepted != size {
			err = fmt.Errorf("%d of %d jobs were accepted: %s", answer.Accepted, size, text)
		}
	}
	return err
}

// A load is a number of callers, of calls and of jobs in each call.
type load struct {
	name                 string
	callers, calls, size int
}

// The method `measure` makes the calls of a load, and adds the rate and the processor time of the server.
func (s *server) measure(ctx context.Context, l load, tag string) (rate, cpu float64, err error) {
	before, begin := s.cpu(), time.Now()
	var wg sync.WaitGroup
	var next atomic.Int64
	failed := make(chan error, l.callers)
	for range l.callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(l.calls); i = next.Add(1) {
				if bad := s.submit(ctx, tag, int(i), l.size); bad != nil {
					failed <- bad
					return
				}
			}
		})
	}
	wg.Wait()
	jobs := float64(l.calls * l.size)
	rate, cpu = jobs/time.Since(begin).Seconds(), float64((s.cpu()-before).Microseconds())/jobs
	select {
	case err = <-failed:
	default:
	}
	return rate, cpu, err
}

// The method `cpu` returns the processor time that the server has used.
func (s *server) cpu() time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid)) // empty if it has ended
	_, rest, _ := strings.Cut(string(text), ") ")
	fields, ticks := strings.Fields(rest), 0
	for _, i := range []int{11, 12} { // user and system, in hundredths of a second
		if i < len(fields) {
			n, _ := strconv.Atoi(fields[i])
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// The method `memory` returns the resident memory of the server, in MB.
func (s *server) memory() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid)) // empty if it has ended
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kb, _ := strconv.ParseFloat(fields[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// compareSubmissions starts a server of each version, and submits jobs to them in turns.
func compareSubmissions(ctx context.Context, versions []*version, o options, scratch string) (err error) {
	for i, v := range versions {
		if v.server, err = startServer(ctx, v.ares, filepath.Join(scratch, fmt.Sprint("server", i))); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.server.stop()) }()
	}
	all, n := figures{}, o.submissions
	for _, l := range []load{{"1 caller", 1, max(n/10, 1), 1}, {"64 callers", 64, n, 1}, {"8 callers, batches of 100", 8, max(n/32, 8), 100}} {
		err = inTurns(ctx, o.rounds, func(round, i int) error {
			rate, cpu, failed := versions[i].server.measure(ctx, l, fmt.Sprintf("%d-%d-%d", l.callers, l.size, round))
			all.add(l.name+": submissions/s", i, rate)
			all.add(l.name+": µs of the server's CPU each", i, cpu)
			return failed
		})
		if err != nil {
			return err
		}
	}
	for i, v := range versions {
		all.add("memory of the server afterwards, MB", i, v.server.memory())
	}
	return all.print(versions, o, "Submissions over REST, with audit")
}
