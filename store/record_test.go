package store

import (
	"reflect"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// TestBatchesAreRecordedWhole encodes one event of each kind and decodes it again. A replay must see exactly the events that the engine
// saw, with times exact to the nanosecond.
func TestBatchesAreRecordedWhole(t *testing.T) {
	t.Parallel()
	b := ares.Batch{Revision: 9, Reset: true, At: time.Unix(1_700_000_000, 123_456_789).UTC()}
	for key, rec := range records() {
		value, err := marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		ev, ok, err := decode(&mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), ModRevision: 8, CreateRevision: 5})
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			b.Events = append(b.Events, ev)
		}
	}
	for _, kind := range keyspaces {
		b.Events = append(b.Events, ares.Event{Revision: 9, Gone: ares.Gone{Kind: kind, ID: "x/y"}})
	}
	b.Events = append(b.Events, ares.Event{Revision: 8, Run: &ares.RunEvent{Job: "late", Seen: b.At, Run: ares.Run{
		Phase: ares.Pending, Revision: 8, Ran: time.Hour, DroppedUsage: []ares.MonthUsage{{First: time.UnixMicro(5).UTC(), GPUMilli: 1 << 40, Ran: time.Hour}, {First: time.UnixMicro(6).UTC(), GPUMilli: 2}},
	}}})
	b.Events = append(b.Events, ares.Event{Forecast: &ares.RuntimePredicted{Job: "a", P50: time.Second, P90: time.Minute + 1, Basis: "its name"}})
	b.Events = append(b.Events, ares.Event{Revision: 9, Score: &ares.NodeScore{
		Node: "n", Score: 700, Samples: 4, Failures: 1, Own: 2, Slowdown: 1200, Timed: 3, Logs: -5, Stragglers: 1, Gangs: 2,
		At: time.UnixMicro(7).UTC(), Until: time.UnixMicro(6).UTC(), Families: []uint64{1 << 63, 2}, Why: "it was lost", Revision: 9,
	}})
	if len(b.Events) < 2*len(keyspaces)+1 {
		t.Fatalf("only %d events of %d kinds", len(b.Events), len(keyspaces))
	}
	data, err := EncodeBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeBatch(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Events {
		if !reflect.DeepEqual(b.Events[i], again.Events[i]) {
			t.Errorf("recorded and read, event %d becomes\n%+v\nwas\n%+v", i, again.Events[i], b.Events[i])
		}
	}
	if b.Events, again.Events = nil, nil; !reflect.DeepEqual(b, again) {
		t.Errorf("recorded and read, a batch becomes %+v, was %+v", again, b)
	}
	if _, err := EncodeBatch(ares.Batch{Events: []ares.Event{{}}}); err == nil {
		t.Error("an event of no kind was recorded")
	}
}

// TestEveryKindOfEventIsRecorded fails if somebody adds a kind of event but does not record
// events of that kind. A Protection is never stored, so it must be refused.
func TestEveryKindOfEventIsRecorded(t *testing.T) {
	t.Parallel()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[ares.Event]()) {
		if field.Type.Kind() != reflect.Pointer {
			continue
		}
		var ev ares.Event
		reflect.ValueOf(&ev).Elem().FieldByIndex(field.Index).Set(reflect.New(field.Type.Elem()))
		data, err := EncodeBatch(ares.Batch{Events: []ares.Event{ev}})
		if ev.Protect != nil {
			if err == nil {
				t.Error("a Protection was recorded, which the store must never hold")
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", field.Name, err)
			continue
		}
		b, err := DecodeBatch(data)
		if err != nil || len(b.Events) != 1 || reflect.ValueOf(b.Events[0]).FieldByIndex(field.Index).IsNil() {
			t.Errorf("%s is recorded as %+v, %v", field.Name, b.Events, err)
		}
	}
}

// TestRecordsOfWatchedJobs checks that a recorded job is the one that the watch delivered, and that a record with an environment is never
// passed on.
func TestRecordsOfWatchedJobs(t *testing.T) {
	t.Parallel()
	jobs := map[ares.JobID]*ares.Job{
		"plain":  {Spec: ares.Spec{Name: "train", Tenant: "a", Command: []string{"run"}, GPUs: 2, Labels: map[string]string{"x": "y"}}, Owner: "ann"},
		"secret": {Spec: ares.Spec{Name: "train", Tenant: "a", Command: []string{"run"}, Environment: map[string]string{"PASSWORD": "hidden"}}},
	}
	for id, job := range jobs {
		value, err := marshal(jobRecord(job))
		if err != nil {
			t.Fatal(err)
		}
		kv := &mvccpb.KeyValue{Key: []byte(jobKey(id)), Value: []byte(value), CreateRevision: 7, ModRevision: 7}
		err = deliver([]*clientv3.Event{{Kv: kv}}, func(b ares.Batch) error {
			ev := b.Events[0]
			if (ev.Record != nil) != (len(job.Environment) == 0) {
				t.Errorf("%s: the event has the record %q", id, ev.Record)
			}
			data, err := EncodeBatch(b)
			if err != nil {
				return err
			}
			again, err := DecodeBatch(data)
			if err == nil && !reflect.DeepEqual(again.Events[0].Job, ev.Job) {
				t.Errorf("%s is recorded as\n%+v\nwas\n%+v", id, again.Events[0].Job, ev.Job)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
