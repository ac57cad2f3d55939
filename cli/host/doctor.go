package host

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/server"
)

// The type `finding` is the result of one check by doctor.
type finding struct {
	What   string `json:"what"`
	State  string `json:"state"` // ok, note or fault
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// These are the states of a finding.
const (
	fine  = "ok"
	note  = "note"  // useful information, nothing to fix
	fault = "fault" // something does not work or will stop working
)

func (a *commands) doctorCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "doctor", Short: "Diagnose problems and suggest fixes", Example: "  ares doctor", Args: command.ExactArgs(),
		Long: `Check this machine and each server that you select with --server. The checks include
connections, the store and its members, clocks, nodes, and alerts. The command also works
without a server. The command takes about two seconds, because it compares clocks.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := append(a.examineMachine(), a.examineServers(cmd.Context())...)
			faults := 0
			for _, f := range found {
				if f.State == fault {
					faults++
				}
			}
			err := a.PrintValue(o.Format, map[string]any{"findings": found, "faults": faults}, func(w io.Writer) {
				for _, f := range found {
					output.Printf(w, "%-6s %-16s %s\n", f.State, f.What, output.Clean(f.Detail))
					if f.Remedy != "" {
						output.Printf(w, "%-6s %-16s → %s\n", "", "", output.Clean(f.Remedy))
					}
				}
			})
			if err == nil && faults > 0 {
				return fmt.Errorf("%d of %d checks found a problem", faults, len(found))
			}
			return err
		},
	}
	o.AddOutput(c)
	return c
}

// examineMachine checks the requirements of a server or agent on this machine.
func (a *commands) examineMachine() []finding {
	found := []finding{{What: "version", State: fine, Detail: a.Version}, a.examineDir(), a.examineToken(), a.examineSpace()}
	if path, err := exec.LookPath("nvidia-smi"); err == nil {
		found = append(found, finding{What: "devices", State: fine, Detail: "detected with " + path})
	} else {
		found = append(found, finding{What: "devices", State: note, Detail: "no nvidia-smi: an agent here simulates devices (the processes are real)"})
	}
	found = append(found, examineCgroup(), examineUser())
	return append(found, a.examineCertificates()...)
}

func (a *commands) examineDir() finding {
	f := finding{What: "data directory", State: fine, Detail: a.Dir()}
	info, err := os.Stat(a.Dir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.State, f.Detail = note, a.Dir()+" does not exist yet; ares up creates it"
	case err != nil:
		f.State, f.Detail = fault, err.Error()
	case !info.IsDir():
		f.State, f.Detail, f.Remedy = fault, a.Dir()+" is not a directory", "choose another with --data-dir"
	case info.Mode().Perm()&0o022 != 0:
		f.State, f.Detail, f.Remedy = fault, a.Dir()+" is writable by other users", "chmod 700 "+output.CommandLine([]string{a.Dir()})
	}
	return f
}

// Doctor reports a problem if the free disk space is below these limits, in MB. A server stops when
// its store cannot write to the disk.
const (
	littleSpaceMB = 1024
	noSpaceMB     = 128
)

func (a *commands) examineSpace() finding {
	dir := a.Dir()
	for { // a directory that does not exist yet will be created in its parent
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return space("free space", dir, server.FreeMB(dir))
}

// The function `space` returns the finding for an amount of free disk space, in MB.
func space(what, where string, mb int64) finding {
	f := finding{What: what, State: fine, Detail: fmt.Sprintf("%d MB at %s", mb, where), Remedy: "free some space, or use a larger disk"}
	switch {
	case mb < 0:
		f.State, f.Detail, f.Remedy = note, "unknown for "+where, ""
	case mb < noSpaceMB:
		f.State = fault
	case mb < littleSpaceMB:
		f.State = note
	default:
		f.Remedy = ""
	}
	return f
}

func (a *commands) examineToken() finding {
	path := cmp.Or(a.TokenFile, os.Getenv("ARES_TOKEN_FILE"), a.TokenPath())
	if a.TokenFile == "" && os.Getenv("ARES_TOKEN") != "" {
		return finding{What: "token", State: fine, Detail: "from ARES_TOKEN"}
	}
	f := finding{What: "token", State: fine, Detail: path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.State, f.Detail = note, path+" does not exist; ares up creates it"
	case err != nil:
		f.State, f.Detail = fault, err.Error()
	case info.Mode().Perm()&0o077 != 0:
		f.State, f.Detail, f.Remedy = fault, path+" is readable by other users", fmt.Sprintf("run chmod 600 %s, and consider a new token", output.CommandLine([]string{path}))
	}
	return f
}

// examineCgroup checks whether an agent on this machine can verify that all processes of a
// job have ended.
func examineCgroup() finding {
	f := finding{What: "cgroup", State: note, Remedy: "for an agent here: mount cgroup2, and run it as root or with Delegate=yes (see deploy/systemd)"}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		f.Detail = "no /proc/self/mountinfo: agents run on Linux"
		return f
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		probe, err := os.MkdirTemp(fields[4], "ares-doctor-")
		if err != nil {
			f.Detail = fmt.Sprintf("cgroup2 at %s is not writable: the agent searches for the processes of a job", fields[4])
			return f
		}
		if err := os.Remove(probe); err != nil {
			f.Detail = err.Error()
			return f
		}
		return finding{What: "cgroup", State: fine, Detail: "cgroup2 at " + fields[4]}
	}
	f.Detail = "no cgroup2: the agent searches for the processes of a job"
	return f
}

// examinePorts checks whether another process uses the ports of a server.
func examinePorts() []finding {
	var found []finding
	for _, addr := range []string{"127.0.0.1:8080", "127.0.0.1:9090", "127.0.0.1:9091"} {
		lis, err := net.Listen("tcp", addr)
		if err != nil {
			found = append(found, finding{
				What: "port", State: note, Detail: addr + " is in use",
				Remedy: "choose another with --http-addr, --grpc-addr or --metrics-addr of ares up",
			})
			continue
		}
		_ = lis.Close()
	}
	return found
}
