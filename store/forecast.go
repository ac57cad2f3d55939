package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// PredictionsAtOnce is how many predictions one call of Predict accepts. In the worst case each
// prediction needs a nested transaction, and etcd allows 128 operations in total.
const PredictionsAtOnce = 60

// Prediction is the predicted runtime of one job. The job is identified by the
// revision at which it was accepted.
type Prediction struct {
	ares.RuntimePredicted

	Accepted int64
}

// Predict stores the predicted runtimes of live jobs. Jobs that no longer exist are skipped.
// Predict fails if another server has become leader.
func (s *Store) Predict(ctx context.Context, lead *Leadership, told []Prediction) error {
	live, puts := []clientv3.Cmp{lead.leads()}, make([]clientv3.Op, 0, len(told))
	for i := range told {
		value, err := marshal(forecastRecord(&told[i].RuntimePredicted))
		if err != nil {
			return err
		}
		id := told[i].Job
		live = append(live, clientv3.Compare(clientv3.ModRevision(jobKey(id)), "=", told[i].Accepted))
		puts = append(puts, clientv3.OpPut(forecastKeyOf(id), value))
	}
	resp, err := s.txn(ctx, "keep predictions", live, puts, nil)
	if err != nil || resp.Succeeded {
		return err
	}
	each := make([]clientv3.Op, len(puts)) // a job no longer exists or leadership is lost, so each prediction is written by itself
	for i := range puts {
		each[i] = clientv3.OpTxn(live[i+1:i+2], puts[i:i+1], nil)
	}
	resp, err = s.txn(ctx, "keep predictions", live[:1], each, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Fenced, "this server is no longer the leader: its predictions were rejected")
	}
	return err
}

func forecastRecord(p *ares.RuntimePredicted) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Forecast{Forecast: &storepb.Forecast{P50: int64(p.P50), P90: int64(p.P90), Basis: p.Basis, Samples: int64(p.Samples), Own: int64(p.Own), Doubt: int64(p.Doubt)}}}
}

func forecastRead(m *storepb.Forecast, job ares.JobID) *ares.RuntimePredicted {
	basis := m.GetBasis()
	shared.text(&basis)
	return &ares.RuntimePredicted{Job: job, P50: time.Duration(m.GetP50()), P90: time.Duration(m.GetP90()), Basis: basis, Samples: int(m.GetSamples()), Own: int(m.GetOwn()), Doubt: int(min(max(m.GetDoubt(), 0), 100))}
}

// MaxMemory is the maximum size of a forecaster's stored state, in bytes. The size limit of etcd
// for one request is 1.5 MB.
const MaxMemory = 1 << 20

// SaveForecaster stores the forecaster's state. The state includes all runs that ended before
// the time in the parameter `at`. SaveForecaster fails if another server has become leader.
func (s *Store) SaveForecaster(ctx context.Context, lead *Leadership, memory []byte, at time.Time) error {
	if len(memory) > MaxMemory {
		return ares.Errorf(ares.TooLarge, "the forecaster's state has %d bytes, but the limit is %d bytes", len(memory), MaxMemory)
	}
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Forecaster{Forecaster: &storepb.Forecaster{At: micros(at), Memory: memory}}})
	if err != nil {
		return err
	}
	resp, err := s.txn(ctx, "save the forecaster", []clientv3.Cmp{lead.leads()}, []clientv3.Op{clientv3.OpPut(forecasterKey, value)}, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Fenced, "this server is no longer the leader: the state of its forecaster was not saved")
	}
	return err
}

// Forecaster reads the state that SaveForecaster stored last. Forecaster returns nil if no
// state is stored.
func (s *Store) Forecaster(ctx context.Context) (memory []byte, at time.Time, err error) {
	got, err := s.get(ctx, forecasterKey)
	if err != nil || len(got.Kvs) == 0 {
		return nil, at, err
	}
	rec, err := unmarshal(forecasterKey, got.Kvs[0].Value)
	if err != nil {
		return nil, at, err
	}
	return rec.GetForecaster().GetMemory(), fromMicros(rec.GetForecaster().GetAt()), nil
}
