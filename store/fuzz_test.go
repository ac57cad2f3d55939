package store

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protowire"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store/storepb"
)

// FuzzRecord decodes arbitrary bytes. It decodes them with the same code that a watch, a dump
// and a repeated submission use for stored records. If a record cannot be decoded, the error
// must name its key. Encoding a decoded record must give the same bytes again, including fields
// of a newer version.
func FuzzRecord(f *testing.F) {
	for key, rec := range records() {
		data, err := marshal(rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(key, []byte(data))
		f.Add(key, append([]byte(data), protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), "newer")...))
		f.Add(key, []byte(data[:len(data)/2]))
		f.Add(runKey("a"), []byte(data)) // under a key of another kind of record
	}
	f.Add("/ares/rooms/of/tomorrow", []byte{8, 2})
	f.Add("", []byte{})
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		kv := &mvccpb.KeyValue{Key: []byte(key), Value: data, ModRevision: 7, CreateRevision: 5}
		raw := rawOf(key, data, 7, 5)
		if !json.Valid([]byte(raw.JSON)) || raw.Size != len(data) {
			t.Fatalf("dumped as %s", raw.JSON)
		}
		c := &creation{id: "a", out: Created{}}
		c.compare(data)
		if c.out.Duplicate && c.out.Err != nil {
			t.Fatalf("both the same and %v", c.out.Err)
		}
		if _, _, err := change(&clientv3.Event{Type: clientv3.EventTypeDelete, Kv: kv}); err != nil {
			t.Fatal(err)
		}
		ev, ok, err := decode(kv)
		if err != nil {
			if ok || !strings.Contains(err.Error(), key) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		sameJob(t, ev.Job)
		sameTenant(t, ev.Tenant)
		sameShares(t, &ev)
		if ev.Run != nil {
			sameRun(t, ev.Run.Run)
		}
		if rec, err := parse(key, data); ok && err == nil && rec.GetTombstone() != nil {
			_ = tombstoneOf("a", rec.GetTombstone())
		}
	})
}

// sameRun encodes and decodes a run twice. The first pass may change only times, because the
// stored format has a limited precision. The second pass must not change anything.
func sameRun(t *testing.T, r ares.Run) {
	t.Helper()
	if !distinct(&r) {
		return // it is not known to which attempt the unknown fields belong
	}
	first := rewrite(t, runRecord(&r))
	once := runOf(first, r.Revision)
	second := rewrite(t, runRecord(&once))
	if twice := runOf(second, r.Revision); !reflect.DeepEqual(once, twice) {
		t.Fatalf("written and read, a run becomes\n%+v\nand then\n%+v", once, twice)
	}
	if !bytes.Equal(once.Extra, r.Extra) {
		t.Fatalf("%x of a newer version became %x", r.Extra, once.Extra)
	}
	if once.Stop != nil {
		once.Stop.Grace, r.Stop.Grace = 0, 0
	}
	if !reflect.DeepEqual(once, r) {
		t.Fatalf("written and read, a run becomes\n%+v\nwas\n%+v", once, r)
	}
	_, _, _, _ = r.Free(), r.Settled(), r.Current(), r.Fence()
	_ = r.Clone()
}

// This function reports whether every attempt number and every rank occurs only once. This is
// true for every run that Ares writes.
func distinct(r *ares.Run) bool {
	numbers := map[int]bool{}
	for i := range r.Attempts {
		numbers[r.Attempts[i].Number] = true
		ranks := map[int]bool{}
		for k := range r.Attempts[i].Seats {
			ranks[r.Attempts[i].Seats[k].Rank] = true
		}
		if len(ranks) < len(r.Attempts[i].Seats) {
			return false
		}
	}
	return len(numbers) == len(r.Attempts)
}

func sameJob(t *testing.T, j *ares.Job) {
	t.Helper()
	if j == nil {
		return
	}
	again := jobOf(rewrite(t, jobRecord(j)).GetJob(), j.ID, j.Revision)
	if ares.DigestOf(again.Spec) != ares.DigestOf(j.Spec) || again.Digest != j.Digest || again.Owner != j.Owner || !again.AcceptedAt.Equal(j.AcceptedAt) {
		t.Fatalf("written and read, a job becomes\n%+v\nwas\n%+v", again, j)
	}
}

func sameTenant(t *testing.T, tenant *ares.Tenant) {
	t.Helper()
	if tenant == nil || tenant.Weight != tenant.Weight { // NaN never equals itself
		return
	}
	again := tenantOf(rewrite(t, tenantRecord(tenant)).GetTenant(), tenant.ID, tenant.Revision)
	if !reflect.DeepEqual(again, tenant) {
		t.Fatalf("written and read, a tenant becomes\n%+v\nwas\n%+v", again, tenant)
	}
}

// sameShares encodes a queue, a topology or a usage and decodes it again.
func sameShares(t *testing.T, ev *ares.Event) {
	t.Helper()
	var was, again any
	switch {
	case ev.Queue != nil && ev.Queue.Weight == ev.Queue.Weight: // NaN never equals itself
		q := ev.Queue
		was, again = q, queueOf(rewrite(t, queueRecord(q)).GetQueue(), q.Tenant, q.Name, q.Revision)
	case ev.Reservation != nil:
		r := ev.Reservation
		was, again = r, reservationOf(rewrite(t, reservationRecord(r)).GetReservation(), r.Name, r.Revision)
	case ev.Topology != nil:
		was, again = ev.Topology, topologyOf(rewrite(t, topologyRecord(ev.Topology)).GetTopology(), ev.Revision)
	case ev.Usage != nil:
		u := ev.Usage
		was, again = u, usageRead(rewrite(t, usageRecord(u)).GetUsage(), u.Tenant, u.Queue, u.Revision)
	}
	if !reflect.DeepEqual(was, again) {
		t.Fatalf("written and read,\n%+v\nbecomes\n%+v", was, again)
	}
}

func rewrite(t *testing.T, rec *storepb.Record) *storepb.Record {
	t.Helper()
	data, err := marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	out, err := unmarshal("again", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// This function returns one record of each kind.
func records() map[string]*storepb.Record {
	at := time.Unix(1_700_000_000, 123_000).UTC()
	spec := ares.Spec{Command: []string{"true"}, Environment: map[string]string{"A": "b"}, Deadline: at, Array: ares.Array{Count: 2}}
	job := &ares.Job{Spec: spec.WithDefaults(), ID: "a", AcceptedAt: at, Owner: "me", RetryOf: "b"}
	run := ares.NewRun(at)
	_ = run.Place([]ares.Seat{{Node: "n", Shares: []ares.Share{{Device: "g", Milli: 1000}}}}, 3, at)
	run.Attempts[0].Seats[0].Result = &ares.RankResult{Outcome: ares.OutcomeFailed, ExitCode: 1, StartedAt: at, EndedAt: at}
	run.Stop = &ares.Stop{Why: ares.StopCancel, By: "me", At: at, Grace: time.Second}
	node := ares.Node{ID: "n", Devices: []ares.Device{{ID: "g", Healthy: true}}, Links: [][]string{{"X"}}, SessionTTL: time.Minute}
	return map[string]*storepb.Record{
		jobKey("a"): jobRecord(job), runKey("a"): runRecord(&run), tenantKey("t"): tenantRecord(&ares.Tenant{ID: "t", Weight: 1, CreatedAt: at}),
		jobKey("z"):        {Body: &storepb.Record_Tombstone{Tombstone: &storepb.Tombstone{Digest: []byte("d"), Phase: "failed", EndedAt: 9}}},
		forecastKeyOf("a"): forecastRecord(&ares.RuntimePredicted{Job: "a", P50: time.Second, P90: time.Minute, Basis: "2 runs"}),
		forecasterKey:      {Body: &storepb.Record_Forecaster{Forecaster: &storepb.Forecaster{At: 9, Memory: []byte("m")}}},
		nodeKey("n"):       {Body: &storepb.Record_Node{Node: apipb.NewNodeInfo(&node)}},
		sessionKey("n"):    {Body: &storepb.Record_Session{Session: &storepb.Session{Instance: "i", Server: "s", Lease: 1}}},
		cordonKey("n"):     {Body: &storepb.Record_Cordon{Cordon: &storepb.Cordon{By: "me", Why: "x", Since: 1}}},
		progressKeyOf("a"): {Body: &storepb.Record_Progress{Progress: &storepb.Progress{Percent: 5, Message: "m"}}},
		queueKey("t", "q"): queueRecord(&ares.Queue{Parent: "p", Weight: 2, Quotas: []ares.Quota{{Model: "m", Nominal: 1}}, CreatedAt: at}),
		topologyKey:        topologyRecord(&ares.Topology{Domains: []ares.Domain{{Name: "l", Nodes: []string{"n"}}}, Switches: []ares.Switch{{Name: "s"}}, Weights: ares.DefaultWeights()}),
		reservationKey("w"): reservationRecord(&ares.Reservation{
			Tenant: "t", Queue: "q", From: at, Until: at.Add(time.Hour), Nodes: []string{"n"}, Selector: map[string]string{"a": "b"}, Domain: "leaf/l",
			Drain: true, Force: true, By: "me", Why: "y", CreatedAt: at,
		}),
		usageOf("t") + "q":  usageRecord(&ares.Usage{At: at, GPUMilliSecs: 1, Month: "2030-01", GPUSecs: 2}),
		tokensKey + "x":     {Body: &storepb.Record_Token{Token: &storepb.Token{Hash: []byte("h"), Role: "admin"}}},
		joinTokenKey("j"):   joinRecord(&JoinToken{Hash: []byte("h"), Node: "n", By: "me", CreatedAt: at, ExpiresAt: at.Add(time.Hour), UsedAt: at, UsedBy: "n", usedKey: []byte("k")}),
		revokedNodeKey("n"): {Body: &storepb.Record_Revocation{Revocation: &storepb.Revocation{By: "me", At: 1, Reason: "r"}}},
		authorityKey:        {Body: &storepb.Record_Authority{Authority: &storepb.Authority{Certificate: []byte("c"), Key: []byte("k"), Salt: []byte("s")}}},
		auditMarkKey("s"):   {Body: &storepb.Record_AuditMark{AuditMark: &storepb.AuditMark{Sequence: 7, Hash: "h", Key: "k", At: 1}}},
		planKey:             {Body: &storepb.Record_Plan{Plan: &storepb.LoopPlan{Sequence: 3}}},
		claimKey("a", 0):    {MinReader: readerVersion + 1, Body: &storepb.Record_Leader{Leader: &storepb.Leader{Server: "s"}}},
	}
}
