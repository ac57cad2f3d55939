package store

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

func updateRecord(u *ares.JobUpdate) *storepb.JobUpdate {
	if u == nil {
		return nil
	}
	m := &storepb.JobUpdate{Labels: u.Labels, HasLabels: u.Labels != nil}
	if u.Priority != nil {
		m.Priority = new(int32(*u.Priority))
	}
	if u.MaxRuntimeMinutes != nil {
		m.MaxRuntimeMinutes = new(int32(*u.MaxRuntimeMinutes))
	}
	return m
}

func updateOf(m *storepb.JobUpdate) *ares.JobUpdate {
	if m == nil {
		return nil
	}
	u := &ares.JobUpdate{}
	if m.Priority != nil {
		u.Priority = new(int(m.GetPriority()))
	}
	if m.MaxRuntimeMinutes != nil {
		u.MaxRuntimeMinutes = new(int(m.GetMaxRuntimeMinutes()))
	}
	if m.GetHasLabels() {
		if u.Labels = m.GetLabels(); u.Labels == nil {
			u.Labels = map[string]string{}
		}
	}
	return u
}

func notifiedRecord(marks []ares.NotifyMark) []*storepb.NotifyMark {
	var out []*storepb.NotifyMark
	for _, m := range marks {
		out = append(out, &storepb.NotifyMark{Begun: m.Begun, Ended: m.Ended, Requeued: int32(m.Requeued)})
	}
	return out
}

func notifiedOf(marks []*storepb.NotifyMark) []ares.NotifyMark {
	var out []ares.NotifyMark
	for _, m := range marks {
		out = append(out, ares.NotifyMark{Begun: m.GetBegun(), Ended: m.GetEnded(), Requeued: int(m.GetRequeued())})
	}
	return out
}
