package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/client"
)

// finding is one thing the doctor looked at.
type finding struct {
	What   string `json:"what"`
	State  string `json:"state"` // ok, note or fault
	Detail string `json:"detail"`
}

func (a *app) doctorCommand() *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: "doctor", Short: "Look for what could keep Ares from working here", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := append(a.examineMachine(), a.examineServer(cmd.Context())...)
			faults := 0
			for _, f := range found {
				if f.State == "fault" {
					faults++
				}
			}
			err := a.printValue(o.output, map[string]any{"findings": found, "faults": faults}, func(w io.Writer) {
				for _, f := range found {
					say(w, "%-6s %-16s %s\n", f.State, f.What, clean(f.Detail))
				}
			})
			if err == nil && faults > 0 {
				return fmt.Errorf("%d of %d checks found a fault", faults, len(found))
			}
			return err
		},
	}
	o.addOutput(c)
	return c
}

// examineMachine looks at what a server or agent would need here.
func (a *app) examineMachine() []finding {
	found := []finding{{"version", "ok", Version}, a.examineDir(), a.examineToken()}
	if path, err := exec.LookPath("nvidia-smi"); err == nil {
		found = append(found, finding{"devices", "ok", path + " will tell them"})
	} else {
		found = append(found, finding{"devices", "note", "no nvidia-smi: an agent here simulates devices (the processes are real)"})
	}
	return append(found, examineCgroup())
}

func (a *app) examineDir() finding {
	info, err := os.Stat(a.dir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding{"data directory", "note", a.dir() + " does not exist yet; ares up makes it"}
	case err != nil:
		return finding{"data directory", "fault", err.Error()}
	case !info.IsDir():
		return finding{"data directory", "fault", a.dir() + " is not a directory: name another with --data-dir"}
	case info.Mode().Perm()&0o022 != 0:
		return finding{"data directory", "fault", fmt.Sprintf("%s may be written by others: chmod 700 %s", a.dir(), a.dir())}
	}
	return finding{"data directory", "ok", a.dir()}
}

func (a *app) examineToken() finding {
	path := firstOf(a.tokenFile, os.Getenv("ARES_TOKEN_FILE"), a.tokenPath())
	if a.tokenFile == "" && os.Getenv("ARES_TOKEN") != "" {
		return finding{"token", "ok", "from ARES_TOKEN"}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding{"token", "note", path + " does not exist; ares up makes it"}
	case err != nil:
		return finding{"token", "fault", err.Error()}
	case info.Mode().Perm()&0o077 != 0:
		return finding{"token", "fault", fmt.Sprintf("%s may be read by others: chmod 600 %s, and consider a new token", path, path)}
	}
	return finding{"token", "ok", path}
}

// examineCgroup says whether the death of a job's processes can be verified.
func examineCgroup() finding {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return finding{"cgroup", "note", "no /proc/self/mountinfo: agents run on Linux"}
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		probe, err := os.MkdirTemp(fields[4], "ares-doctor-")
		if err != nil {
			return finding{"cgroup", "note", fmt.Sprintf("cgroup2 at %s is not writable: an agent finds a job's processes by looking for them (run it as root or with Delegate=yes)", fields[4])}
		}
		if err := os.Remove(probe); err != nil {
			return finding{"cgroup", "note", err.Error()}
		}
		return finding{"cgroup", "ok", "cgroup2 at " + fields[4]}
	}
	return finding{"cgroup", "note", "no cgroup2: an agent finds a job's processes by looking for them"}
}

// examineServer looks at the server the other commands would talk to.
func (a *app) examineServer(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	at := strings.Join(a.addresses(), ", ")
	c, err := a.connect()
	if err != nil {
		return []finding{{"server", "fault", err.Error()}}
	}
	found := a.examineClient(ctx, c, at)
	if err := c.Close(); err != nil {
		found = append(found, finding{"server", "note", err.Error()})
	}
	return found
}

func (a *app) examineClient(ctx context.Context, c *client.Client, at string) []finding {
	if err := c.Ready(ctx); err != nil {
		found := []finding{{"server", "fault", fmt.Sprintf(`%s is not ready: %s (start one with "ares up", or name another with --server)`, at, err)}}
		return append(found, examinePorts()...)
	}
	found := []finding{{"server", "ok", at}}
	status, err := c.ClusterStatus(ctx)
	if err != nil {
		return append(found, finding{"access", "fault", err.Error()})
	}
	found = append(found, finding{"access", "ok", "the token is accepted by version " + status.GetVersion()})
	if status.GetVersion() != Version {
		found = append(found, finding{"versions", "note", fmt.Sprintf("this command is %s, the server %s", Version, status.GetVersion())})
	}
	if status.GetAlert() != "" {
		found = append(found, finding{"alert", "fault", status.GetAlert()})
	}
	nodes := finding{"nodes", "ok", fmt.Sprintf("%d online of %d, %d GPUs", status.GetOnlineNodes(), status.GetTotalNodes(), status.GetTotalGpus())}
	if status.GetOnlineNodes() == 0 {
		nodes = finding{"nodes", "fault", "no node is online, so nothing runs: start an agent with ares agent"}
	}
	return append(found, nodes)
}

// examinePorts says whether something else sits on the ports of a server.
func examinePorts() []finding {
	var found []finding
	for _, addr := range []string{"127.0.0.1:8080", "127.0.0.1:9090", "127.0.0.1:9091"} {
		lis, err := net.Listen("tcp", addr)
		if err != nil {
			found = append(found, finding{"port", "note", fmt.Sprintf("%s is taken: give ares up another with --http-addr, --grpc-addr or --metrics-addr", addr)})
			continue
		}
		_ = lis.Close()
	}
	return found
}
