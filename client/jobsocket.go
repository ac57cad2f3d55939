package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// JobSocketEnv is the variable with the path of the socket of a job's processes.
const JobSocketEnv = "ARES_JOB_SOCKET"

const (
	// jobSocketWait is how long a process of a job waits for its socket: the agent makes it when the job has started, and again when the
	// agent itself has been restarted.
	jobSocketWait  = 15 * time.Second
	jobSocketPause = 50 * time.Millisecond
	// maxSocketPath is the length of the longest path of a socket.
	maxSocketPath = 107
)

// JobSocket returns a client for processes of a job. It can only list the ranks of the job's attempt (Ranks), and run commands in them
// (Exec, with any ID of a job).
func JobSocket(path string) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///job", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: jobSocketWait}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dialJobSocket(ctx, path) }),
	)
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "the job's socket %s: %s", path, err)
	}
	return &Client{conns: []*grpc.ClientConn{conn}}, nil
}

// Ranks returns the ranks of the attempt to which this process belongs. The client must be that of JobSocket.
func (c *Client) Ranks(ctx context.Context) (*apipb.ListRanksResponse, error) {
	resp, err := apipb.NewAgentServiceClient(c.Conn()).ListRanks(ctx, &apipb.ListRanksRequest{})
	return resp, apipb.FromStatus(err)
}

// dialJobSocket connects to the agent, and waits for it if it is starting.
func dialJobSocket(ctx context.Context, path string) (net.Conn, error) {
	for {
		conn, err := dialSocket(ctx, path)
		if isAbsent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED); isAbsent && pause.For(ctx, jobSocketPause) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// The agent speaks first, unless it does not accept this process.
		first := make([]byte, 1)
		_ = conn.SetReadDeadline(time.Now().Add(jobSocketWait))
		_, err = io.ReadFull(conn, first)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = fmt.Errorf("the agent does not answer at the socket %s: try again in a moment", path)
		case err != nil:
			err = fmt.Errorf("the agent does not accept this process at the socket %s: only processes of the job can use it, 128 of a rank at once", path)
		default:
			err = conn.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return &readAhead{conn, first}, nil
	}
}

// dialSocket connects to a socket whose path may be longer than the kernel allows.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	if len(path) <= maxSocketPath {
		return d.DialContext(ctx, "unix", path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// readAhead is a connection of which some bytes have been read already.
type readAhead struct {
	net.Conn
	first []byte
}

func (r *readAhead) Read(b []byte) (int, error) {
	if len(r.first) == 0 {
		return r.Conn.Read(b)
	}
	n := copy(b, r.first)
	r.first = r.first[n:]
	return n, nil
}
