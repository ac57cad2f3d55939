package api

import (
	"errors"
	"github.com/ares-scheduler/ares/objects/bucket"
	"io"
	"log/slog"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/objects"
	"github.com/ares-scheduler/ares/objects/tree"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// newCode returns the code of jobs with a directory of its own.
func newCode(t *testing.T, c *Config) *code.Code {
	t.Helper()
	o, err := objects.Open(t.Context(), objects.Config{Place: bucket.InDir(t.TempDir())})
	must(t, err)
	t.Cleanup(func() { must(t, o.Close()) })
	return &code.Code{Store: c.Store, View: c.View, Log: slog.New(slog.DiscardHandler), Objects: o}
}

// TestCodeIsForTheNodeThatClaimed lets nodes fetch the code of a job: the one that has claimed its seat, another one, and the same one with
// an outdated session.
func TestCodeIsForTheNodeThatClaimed(t *testing.T) {
	var from *code.Code
	h := newHouse(t, func(c *Config) {
		from = newCode(t, c)
		c.Code = from
		c.AgentService = &service.AgentService{
			Store: c.Store, View: c.View, Files: &service.Files{View: c.View}, Server: "here", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now, Code: from,
		}
	})
	tenant := storetest.NewTenant(t, h.store)
	h.seen()
	client := apipb.NewObjectServiceClient(h.dial())
	d := tree.Sum([]byte("print()"))
	e, err := tree.Encode([]*apipb.TreeEntry{{Path: []byte("train.py"), Kind: apipb.TreeEntry_KIND_FILE, Mode: 0o644, Size: 7, Chunks: [][]byte{d[:]}}})
	must(t, err)
	ctx := as(t.Context(), adminToken)
	for range 3 {
		answer, err := client.CommitSnapshot(ctx, &apipb.CommitSnapshotRequest{TenantId: tenant.ID, Snapshot: e.Snapshot})
		must(t, err)
		if answer.GetDigest() != e.Digest.String() || answer.GetTenantId() != tenant.ID {
			t.Fatalf("got %v", answer)
		}
		var chunks [][]byte
		for _, m := range answer.GetMissing() {
			chunk, ok := e.Parts[tree.Digest(m)]
			if !ok {
				chunk = []byte("print()")
			}
			chunks = append(chunks, chunk)
		}
		_, err = client.PutChunks(ctx, &apipb.PutChunksRequest{TenantId: tenant.ID, Chunks: chunks})
		must(t, err)
	}
	spec := storetest.Sleep()
	spec.CodeDigest = e.Digest.String()
	ask := storetest.JobOf(tenant, spec)
	if c := h.store.Create(t.Context(), []store.Creation{ask})[0]; c.Err != nil {
		t.Fatal(c.Err)
	}
	job := ask.Job
	lead, _ := storetest.NewLead(t, h.store)
	own, stranger := storetest.NewNode(t, h.store), storetest.NewNode(t, h.store)
	seat := storetest.Place(t, h.store, lead, job, own)[0]
	fetch := func(node string, session int64) (n int, err error) {
		stream, err := apipb.NewAgentServiceClient(h.dial()).FetchCode(as(t.Context(), nodeToken), &apipb.FetchCodeRequest{
			Ref:  &apipb.SessionRef{NodeId: node, Session: session},
			Seat: &apipb.SeatRef{JobId: string(job.ID), Fence: int64(seat.Fence), Rank: 0},
		})
		must(t, err)
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			if err != nil {
				return n, apipb.FromStatus(err)
			}
			n += len(m.GetChunks())
		}
	}
	if _, err := fetch(own.ID, own.Session); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("before the claim: %v", err)
	}
	storetest.Claim(t, h.store, []store.SeatRef{seat}, own)
	if n, err := fetch(own.ID, own.Session); n != 2 || err != nil {
		t.Errorf("the node that claimed: %d chunks, %v", n, err)
	}
	if _, err := fetch(stranger.ID, stranger.Session); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("another node: %v", err)
	}
	if _, err := fetch(own.ID, own.Session+1000); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("another session: %v", err)
	}
}

// TestCodeMustBeStored submits jobs whose code is not stored, or is not a digest.
func TestCodeMustBeStored(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Code = newCode(t, c)
		c.Admission.Code = c.Code
	})
	for digest, want := range map[string]int{tree.Sum([]byte("x")).String(): 404, "abc": 400} {
		if a := h.do("POST", "/api/v1/jobs", map[string]any{"command": []string{"true"}, "code_digest": digest}); a.code != want {
			t.Errorf("%s: answered %d %s", digest, a.code, a.body)
		}
	}
}
