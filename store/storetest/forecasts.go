package storetest

import (
	"bytes"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var forecastLaws = []law{
	{"APredictionLivesAsLongAsItsJob", forecastLives},
	{"OnlyTheLeaderPredictsAndSaves", forecastLeads},
	{"WhatAForecasterRemembersIsFoundAgain", forecastRemembers},
}

func predictionOf(job *ares.Job) store.Prediction {
	return store.Prediction{Accepted: job.Revision, RuntimePredicted: ares.RuntimePredicted{
		Job: job.ID, P50: 90 * time.Second, P90: time.Hour, Basis: "3 runs", Samples: 3,
	}}
}

// This function starts a new watch and returns the predicted runtime that it reports
// for a job.
func watched(t *testing.T, s *store.Store, job ares.JobID) (out *ares.RuntimePredicted) {
	t.Helper()
	err := s.Watch(t.Context(), func(b ares.Batch) error {
		known := false
		for i := range b.Events {
			e := &b.Events[i]
			known = known || e.Job != nil && e.Job.ID == job
			if e.Forecast != nil && e.Forecast.Job == job {
				if !known {
					t.Error("a prediction comes before its job")
				}
				out = e.Forecast
			}
		}
		return errDone
	})
	if err != errDone { //nolint:errorlint // it is our own error, returned unchanged
		t.Fatal(err)
	}
	return out
}

func forecastLives(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	job, gone := Get(t, s, NewJob(t, s).ID).Job, Get(t, s, NewJob(t, s).ID).Job
	archiveCancelled(t, s, gone)
	var told []store.Prediction
	for range store.PredictionsAtOnce - 2 { // as many as one call accepts
		told = append(told, predictionOf(NewJob(t, s)))
	}
	if err := s.Predict(t.Context(), lead, append(told, predictionOf(gone), predictionOf(job))); err != nil {
		t.Fatal(err)
	}
	if got := watched(t, s, job.ID); got == nil || *got != predictionOf(job).RuntimePredicted {
		t.Errorf("predicted %+v", got)
	}
	archiveCancelled(t, s, job)
	for _, id := range []ares.JobID{job.ID, gone.ID} {
		if left := Records(t, s, "predicted/"+string(id)); len(left) > 0 {
			t.Errorf("an archived job has %+v", left)
		}
	}
}

func forecastLeads(t *testing.T, s *store.Store) {
	lead, resign := NewLead(t, s)
	resign()
	job := NewJob(t, s)
	refused(t, s.Predict(t.Context(), lead, []store.Prediction{predictionOf(job)}), ares.Fenced, "no longer the leader")
	refused(t, s.SaveForecaster(t.Context(), lead, []byte("x"), Noon), ares.Fenced, "no longer the leader")
	if left := Records(t, s, "predicted/"+string(job.ID)); len(left) > 0 {
		t.Errorf("who leads no more wrote %+v", left)
	}
}

func forecastRemembers(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	if memory, _, err := s.Forecaster(t.Context()); err != nil || memory != nil {
		t.Fatalf("before the first save: %d bytes, %v", len(memory), err)
	}
	refused(t, s.SaveForecaster(t.Context(), lead, make([]byte, store.MaxMemory+1), Noon), ares.TooLarge)
	large := bytes.Repeat([]byte("runs"), store.MaxMemory/4)
	for _, want := range [][]byte{[]byte("a"), large} {
		if err := s.SaveForecaster(t.Context(), lead, want, Noon); err != nil {
			t.Fatal(err)
		}
		got, at, err := s.Forecaster(t.Context())
		if err != nil || !bytes.Equal(got, want) || !at.Equal(Noon) {
			t.Errorf("saved %d bytes, got %d of %v, %v", len(want), len(got), at, err)
		}
	}
	if raw := Records(t, s, "loop/forecaster"); len(raw) != 1 || raw[0].Size <= len(large) || len(raw[0].JSON) > 200 {
		t.Errorf("dumped as %+v", raw)
	}
}
