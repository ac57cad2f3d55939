package service

import (
	"bufio"
	"context"
	"io"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// chunkBytes is the size of one message of a backup or a recording.
const chunkBytes = 256 << 10

// BackupStore implements apipb.ClusterServiceServer.
func (d *clusterService) BackupStore(_ *apipb.BackupStoreRequest, stream grpc.ServerStreamingServer[apipb.BackupStoreResponse]) error {
	return pour(stream.Context(), d.Cfg.Store.Backup, func(p []byte) error { return stream.Send(&apipb.BackupStoreResponse{Data: p}) })
}

// RecordState implements apipb.ClusterServiceServer.
func (d *clusterService) RecordState(_ *apipb.RecordStateRequest, stream grpc.ServerStreamingServer[apipb.RecordStateResponse]) error {
	d.WaitForView(stream.Context(), d.Cfg.Store.Written())
	write := func(_ context.Context, w io.Writer) error { return d.Cfg.Engine.Snapshot(w, d.Cfg.Version) }
	return pour(stream.Context(), write, func(p []byte) error { return stream.Send(&apipb.RecordStateResponse{Data: p}) })
}

// The function `pour` sends the data that the argument `write` produces, one message at a
// time. The store cannot free space during the backup. Therefore `pour` gives up if the
// reader does not read. If sending a message hangs, it is aborted when the API method that
// called `pour` returns.
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
	stalled := time.NewTimer(pipeline.MaxWriteWait)
	defer stalled.Stop()
	for {
		select {
		case <-to.taken:
			stalled.Reset(pipeline.MaxWriteWait)
		case err := <-done:
			return err
		case <-stalled.C:
			return ares.Errorf(ares.Unavailable, "the backup was stopped, because the client has not read any data for %s", pipeline.MaxWriteWait)
		}
	}
}

// The type `pouring` is a writer that sends each chunk as a message, and signals each time a
// message was sent.
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
