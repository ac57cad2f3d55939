package service

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// DumpStore implements apipb.ClusterServiceServer.
func (d *clusterService) DumpStore(req *apipb.DumpStoreRequest, stream grpc.ServerStreamingServer[apipb.DumpStoreResponse]) error {
	return d.ReadStore(stream.Context(), req, func(r store.Raw) error {
		return stream.Send(&apipb.DumpStoreResponse{
			Key: r.Key, Revision: strconv.FormatInt(r.Revision, 10), CreateRevision: strconv.FormatInt(r.CreateRevision, 10),
			Deleted: r.Deleted, Value: r.JSON,
		})
	})
}

func (d *Services) ReadStore(ctx context.Context, req *apipb.DumpStoreRequest, send func(store.Raw) error) error {
	if !req.GetWatch() {
		return d.Cfg.Store.Dump(ctx, req.GetPrefix(), send)
	}
	err := d.Cfg.Store.DumpWatch(ctx, req.GetPrefix(), send)
	if errors.Is(err, context.Canceled) {
		return nil // the reader has left
	}
	return err
}
