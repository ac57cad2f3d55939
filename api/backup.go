package api

import (
	"bufio"
	"context"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// backupChunk is how much of a backup goes into one message.
const backupChunk = 256 << 10

// BackupStore implements apipb.ClusterServiceServer. The store cannot give
// space back while it is read, so a reader that does not read is left: a Send
// that hangs ends when this method has returned.
func (d *clusterDoor) BackupStore(_ *apipb.BackupStoreRequest, stream grpc.ServerStreamingServer[apipb.BackupStoreResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	to := &backupStream{stream: stream, taken: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		out := bufio.NewWriterSize(to, backupChunk)
		failed := d.cfg.Store.Backup(ctx, out)
		if failed == nil {
			failed = out.Flush()
		}
		done <- failed
	}()
	stalled := time.NewTimer(maxWriteWait)
	defer stalled.Stop()
	for {
		select {
		case <-to.taken:
			stalled.Reset(maxWriteWait)
		case err := <-done:
			return err
		case <-stalled.C:
			return ares.Errorf(ares.Unavailable, "the reader has not read for %s", maxWriteWait)
		}
	}
}

// backupStream sends what is written, and tells each message that was taken.
type backupStream struct {
	stream grpc.ServerStreamingServer[apipb.BackupStoreResponse]
	taken  chan struct{}
}

func (b *backupStream) Write(p []byte) (int, error) {
	if err := b.stream.Send(&apipb.BackupStoreResponse{Data: p}); err != nil {
		return 0, err
	}
	select {
	case b.taken <- struct{}{}:
	default:
	}
	return len(p), nil
}
