package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// DumpStore implements apipb.ClusterServiceServer.
func (d *clusterDoor) DumpStore(req *apipb.DumpStoreRequest, stream grpc.ServerStreamingServer[apipb.DumpStoreResponse]) error {
	return d.dumpStore(stream.Context(), req, func(r store.Raw) error {
		return stream.Send(&apipb.DumpStoreResponse{
			Key: r.Key, Revision: strconv.FormatInt(r.Revision, 10), CreateRevision: strconv.FormatInt(r.CreateRevision, 10),
			Deleted: r.Deleted, Value: r.JSON,
		})
	})
}

func (d *Doors) dumpStore(ctx context.Context, req *apipb.DumpStoreRequest, send func(store.Raw) error) error {
	if !req.GetWatch() {
		return d.cfg.Store.Dump(ctx, req.GetPrefix(), send)
	}
	err := d.cfg.Store.DumpWatch(ctx, req.GetPrefix(), send)
	if errors.Is(err, context.Canceled) {
		return nil // the reader left
	}
	return err
}

// serveStore is GET /api/v1/debug/store: a JSON object on a line for each
// record.
func (d *Doors) serveStore(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	const method = apipb.ClusterService_DumpStore_FullMethodName
	req := &apipb.DumpStoreRequest{}
	out := &textStream{w: w, control: http.NewResponseController(w)}
	err := d.stream(r.Context(), method, func(ctx context.Context) error {
		if err := readQuery(req, r.URL.RawQuery); err != nil {
			return err
		}
		if err := d.check(ctx, method, req); err != nil {
			return err
		}
		out.begin()
		if err := out.control.Flush(); err != nil {
			return unread(maxWriteWait, err)
		}
		return d.dumpStore(ctx, req, func(raw store.Raw) error {
			line, err := json.Marshal(map[string]any{
				"key": raw.Key, "revision": strconv.FormatInt(raw.Revision, 10),
				"create_revision": strconv.FormatInt(raw.CreateRevision, 10), "deleted": raw.Deleted, "value": json.RawMessage(raw.JSON),
			})
			if err != nil {
				return fmt.Errorf("encode %s: %w", raw.Key, err)
			}
			return out.send(append(line, '\n'))
		})
	})
	switch {
	case err == nil:
	case !out.begun:
		d.fail(w, err)
	default:
		panic(http.ErrAbortHandler) // the only way to say that it is not whole
	}
}
