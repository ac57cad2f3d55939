package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/store"
)

// The type `script` is a LogSource that sends preset lines of output and then returns err. If the field
// `gate` is set, the log source waits for a signal before it sends each line.
type script struct {
	lines []string
	gate  chan struct{}
	err   error
	asked chan service.LogQuery
}

func (s *script) Logs(ctx context.Context, q service.LogQuery, send func(service.LogPart) error) error {
	if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("authorization")) != 1 {
		return errors.New("the caller's token is not passed on")
	}
	s.asked <- q
	for _, l := range s.lines {
		if s.gate != nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.gate:
			}
		}
		if err := send(service.LogPart{Data: []byte(l)}); err != nil {
			return err
		}
	}
	return s.err
}

// The method `place` assigns seats to a job, as the scheduling loop would.
func (h *house) place(id string) {
	h.t.Helper()
	must(h.t, h.store.Lead(h.t.Context(), "test", time.Minute, func(ctx context.Context, lead *store.Leadership) error {
		snap, err := h.store.Job(ctx, ares.JobID(id))
		if err != nil {
			return err
		}
		next := snap.Run.Clone()
		seats := make([]ares.Seat, snap.Job.Members)
		for i := range seats {
			seats[i] = ares.Seat{Node: "n1", Rank: i}
		}
		if err = next.Place(seats, 0, time.Now()); err != nil {
			return err
		}
		_, _, err = h.store.Commit(ctx, lead, "", []store.Change{{Job: ares.JobID(id), Next: next, New: true}})
		return err
	}))
}

func TestLogs(t *testing.T) {
	src := &script{lines: []string{"one\n", "two\n"}, asked: make(chan service.LogQuery, 10)}
	h := newHouse(t, func(c *Config) { c.Logs = src })
	id := h.submit("members", 2)
	path := "/api/v1/jobs/" + id + "/logs"
	h.refused(h.do("GET", path, nil), 404, ares.NotFound, "pending", "follow")
	h.place(id)
	a := h.do("GET", path+"?tail_bytes=9&rank=1", nil)
	if a.code != 200 || a.body != "one\ntwo\n" || a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("logs answered %d %q %v", a.code, a.body, a.header)
	}
	q := <-src.asked
	if q.Job != ares.JobID(id) || q.Rank != 1 || q.Attempt != 1 || q.TailBytes != 9 || q.Follow || q.Entry.Job == nil {
		t.Errorf("asked for %+v", q)
	}
	if at, seat := q.Seat(); at == nil || seat == nil || seat.Rank != 1 {
		t.Errorf("the seat is %v of %v", seat, at)
	}
	src.lines = nil
	if a := h.do("GET", path+"?attempt=1", nil); a.code != 200 || a.body != "" {
		t.Errorf("no output answered %d %q", a.code, a.body)
	}
	<-src.asked
	for query, status := range map[string]int{
		"?rank=2": 404, "?attempt=2": 404, "?rank=-1": 400, "?rank=x": 400, "?follow=maybe": 400, "?tail=1": 400, "?job_id=1": 400,
	} {
		if a := h.do("GET", path+query, nil); a.code != status {
			t.Errorf("%s answered %d %s, want %d", query, a.code, a.body, status)
		}
	}
	h.refused(h.do("GET", "/api/v1/jobs/nothing/logs", nil), 404, ares.NotFound)
	src.err = ares.Errorf(ares.Unavailable, "node n1 is not connected")
	h.refused(h.do("GET", path, nil), 503, ares.Unavailable, "n1")
	<-src.asked
	src.err = errors.New(canary)
	if a := h.do("GET", path, nil); a.code != 500 || strings.Contains(a.body, canary) {
		t.Errorf("a fault of ours answered %d %s", a.code, a.body)
	}
}

// TestLogsFollow checks that a caller can follow a job's output even before the job is placed. The output
// must arrive immediately, and the caller must see when the output is incomplete.
func TestLogsFollow(t *testing.T) {
	src := &script{lines: []string{"one\n", "two\n"}, gate: make(chan struct{}), asked: make(chan service.LogQuery, 1)}
	h := newHouse(t, func(c *Config) { c.Logs = src })
	for _, ending := range []error{nil, errors.New("the agent went")} {
		src.err = ending
		id := h.submit()
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.server.URL+"/api/v1/jobs/"+id+"/logs?follow=true", nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+adminToken)
		answered := make(chan *http.Response, 1)
		go func() {
			resp, doErr := h.server.Client().Do(req)
			if doErr != nil {
				t.Errorf("follow: %v", doErr)
			}
			answered <- resp
		}()
		h.place(id)
		if q := <-src.asked; !q.Follow || q.Attempt != 1 {
			t.Errorf("asked for %+v", q)
		}
		src.gate <- struct{}{}
		resp := <-answered
		lines := bufio.NewReader(resp.Body)
		line, err := lines.ReadString('\n')
		if line != "one\n" || err != nil {
			t.Errorf("the first line is %q, %v", line, err)
		}
		src.gate <- struct{}{}
		rest, err := io.ReadAll(lines)
		if string(rest) != "two\n" || (err != nil) != (ending != nil) {
			t.Errorf("the rest is %q, %v; it ended with %v", rest, err, ending)
		}
		resp.Body.Close()
	}
}

// A `longLog` is a LogSource with numbered lines, which says when a reader does not take them.
type longLog struct {
	text   string
	unread chan error
}

func (l *longLog) Logs(_ context.Context, q service.LogQuery, send func(service.LogPart) error) error {
	at := int64(0)
	if q.Offset != nil {
		at = *q.Offset
	}
	for at < int64(len(l.text)) {
		part := l.text[at:min(at+16<<10, int64(len(l.text)))]
		at += int64(len(part))
		if err := send(service.LogPart{Data: []byte(part), Offset: new(at)}); err != nil {
			select {
			case l.unread <- err:
			default:
			}
			return err
		}
	}
	return nil
}

// A stoppedReader takes nothing until it is told to go on.
type stoppedReader struct {
	goOn <-chan struct{}
	got  strings.Builder
}

func (r *stoppedReader) Write(b []byte) (int, error) {
	<-r.goOn
	return r.got.Write(b)
}

// TestReaderStops lets a reader stop until the server has given it up. When the reader goes on, it gets all output once.
func TestReaderStops(t *testing.T) {
	l := &longLog{unread: make(chan error, 1)}
	var text strings.Builder
	for n := range 1_500_000 { // more than all buffers between
		fmt.Fprintln(&text, n)
	}
	l.text = text.String()
	h := newHouse(t, func(c *Config) { c.Logs = l })
	h.WriteWait = 100 * time.Millisecond
	id := h.submit()
	h.place(id)
	h.seen()
	c, err := client.New(client.Options{Addresses: []string{h.dial().Target()}, Token: adminToken})
	must(t, err)
	defer func() { _ = c.Close() }()
	goOn := make(chan struct{})
	r := &stoppedReader{goOn: goOn}
	done := make(chan error, 1)
	go func() { done <- c.Logs(t.Context(), id, client.LogOptions{Follow: true}, r) }()
	if err := <-l.unread; ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "did not receive a message within 100ms") {
		t.Errorf("the stream of a reader that stops ends with %v", err)
	}
	close(goOn)
	if err := <-done; err != nil || r.got.String() != l.text {
		t.Errorf("the reader has %d bytes of %d: %v", r.got.Len(), len(l.text), err)
	}
}
