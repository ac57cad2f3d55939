package store

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares/pause"
)

// The variable `reconnect` defines how soon an unreachable etcd member is tried again. gRPC's default waits longer after
// each failure: after an outage of 8 s it would try again only 1 to 5 s later. By then nodes could have ended their jobs,
// because they do so when half of lost_after has passed without a renewal.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}

// connectTimeout is how long one attempt to connect may take. A lost SYN packet is repeated after 1, 3 and 7 s. Several
// short attempts therefore notice the end of an outage sooner than a long one.
const connectTimeout = 2 * time.Second

// pauseWhileUnreachable delays the error of a stream that could not be opened. The etcd client renews a lease over a
// stream, and opens it again without a pause until the call's time is over. Without the delay, each node's renewal would
// use a whole CPU core while the store is unreachable.
func pauseWhileUnreachable(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	if status.Code(err) == codes.Unavailable {
		pause.For(ctx, streamPause)
	}
	return stream, err
}

// streamPause is the delay of pauseWhileUnreachable.
const streamPause = 20 * time.Millisecond
