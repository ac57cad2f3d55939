package client

import (
	"context"
	"crypto/sha256"
	"sync"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// Uploaded is the result of Upload.
type Uploaded struct {
	Digest string // the code_digest of jobs
	Tenant string // the tenant that the snapshot belongs to
	Chunks int    // how many chunks were sent
	Bytes  int64  // their size
}

// These constants divide an upload into calls.
const (
	uploadBatch   = 2 << 20 // bytes of one call
	uploadCalls   = 4       // calls at once
	maxBatchItems = 1024
	fewChunks     = 4  // so few chunks, of up to 1 MiB each, are sent with the next CommitSnapshot
	maxRounds     = 64 // answers with missing chunks; each names up to 20,000
)

// Upload stores a snapshot of a directory for the jobs of a tenant. It sends only the chunks that the server lacks. The function
// `chunk` returns a chunk by its SHA-256; Upload calls it from several goroutines. If `chunk` fails, Upload returns its error.
//
// The digests `changed` are of chunks that the server probably lacks. If they are few, they are sent with the first call, which
// saves the calls that ask for them.
func (c *Client) Upload(ctx context.Context, tenant string, snapshot *apipb.Snapshot, chunk func(digest [sha256.Size]byte) ([]byte, error), changed ...[sha256.Size]byte) (Uploaded, error) {
	var done Uploaded
	var few [][]byte // chunks that are sent together with the snapshot
	for _, d := range changed[:min(len(changed), fewChunks)] {
		data, err := chunk(d)
		if err != nil {
			return done, err
		}
		few, done.Chunks, done.Bytes = append(few, data), done.Chunks+1, done.Bytes+int64(len(data))
	}
	for range maxRounds {
		answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CommitSnapshotResponse, error) {
			return apipb.NewObjectServiceClient(conn).CommitSnapshot(ctx, &apipb.CommitSnapshotRequest{TenantId: tenant, Snapshot: snapshot, Chunks: few})
		})
		few = nil
		if err != nil {
			return done, err
		}
		done.Digest, done.Tenant = answer.GetDigest(), answer.GetTenantId()
		if len(answer.GetMissing()) == 0 {
			return done, nil
		}
		if len(answer.GetMissing()) <= fewChunks {
			one := make(chan [][]byte, fewChunks) // a chunk has at most 1 MiB, so each fits
			if err = makeBatches(ctx, answer.GetMissing(), chunk, one, &done); err != nil {
				return done, err
			}
			close(one)
			for batch := range one {
				few = append(few, batch...)
			}
			continue
		}
		if err = c.putMissing(ctx, done.Tenant, answer.GetMissing(), chunk, &done); err != nil {
			return done, err
		}
	}
	return done, ares.Errorf(ares.Unavailable, "the servers still lack parts of the code after %d rounds: check that objects.dir or objects.url is the same place for all servers", maxRounds)
}

// putMissing sends chunks in several calls at once.
func (c *Client) putMissing(ctx context.Context, tenant string, missing [][]byte, chunk func([sha256.Size]byte) ([]byte, error), done *Uploaded) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan [][]byte)
	var wg sync.WaitGroup
	for range uploadCalls {
		wg.Go(func() {
			for batch := range batches {
				_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.PutChunksResponse, error) {
					return apipb.NewObjectServiceClient(conn).PutChunks(ctx, &apipb.PutChunksRequest{TenantId: tenant, Chunks: batch})
				})
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	err := makeBatches(ctx, missing, chunk, batches, done)
	close(batches)
	wg.Wait()
	if err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// makeBatches reads the chunks and groups them into calls.
func makeBatches(ctx context.Context, missing [][]byte, chunk func([sha256.Size]byte) ([]byte, error), out chan<- [][]byte, done *Uploaded) error {
	var batch [][]byte
	size := 0
	send := func() error {
		if len(batch) == 0 {
			return nil
		}
		select {
		case out <- batch:
			batch, size = nil, 0
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, d := range missing {
		if len(d) != sha256.Size {
			return ares.Errorf(ares.Internal, "the server asks for a chunk with a digest of %d bytes", len(d))
		}
		data, err := chunk([sha256.Size]byte(d))
		if err != nil {
			return err
		}
		if size+len(data) > uploadBatch || len(batch) == maxBatchItems {
			if err := send(); err != nil {
				return err
			}
		}
		batch, size = append(batch, data), size+len(data)
		done.Chunks, done.Bytes = done.Chunks+1, done.Bytes+int64(len(data))
	}
	return send()
}
