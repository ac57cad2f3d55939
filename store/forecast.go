package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// PredictionsAtOnce is how many Predict takes. At worst each is a transaction
// inside another; etcd allows 128 operations in all.
const PredictionsAtOnce = 60

// Prediction is how long a job is thought to run, if it is still the one that
// was accepted at a revision.
type Prediction struct {
	ares.RuntimePredicted

	Accepted int64
}

// Predict keeps how long jobs are thought to run, for as long as they are live.
// Those that are gone are passed over. It compares leadership.
func (s *Store) Predict(ctx context.Context, lead *Leadership, told []Prediction) error {
	live, puts := []clientv3.Cmp{lead.leads()}, make([]clientv3.Op, 0, len(told))
	for i := range told {
		value, err := marshal(forecastRecord(&told[i].RuntimePredicted))
		if err != nil {
			return err
		}
		id := told[i].Job
		live = append(live, clientv3.Compare(clientv3.ModRevision(jobKey(id)), "=", told[i].Accepted))
		puts = append(puts, clientv3.OpPut(forecastOf(id), value))
	}
	resp, err := s.txn(ctx, "keep predictions", live, puts, nil)
	if err != nil || resp.Succeeded {
		return err
	}
	each := make([]clientv3.Op, len(puts)) // one of them is gone, or the leadership: each for itself
	for i := range puts {
		each[i] = clientv3.OpTxn(live[i+1:i+2], puts[i:i+1], nil)
	}
	resp, err = s.txn(ctx, "keep predictions", live[:1], each, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Fenced, "this server leads no more: its predictions were refused")
	}
	return err
}

func forecastRecord(p *ares.RuntimePredicted) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Forecast{Forecast: &storepb.Forecast{P50: int64(p.P50), P90: int64(p.P90), Basis: p.Basis, Samples: int64(p.Samples)}}}
}

func forecastRead(m *storepb.Forecast, job ares.JobID) *ares.RuntimePredicted {
	return &ares.RuntimePredicted{Job: job, P50: time.Duration(m.GetP50()), P90: time.Duration(m.GetP90()), Basis: m.GetBasis(), Samples: int(m.GetSamples())}
}

// MaxMemory is how much a forecaster may remember, in bytes: a request to the
// store may have one and a half million.
const MaxMemory = 1 << 20

// SaveForecaster keeps what a forecaster remembers of the runs that ended until
// a time. It compares leadership.
func (s *Store) SaveForecaster(ctx context.Context, lead *Leadership, memory []byte, at time.Time) error {
	if len(memory) > MaxMemory {
		return ares.Errorf(ares.TooLarge, "the forecaster remembers %d bytes, at most %d are kept", len(memory), MaxMemory)
	}
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Forecaster{Forecaster: &storepb.Forecaster{At: micros(at), Memory: memory}}})
	if err != nil {
		return err
	}
	resp, err := s.txn(ctx, "save the forecaster", []clientv3.Cmp{lead.leads()}, []clientv3.Op{clientv3.OpPut(memoryKey, value)}, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Fenced, "this server leads no more: what its forecaster remembers was not saved")
	}
	return err
}

// Forecaster reads what SaveForecaster kept last, nil when there is nothing.
func (s *Store) Forecaster(ctx context.Context) (memory []byte, at time.Time, err error) {
	got, err := s.get(ctx, memoryKey)
	if err != nil || len(got.Kvs) == 0 {
		return nil, at, err
	}
	rec, err := unmarshal(memoryKey, got.Kvs[0].Value)
	if err != nil {
		return nil, at, err
	}
	return rec.GetForecaster().GetMemory(), fromMicros(rec.GetForecaster().GetAt()), nil
}
