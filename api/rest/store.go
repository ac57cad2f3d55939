package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// serveStore handles GET /api/v1/debug/store: it writes each record as a JSON
// object on its own line.
func (d *Handler) serveStore(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	const method = apipb.ClusterService_DumpStore_FullMethodName
	req := &apipb.DumpStoreRequest{}
	out := &textStream{w: w, control: http.NewResponseController(w)}
	err := d.Stream(r.Context(), method, func(ctx context.Context) error {
		if err := ReadQuery(req, r.URL.RawQuery); err != nil {
			return err
		}
		if err := d.Check(ctx, req); err != nil {
			return err
		}
		out.begin()
		if err := out.control.Flush(); err != nil {
			return pipeline.ErrUnread(pipeline.MaxWriteWait, err)
		}
		return d.ReadStore(ctx, req, func(raw store.Raw) error {
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
		panic(http.ErrAbortHandler) // the only way to tell the client that the output is incomplete
	}
}
