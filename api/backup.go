package api

import (
	"bufio"
	"context"
	"io"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// chunkBytes is how much of a backup or a recording goes into one message.
const chunkBytes = 256 << 10

// BackupStore implements apipb.ClusterServiceServer.
func (d *clusterDoor) BackupStore(_ *apipb.BackupStoreRequest, stream grpc.ServerStreamingServer[apipb.BackupStoreResponse]) error {
	return pour(stream.Context(), d.cfg.Store.Backup, func(p []byte) error { return stream.Send(&apipb.BackupStoreResponse{Data: p}) })
}

// RecordState implements apipb.ClusterServiceServer.
func (d *clusterDoor) RecordState(_ *apipb.RecordStateRequest, stream grpc.ServerStreamingServer[apipb.RecordStateResponse]) error {
	d.seen(stream.Context(), d.cfg.Store.Written())
	write := func(_ context.Context, w io.Writer) error { return d.cfg.Engine.Snapshot(w, d.cfg.Version) }
	return pour(stream.Context(), write, func(p []byte) error { return stream.Send(&apipb.RecordStateResponse{Data: p}) })
}

// pour sends what is written, message by message. The store cannot give space
// back while it is read, so a reader that does not read is left: a send that
// hangs ends when the method that called this has returned.
func pour(ctx context.Context, write func(context.Context, io.Writer) error, send func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := &pouring{send: send, taken: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		out := bufio.NewWriterSize(to, chunkBytes)
		failed := write(ctx, out)
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

// pouring sends what is written, and tells each message that was taken.
type pouring struct {
	send  func([]byte) error
	taken chan struct{}
}

func (b *pouring) Write(p []byte) (int, error) {
	if err := b.send(p); err != nil {
		return 0, err
	}
	select {
	case b.taken <- struct{}{}:
	default:
	}
	return len(p), nil
}
