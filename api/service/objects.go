package service

import (
	"context"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/objects/tree"
)

// objectService implements ObjectService.
type objectService struct {
	apipb.UnimplementedObjectServiceServer
	*Services
}

// maxPut is the largest total size of the chunks in one call.
const maxPut = 8 << 20

// CommitSnapshot implements apipb.ObjectServiceServer.
func (d *objectService) CommitSnapshot(ctx context.Context, req *apipb.CommitSnapshotRequest) (*apipb.CommitSnapshotResponse, error) {
	tenant, err := d.ofExistingTenant(ctx)
	if err != nil {
		return nil, err
	}
	if err = d.put(ctx, tenant, req.GetChunks()); err != nil {
		return nil, err
	}
	digest, missing, err := d.Cfg.Code.Commit(ctx, tenant, req.GetSnapshot())
	if err != nil {
		return nil, err
	}
	out := &apipb.CommitSnapshotResponse{Digest: digest.String(), TenantId: tenant, Missing: make([][]byte, len(missing))}
	for i := range missing {
		out.Missing[i] = missing[i][:]
	}
	return out, nil
}

// PutChunks implements apipb.ObjectServiceServer.
func (d *objectService) PutChunks(ctx context.Context, req *apipb.PutChunksRequest) (*apipb.PutChunksResponse, error) {
	tenant, err := d.ofExistingTenant(ctx)
	if err != nil {
		return nil, err
	}
	return &apipb.PutChunksResponse{}, d.put(ctx, tenant, req.GetChunks())
}

// The method `put` stores the chunks of one call.
func (d *objectService) put(ctx context.Context, tenant string, chunks [][]byte) error {
	size := 0
	for _, c := range chunks {
		size += len(c)
	}
	if size > maxPut {
		return ares.Errorf(ares.TooLarge, "chunks: together have %d bytes, and the limit of one call is %d: send several calls", size, maxPut).At("chunks")
	}
	return d.Cfg.Code.Put(ctx, tenant, chunks)
}

// ofExistingTenant returns the tenant of the call. An administrator may name any tenant, so it is checked that it exists:
// otherwise objects could be stored that belong to nobody.
func (d *objectService) ofExistingTenant(ctx context.Context) (string, error) {
	tenant := pipeline.CallOf(ctx).Tenant
	if d.Cfg.View.Tenant(tenant) == nil {
		return "", pipeline.NoTenant(tenant)
	}
	return tenant, nil
}

// fetchSize is about the size of one message of FetchCode.
const fetchSize = tree.ChunkSize

// FetchCode sends an agent the code of a job. Deliver checks that the agent's node has claimed the seat, and that session and
// fence are current.
func (d *AgentService) FetchCode(req *apipb.FetchCodeRequest, stream grpc.ServerStreamingServer[apipb.FetchCodeResponse]) error {
	var batch apipb.FetchCodeResponse
	size := 0
	flush := func() error {
		if size == 0 {
			return nil
		}
		full := &apipb.FetchCodeResponse{Chunks: batch.Chunks}
		batch.Chunks, size = nil, 0
		return stream.Send(full)
	}
	from := d.Code
	if from == nil {
		from = &code.Code{Store: d.Store, Disabled: "this server does not keep the code of jobs"}
	}
	err := from.Deliver(stream.Context(), seatRef(req.GetSeat(), req.GetRef()), req.GetRef().GetSession(),
		func(root []byte) error { return stream.Send(&apipb.FetchCodeResponse{Snapshot: root}) },
		func(chunk []byte) error {
			if size+len(chunk) > fetchSize {
				if err := flush(); err != nil {
					return err
				}
			}
			batch.Chunks, size = append(batch.Chunks, chunk), size+len(chunk)
			return nil
		})
	if err != nil {
		return err
	}
	return flush()
}
