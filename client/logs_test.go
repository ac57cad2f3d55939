package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

// The type `breaking` is a server whose log streams break after a random number of messages.
type breaking struct {
	apipb.UnimplementedJobServiceServer
	text  string // of each rank
	ranks int
	mu    sync.Mutex
	left  int // streams that still break
	reqs  []*apipb.StreamLogsRequest
}

func (b *breaking) StreamLogs(req *apipb.StreamLogsRequest, stream grpc.ServerStreamingServer[apipb.StreamLogsResponse]) error {
	b.mu.Lock()
	b.reqs = append(b.reqs, req)
	after := 1 << 30
	if b.left--; b.left >= 0 {
		after = rand.IntN(4)
	}
	b.mu.Unlock()
	at := make([]int64, max(b.ranks, 1))
	at[0] = req.GetOffset()
	for _, p := range req.GetPositions() {
		at[p.GetRank()] = p.GetOffset()
	}
	for more := true; more; {
		more = false
		for rank := range at {
			rest := b.text[at[rank]:]
			if rest == "" {
				continue
			}
			if after--; after < 0 {
				return status.Error(codes.Unavailable, "the server is shutting down")
			}
			more = true
			m := &apipb.StreamLogsResponse{Attempt: 3}
			if b.ranks == 0 {
				part := rest[:min(len(rest), 1+rand.IntN(5))]
				at[rank] += int64(len(part))
				m.Data, m.Offset = []byte(part), new(at[rank])
			} else {
				line, _, _ := strings.Cut(rest, "\n")
				at[rank] += int64(len(line)) + 1
				m.Ranks = int32(b.ranks)
				m.Lines = []*apipb.LogLine{{Rank: int32(rank), Data: []byte(line), Offset: at[rank], Time: timestamppb.New(time.Unix(1_800_000_000, 0))}}
			}
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestLogsContinue breaks streams of logs many times. No output may be lost or repeated, and each stream must continue the same attempt.
func TestLogsContinue(t *testing.T) {
	text := ""
	for i := range 40 {
		text += fmt.Sprintf("line %d\n", i)
	}
	for _, ranks := range []int{0, 3} {
		b := &breaking{text: text, ranks: ranks, left: 30}
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv := grpc.NewServer()
		apipb.RegisterJobServiceServer(srv, b)
		done := make(chan error, 1)
		go func() { done <- srv.Serve(lis) }()
		c := connect(t, client.Options{Addresses: []string{lis.Addr().String()}})
		var out strings.Builder
		o := client.LogOptions{Follow: true, Tail: new(50), AllRanks: ranks > 0, Timestamps: ranks > 0}
		if err := c.Logs(t.Context(), "j", o, &out); err != nil {
			t.Error(err)
		}
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if ranks == 0 && out.String() != text {
			t.Errorf("got %q", out.String())
		}
		for rank := range ranks {
			prefix := fmt.Sprintf("r0%d| 2027-01-15T08:00:00.000Z ", rank)
			got := ""
			for line := range strings.Lines(out.String()) {
				if rest, ok := strings.CutPrefix(line, prefix); ok {
					got += rest
				}
			}
			if got != text {
				t.Errorf("rank %d: got %q", rank, got)
			}
		}
		if last := b.reqs[len(b.reqs)-1]; len(b.reqs) < 20 || last.GetAttempt() != 3 || last.GetTailLines() != 50 {
			t.Errorf("%d streams, the last with %v", len(b.reqs), last)
		}
	}
}

// TestLogsWriterFails checks that nothing is tried again when the output cannot be written.
func TestLogsWriterFails(t *testing.T) {
	f := &fake{logs: []any{"one\n", "two\n"}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	err := c.Logs(t.Context(), "j", client.LogOptions{Follow: true}, failing{})
	if !errors.Is(err, errFull) || ares.CodeOf(err) == ares.Unavailable {
		t.Errorf("got %v", err)
	}
}

var errFull = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

// The type `finished` is a server with one job that has ended. It has the output of some attempts.
type finished struct {
	apipb.UnimplementedJobServiceServer
	job    *apipb.Job
	output map[int32]string // by attempt
}

func (f *finished) GetJob(context.Context, *apipb.GetJobRequest) (*apipb.GetJobResponse, error) {
	return &apipb.GetJobResponse{Job: f.job}, nil
}

func (f *finished) StreamLogs(req *apipb.StreamLogsRequest, stream grpc.ServerStreamingServer[apipb.StreamLogsResponse]) error {
	out, ok := f.output[req.GetAttempt()]
	if !ok {
		return status.Errorf(codes.NotFound, "the output of attempt %d is gone", req.GetAttempt())
	}
	return stream.Send(&apipb.StreamLogsResponse{Data: []byte(out), Offset: new(int64(len(out))), Attempt: req.GetAttempt()})
}

// TestFollowSaysWhatIsGone follows jobs whose output is kept in part, or not at all. What is missing is never passed over.
func TestFollowSaysWhatIsGone(t *testing.T) {
	now := timestamppb.Now()
	f := &finished{}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	apipb.RegisterJobServiceServer(srv, f)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	defer func() { srv.Stop(); <-done }()
	c := connect(t, client.Options{Addresses: []string{lis.Addr().String()}, Attempts: 1})
	follow := func() (out, notices string, err error) {
		var b strings.Builder
		_, err = c.FollowLogs(t.Context(), "j", client.LogOptions{Notice: func(text string) { notices += text }}, &b, nil)
		return b.String(), notices, err
	}
	f.job = &apipb.Job{JobId: "j", State: string(ares.Succeeded), CreatedAt: now, Attempts: []*apipb.Attempt{
		{Number: 1, EndedAt: now}, {Number: 2, StartedAt: now, EndedAt: now}, {Number: 3, StartedAt: now, EndedAt: now},
	}}
	f.output = map[int32]string{3: "third\n"}
	if out, notices, err := follow(); err != nil || out != "third\n" || !strings.Contains(notices, "attempt 2 is gone") || strings.Contains(notices, "attempt 1 is gone") {
		t.Errorf("output %q, notices %q, %v", out, notices, err)
	}
	f.job = &apipb.Job{JobId: "j", State: string(ares.Succeeded), Archived: true}
	if out, _, err := follow(); ares.CodeOf(err) != ares.NotFound || out != "" {
		t.Errorf("a job of which only the end is known: %q, %v", out, err)
	}
	f.job = &apipb.Job{JobId: "j", State: string(ares.Cancelled), Archived: true, CreatedAt: now}
	if out, _, err := follow(); err != nil || out != "" {
		t.Errorf("a job that never ran: %q, %v", out, err)
	}
}
