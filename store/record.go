package store

import (
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store/storepb"
)

// The first part of a record's key determines the kind of the record. This map
// contains the kind for each first part. The map contains only the kinds of
// records that are part of an engine state.
var keyspaces = map[string]ares.Kind{
	"jobs": ares.KindJob, "runs": ares.KindRun, "nodes": ares.KindNode, "sessions": ares.KindSession,
	"cordons": ares.KindCordon, "tenants": ares.KindTenant, "progress": ares.KindProgress,
	"predicted": ares.KindForecast,
	"queues":    ares.KindQueue, "topology": ares.KindTopology, "usage": ares.KindUsage,
	"reservations": ares.KindReservation,
	"scores":       ares.KindScore,
	"policies":     ares.KindPolicy,
	"grants":       ares.KindGrant,
}

// EncodeBatch encodes a batch of events for a recording. Each record has the same key and the same
// form as in the store.
func EncodeBatch(b ares.Batch) ([]byte, error) {
	m := &storepb.Batch{Revision: b.Revision, Reset_: b.Reset, Changes: make([]*storepb.Change, len(b.Events))}
	if !b.At.IsZero() {
		m.At = b.At.UnixNano()
	}
	for i := range b.Events {
		c, err := encodeEvent(&b.Events[i])
		if err != nil {
			return nil, err
		}
		m.Changes[i] = c
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return data, nil
}

// DecodeBatch decodes the output of EncodeBatch with the same code that decodes the store's
// records.
func DecodeBatch(data []byte) (ares.Batch, error) {
	m := &storepb.Batch{}
	if err := proto.Unmarshal(data, m); err != nil {
		return ares.Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	b := ares.Batch{Revision: m.GetRevision(), Reset: m.GetReset_(), Events: make([]ares.Event, 0, len(m.GetChanges()))}
	if m.GetAt() != 0 {
		b.At = time.Unix(0, m.GetAt()).UTC()
	}
	for _, c := range m.GetChanges() {
		ev, ok, err := decodeEvent(c)
		if err != nil {
			return ares.Batch{}, err
		}
		if !ok {
			return ares.Batch{}, fmt.Errorf("decode batch: %s has an unknown record type: a newer version of Ares may have written it", c.GetKey())
		}
		b.Events = append(b.Events, ev)
	}
	return b, nil
}

func decodeEvent(c *storepb.Change) (ares.Event, bool, error) {
	e := &clientv3.Event{Kv: &mvccpb.KeyValue{
		Key: []byte(prefix + c.GetKey()), Value: c.GetValue(), ModRevision: c.GetRevision(), CreateRevision: c.GetCreated(),
	}}
	if len(c.GetValue()) == 0 {
		e.Type = clientv3.EventTypeDelete
	}
	ev, ok, err := change(e)
	if ev.Run != nil && c.GetSeen() != 0 {
		ev.Run.Seen = time.Unix(0, c.GetSeen()).UTC()
	}
	return ev, ok, err
}

func encodeEvent(ev *ares.Event) (*storepb.Change, error) {
	c := &storepb.Change{Revision: ev.Revision}
	if ev.Gone.Kind != "" {
		for room, kind := range keyspaces { // order-free: only one matches
			if kind == ev.Gone.Kind {
				c.Key = room + "/" + ev.Gone.ID
				return c, nil
			}
		}
	}
	if ev.Job != nil && ev.Record != nil {
		c.Created, c.Key, c.Value = ev.Job.Revision, strings.TrimPrefix(jobKey(ev.Job.ID), prefix), ev.Record
		return c, nil
	}
	key, rec := recordOf(ev)
	if rec == nil {
		return nil, fmt.Errorf("encode batch: the event at revision %d has an unsupported type", ev.Revision)
	}
	if ev.Job != nil {
		c.Created = ev.Job.Revision
	}
	if ev.Run != nil && !ev.Run.Seen.IsZero() {
		c.Seen = ev.Run.Seen.UnixNano()
	}
	value, err := marshal(rec)
	c.Key, c.Value = strings.TrimPrefix(key, prefix), []byte(value)
	return c, err
}

// recordOf returns an event's key and record as the store holds them. The record is nil for an event that is never
// stored, such as a Protection.
func recordOf(ev *ares.Event) (string, *storepb.Record) {
	switch {
	case ev.Job != nil:
		return jobKey(ev.Job.ID), jobRecord(ev.Job)
	case ev.Run != nil:
		return runKey(ev.Run.Job), runRecord(&ev.Run.Run)
	case ev.Node != nil:
		return nodeKey(ev.Node.ID), &storepb.Record{Body: &storepb.Record_Node{Node: apipb.NewNodeInfo(ev.Node)}}
	case ev.Session != nil:
		return sessionKey(ev.Session.Node), &storepb.Record{Body: &storepb.Record_Session{
			Session: &storepb.Session{Instance: ev.Session.Instance, Server: ev.Session.Server},
		}}
	case ev.Cordon != nil:
		return cordonKey(ev.Cordon.Node), cordonRecord(ev.Cordon)
	case ev.Tenant != nil:
		return tenantKey(ev.Tenant.ID), tenantRecord(ev.Tenant)
	case ev.Queue != nil:
		return queueKey(ev.Queue.Tenant, ev.Queue.Name), queueRecord(ev.Queue)
	case ev.Reservation != nil:
		return reservationKey(ev.Reservation.Name), reservationRecord(ev.Reservation)
	case ev.Policy != nil:
		return policyKey(ev.Policy.ID()), policyRecord(ev.Policy)
	case ev.Grant != nil:
		return grantKey(ev.Grant.Job), grantRecord(ev.Grant, nil)
	case ev.Topology != nil:
		return topologyKey, topologyRecord(ev.Topology)
	case ev.Usage != nil:
		return usageOf(ev.Usage.Tenant) + ev.Usage.Queue, usageRecord(ev.Usage)
	case ev.Forecast != nil:
		return forecastKeyOf(ev.Forecast.Job), forecastRecord(ev.Forecast)
	case ev.Score != nil:
		return scoreKey(ev.Score.Node), scoreRecord(ev.Score)
	case ev.Progress != nil:
		p := ev.Progress.Progress
		return progressKeyOf(ev.Progress.Job), &storepb.Record{Body: &storepb.Record_Progress{
			Progress: &storepb.Progress{Percent: p.Percent, Message: p.Message, At: micros(p.At)},
		}}
	}
	return "", nil
}
