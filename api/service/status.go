package service

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/history"
)

// GetServerStatus implements apipb.ClusterServiceServer. Operators call
// GetServerStatus when something is wrong, so a component that does not answer
// is left out or reported.
func (d *clusterService) GetServerStatus(ctx context.Context, _ *apipb.GetServerStatusRequest) (*apipb.GetServerStatusResponse, error) {
	resp := &apipb.GetServerStatusResponse{
		Server: d.Cfg.Server, Version: d.Cfg.Version, Revision: strconv.FormatInt(d.Cfg.View.Revision(), 10),
		Embedded: d.Cfg.Store.Embedded(), DataDirFreeMb: -1,
	}
	if d.Cfg.FreeMB != nil {
		resp.DataDirFreeMb = int32(min(d.Cfg.FreeMB(), 1<<31-1))
	}
	for _, m := range d.Cfg.Store.Status(ctx) {
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
	if revision, err := d.Cfg.Store.Revision(asking); err == nil {
		resp.StoreRevision = strconv.FormatInt(revision, 10)
		resp.Alert = d.alert(asking)
		// If the leader is unknown, the answer names no leader.
		resp.Leader, _ = d.Cfg.Store.Leader(asking)
	}
	resp.HistoryError, resp.HistoryUpdating = d.history(ctx)
	if err := d.ready.ask(ctx, d.Cfg.Ready); err != nil {
		resp.NotReady = err.Error()
	}
	// Set the uptime and the clock last, so that they are as accurate as possible
	// when the answer arrives.
	resp.UptimeSeconds, resp.WallClock = time.Since(d.began).Seconds(), apipb.Timestamp(d.Cfg.Now())
	return resp, nil
}

// The method `history` returns the reason why the history database does not
// answer. It also returns whether the database's tables are being updated. Only
// callers that may know the database's address may see the error.
func (d *Services) history(ctx context.Context) (why string, updating bool) {
	if d.Cfg.Accounting == nil {
		return "", false
	}
	asking, cancel := context.WithTimeout(ctx, maxReadyWait)
	defer cancel()
	switch err := d.Cfg.Accounting.History.Ready(asking); {
	case errors.Is(err, history.ErrUpdating):
		return "", true
	case err != nil:
		return err.Error(), false
	}
	return "", false
}

// The function `mb` converts a size from bytes to MiB, rounded up.
func mb(bytes int64) int32 { return int32(min((bytes+1<<20-1)>>20, 1<<31-1)) }
