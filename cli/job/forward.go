package job

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

const forwardHelp = `Listen on a TCP port of this machine, and connect each connection to a port on which the running
job listens, until Ctrl-C. The job's server should listen on localhost, so that only you reach it.

LOCAL is a port of this machine's loopback interface; 0 takes a free one. REMOTE is a port on
which a process of the rank listens. Other ports of the node are not reachable. With a single
number, both ports are the same.

` + sessionRights + "\n" + addressing

func (a *commands) forwardCommand() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use: "forward JOB LOCAL:REMOTE", Short: "Connect to a port of a running job", Args: command.ExactArgs("JOB", "LOCAL:REMOTE"),
		Long: forwardHelp, Example: "  ares forward notebook 8888\n  ares forward train 0:6006 --rank 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			local, remote, err := readPorts(args[1])
			if err != nil {
				return err
			}
			return a.withJobs(toJoin, func(ctx context.Context, c *client.Client, ids []string) error {
				if _, err := c.Job(ctx, ids[0]); err != nil { // this also finds a server that answers
					return err
				}
				return a.forward(ctx, c, ids[0], f.rank, local, remote)
			})(cmd, args[:1])
		},
	}
	f.addRank(c)
	return c
}

func readPorts(text string) (local, remote int, err error) {
	first, second, isPair := strings.Cut(text, ":")
	if !isPair {
		second = first
	}
	local, bad := strconv.Atoi(first)
	remote, bad2 := strconv.Atoi(second)
	if bad != nil || bad2 != nil || local < 0 || local > 65535 || remote < 1 || remote > 65535 {
		return 0, 0, exit.Usagef("%q is no pair of ports: write LOCAL:REMOTE, such as 8080:8888", text)
	}
	return local, remote, nil
}

// The method `forward` connects each local connection with the job until ctx ends.
func (a *commands) forward(ctx context.Context, c *client.Client, id string, rank, local, remote int) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(local)))
	if err != nil {
		return exit.Usagef("cannot listen on port %d of this machine (%v): choose another one, or 0 for a free one", local, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	output.Printf(a.Err, "ares: %s is port %d of rank %d of %s; press Ctrl-C to end\n", l.Addr(), remote, rank, output.Clean(id))
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return &exit.Error{Code: exit.Interrupted}
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer conn.Close()
			done := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer done()
			err := c.Forward(ctx, id, rank, remote, conn)
			if err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				a.logNotice(err.Error())
			}
		})
	}
}
