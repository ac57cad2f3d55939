package api

import (
	"bytes"
	"context"
	"errors"
	"github.com/ares-scheduler/ares/objects/bucket"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects/logs"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// A logStage is a server that stores output, with two nodes. A job of one rank is placed on the first node, and no node sends output.
type logStage struct {
	*house
	calls         apipb.AgentServiceClient
	stored        *logs.Store
	dir           string
	job           *ares.Job
	lead          *store.Leadership
	own, stranger *storetest.Node
	seat          store.SeatRef
}

func newLogStage(t *testing.T) *logStage {
	t.Helper()
	s := &logStage{dir: t.TempDir()}
	var err error
	s.stored, err = logs.Open(t.Context(), logs.Config{Place: bucket.InDir(s.dir), Keep: 24 * time.Hour, Gather: time.Nanosecond})
	must(t, err)
	t.Cleanup(func() { _ = s.stored.Close() })
	s.house = newHouse(t, func(c *Config) {
		files := &service.Files{View: c.View, Server: "server-1", Stored: s.stored} // as in the sessions of storetest
		c.Logs = files
		c.AgentService = &service.AgentService{
			Store: c.Store, View: c.View, Files: files, Server: "here", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now, Logs: s.stored,
		}
	})
	s.calls = apipb.NewAgentServiceClient(s.dial())
	s.job = storetest.NewJob(t, s.store)
	s.lead, _ = storetest.NewLead(t, s.store)
	s.own, s.stranger = storetest.NewNode(t, s.store), storetest.NewNode(t, s.store)
	s.seat = storetest.Place(t, s.store, s.lead, s.job, s.own)[0]
	storetest.Claim(t, s.store, []store.SeatRef{s.seat}, s.own)
	s.seen()
	return s
}

// logOf returns the output of the stage's rank.
func (s *logStage) logOf(text string) *apipb.StoredLog {
	f := &apipb.LogFile{Size: int64(len(text)), ChangedAt: timestamppb.Now()}
	if text != "" {
		zip, err := zstd.NewWriter(nil)
		must(s.t, err)
		f.Pieces = []*apipb.LogPiece{{Size: int32(len(text)), Data: zip.EncodeAll([]byte(text), nil)}}
	}
	return &apipb.StoredLog{Seat: &apipb.SeatRef{JobId: string(s.job.ID), Fence: int64(s.seat.Fence)}, Files: []*apipb.LogFile{f}}
}

// send stores a log, and returns what the server says of it.
func (s *logStage) send(node *storetest.Node, l *apipb.StoredLog) (string, error) {
	resp, err := s.calls.StoreLogs(as(s.t.Context(), nodeToken), &apipb.StoreLogsRequest{
		Ref: &apipb.SessionRef{NodeId: node.ID, Session: node.Session}, Logs: []*apipb.StoredLog{l},
	})
	if err != nil {
		return "", apipb.FromStatus(err)
	}
	if len(resp.GetResults()) != 1 {
		s.t.Fatalf("got %v", resp)
	}
	if resp.GetResults()[0].GetLater() {
		return "later", nil
	}
	return resp.GetResults()[0].GetRefused(), nil
}

// read reads the output as an administrator.
func (s *logStage) read(q *apipb.StreamLogsRequest) (text string, notices []string, err error) {
	q.JobId = string(s.job.ID)
	stream, err := apipb.NewJobServiceClient(s.dial()).StreamLogs(as(s.t.Context(), adminToken), q)
	must(s.t, err)
	var b bytes.Buffer
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return b.String(), notices, nil
		}
		if err != nil {
			return b.String(), notices, apipb.FromStatus(err)
		}
		b.Write(m.GetData())
		for _, line := range m.GetLines() {
			b.Write(append(line.GetData(), '\n'))
		}
		for _, n := range m.GetNotices() {
			notices = append(notices, n.GetMessage())
		}
	}
}

// TestStoredOutputIsRead stores the output of a rank and reads it, although no node is connected, also after the job is archived.
func TestStoredOutputIsRead(t *testing.T) {
	s := newLogStage(t)
	if said, err := s.send(s.own, s.logOf("one\ntwo\nthree\n")); said != "later" || err != nil {
		t.Errorf("before its end: %q, %v", said, err)
	}
	storetest.Finish(t, s.store, s.seat, ares.OutcomeSucceeded)
	storetest.Release(t, s.store, s.seat)
	s.seen()
	if _, _, err := s.read(&apipb.StreamLogsRequest{}); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "not stored at the servers either") {
		t.Errorf("before it is stored: %v", err)
	}
	for range 2 { // the answer to the first call may be lost
		if said, err := s.send(s.own, s.logOf("one\ntwo\nthree\n")); said != "" || err != nil {
			t.Fatalf("%q, %v", said, err)
		}
	}
	for want, q := range map[string]*apipb.StreamLogsRequest{
		"one\ntwo\nthree\n":  {},
		"two\nthree\n":       {TailLines: new(int32(2))},
		"ee\n":               {TailBytes: 3},
		"two\n":              {Grep: "w"},
		"hree\n":             {Offset: new(int64(9))},
		"three\n":            {AllRanks: true, Grep: "^thr"},
		"one\ntwo\nthree\n ": {Timestamps: true, Follow: true},
	} {
		if got, notices, err := s.read(q); got != strings.TrimSuffix(want, " ") || len(notices) > 0 || err != nil {
			t.Errorf("%v: %q, %q, %v", q, got, notices, err)
		}
	}
}

// TestStoredOutputIsOfItsRank stores output as another node, with another fence, for another rank and for no job, and with files that cannot be.
func TestStoredOutputIsOfItsRank(t *testing.T) {
	s := newLogStage(t)
	storetest.Finish(t, s.store, s.seat, ares.OutcomeSucceeded)
	s.seen()
	for what, change := range map[string]func(*apipb.StoredLog){
		"another fence":          func(l *apipb.StoredLog) { l.Seat.Fence++ },
		"another rank":           func(l *apipb.StoredLog) { l.Seat.Rank = 1 },
		"no job":                 func(l *apipb.StoredLog) { l.Seat.JobId = "job-" + strings.Repeat("a", 24) },
		"a huge file":            func(l *apipb.StoredLog) { l.Files[0].Size = 1 << 40 },
		"files that overlap":     func(l *apipb.StoredLog) { l.Files = append(l.Files, &apipb.LogFile{Start: 1, Size: 10}) },
		"an overflow":            func(l *apipb.StoredLog) { l.Files[0].Start = 1<<63 - 5 },
		"a piece beyond its end": func(l *apipb.StoredLog) { l.Files[0].Pieces[0].Offset = 3 },
	} {
		l := s.logOf("text\n")
		change(l)
		if said, err := s.send(s.own, l); said == "" || said == "later" || err != nil {
			t.Errorf("%s: %q, %v", what, said, err)
		}
	}
	if said, err := s.send(s.stranger, s.logOf("forged\n")); said == "" || said == "later" || err != nil {
		t.Errorf("another node: %q, %v", said, err)
	}
	old := *s.own
	s.own.Open(t, s.store, time.Minute)
	s.seen()
	if said, err := s.send(&old, s.logOf("text\n")); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("an outdated session: %q, %v", said, err)
	}
	if got, _, err := s.read(&apipb.StreamLogsRequest{}); got != "" || err == nil {
		t.Errorf("read %q, %v", got, err)
	}
	if list, err := os.ReadDir(s.dir); err != nil || len(list) > 0 {
		t.Errorf("stored: %v, %v", list, err)
	}
}

// TestPartsOfStoredOutput reads output whose beginning is gone, and output whose end is. The reader is told.
func TestPartsOfStoredOutput(t *testing.T) {
	s := newLogStage(t)
	storetest.Finish(t, s.store, s.seat, ares.OutcomeSucceeded)
	s.seen()
	l := s.logOf("the end\n")
	l.Files[0].Size, l.Files[0].Pieces[0].Offset = 108, 100
	if said, err := s.send(s.own, l); said != "" || err != nil {
		t.Fatalf("%q, %v", said, err)
	}
	if got, notices, err := s.read(&apipb.StreamLogsRequest{}); got != "the end\n" || err != nil || len(notices) != 1 || !strings.Contains(notices[0], "the first 100 bytes of its stored output were deleted") {
		t.Errorf("%q, %q, %v", got, notices, err)
	}
	if got, notices, err := s.read(&apipb.StreamLogsRequest{AllRanks: true}); got != "the end\n" || err != nil || len(notices) != 1 {
		t.Errorf("all ranks: %q, %q, %v", got, notices, err)
	}
	must(t, filepath.Walk(s.dir, func(path string, st os.FileInfo, err error) error {
		if err == nil && !st.IsDir() {
			return os.Remove(path)
		}
		return err
	}))
	l = s.logOf("the beginning\n")
	l.Files[0].Size = 100
	if said, err := s.send(s.own, l); said != "" || err != nil {
		t.Fatalf("%q, %v", said, err)
	}
	if got, _, err := s.read(&apipb.StreamLogsRequest{}); got != "the beginning\n" || ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "from byte 14 is missing") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestNothingIsStored checks what an agent hears from a server that stores no output.
func TestNothingIsStored(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.AgentService = &service.AgentService{
			Store: c.Store, View: c.View, Files: &service.Files{View: c.View}, Server: "here", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now,
			NoLogs: "objects.log_days is 0",
		}
	})
	n := storetest.NewNode(t, h.store)
	_, err := apipb.NewAgentServiceClient(h.dial()).StoreLogs(as(context.Background(), nodeToken), &apipb.StoreLogsRequest{Ref: &apipb.SessionRef{NodeId: n.ID, Session: n.Session}})
	if err = apipb.FromStatus(err); ares.CodeOf(err) != ares.FeatureDisabled || !strings.Contains(err.Error(), "objects.log_days is 0") {
		t.Errorf("got %v", err)
	}
}
