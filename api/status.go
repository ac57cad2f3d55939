package api

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/history"
)

// GetServerStatus implements apipb.ClusterServiceServer. Whatever does not
// answer is left out or told: it is asked when something is wrong.
func (d *clusterDoor) GetServerStatus(ctx context.Context, _ *apipb.GetServerStatusRequest) (*apipb.GetServerStatusResponse, error) {
	resp := &apipb.GetServerStatusResponse{
		Server: d.cfg.Server, Version: d.cfg.Version, Revision: strconv.FormatInt(d.cfg.View.Revision(), 10),
		Embedded: d.cfg.Store.Embedded(), DataDirFreeMb: -1,
	}
	if d.cfg.FreeMB != nil {
		resp.DataDirFreeMb = int32(min(d.cfg.FreeMB(), 1<<31-1))
	}
	for _, m := range d.cfg.Store.Status(ctx) {
		member := &apipb.StoreMember{
			Endpoint: m.Endpoint, Version: m.Version, SizeMb: mb(m.Size), InUseMb: mb(m.InUse), QuotaMb: mb(m.Quota),
			HasLeader: m.HasLeader, IsLeader: m.IsLeader,
		}
		if m.Err != nil {
			member.Error = m.Err.Error()
		}
		resp.Members = append(resp.Members, member)
		for _, alarm := range m.Alarms {
			if !slices.Contains(resp.Alarms, alarm) {
				resp.Alarms = append(resp.Alarms, alarm)
			}
		}
	}
	asking, cancel := context.WithTimeout(ctx, maxReadyWait)
	defer cancel()
	if revision, err := d.cfg.Store.Revision(asking); err == nil {
		resp.StoreRevision = strconv.FormatInt(revision, 10)
		resp.Alert = d.alert(asking)
		// A leader that is not known is as good as none.
		resp.Leader, _ = d.cfg.Store.Leader(asking)
	}
	resp.HistoryError, resp.HistoryUpdating = d.history(ctx)
	if err := d.ready.ask(ctx, d.cfg.Ready); err != nil {
		resp.NotReady = err.Error()
	}
	// Last, so that they are as true as can be when the answer arrives.
	resp.UptimeSeconds, resp.WallClock = time.Since(d.began).Seconds(), apipb.Timestamp(d.cfg.Now())
	return resp, nil
}

// history says why history does not answer, to those who may know where it is, or
// that it will once its tables are up to date.
func (d *Doors) history(ctx context.Context) (why string, updating bool) {
	if d.cfg.Ledger == nil {
		return "", false
	}
	asking, cancel := context.WithTimeout(ctx, maxReadyWait)
	defer cancel()
	switch err := d.cfg.Ledger.History.Ready(asking); {
	case errors.Is(err, history.ErrUpdating):
		return "", true
	case err != nil:
		return err.Error(), false
	}
	return "", false
}

// mb is a size in MiB, rounded up.
func mb(bytes int64) int32 { return int32(min((bytes+1<<20-1)>>20, 1<<31-1)) }
