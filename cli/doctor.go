package cli

import (
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

	"github.com/ares-scheduler/ares/server"
)

// finding is one thing the doctor looked at.
type finding struct {
	What   string `json:"what"`
	State  string `json:"state"` // ok, note or fault
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// The states of a finding.
const (
	fine  = "ok"
	note  = "note"  // good to know
	fault = "fault" // something does not work, or will not
)

func (a *app) doctorCommand() *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: "doctor", Short: "Say what is wrong, and what to do about it", Args: exactly(),
		Long: `Looks at this machine and at every server that --server names: whether they can be
reached, their store and its members, clocks, nodes, and what is held back. It works
without any server, too, and takes about two seconds, to compare clocks.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := append(a.examineMachine(), a.examineServers(cmd.Context())...)
			faults := 0
			for _, f := range found {
				if f.State == fault {
					faults++
				}
			}
			err := a.printValue(o.output, map[string]any{"findings": found, "faults": faults}, func(w io.Writer) {
				for _, f := range found {
					say(w, "%-6s %-16s %s\n", f.State, f.What, clean(f.Detail))
					if f.Remedy != "" {
						say(w, "%-6s %-16s → %s\n", "", "", clean(f.Remedy))
					}
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
	found := []finding{{What: "version", State: fine, Detail: Version}, a.examineDir(), a.examineToken(), a.examineSpace()}
	if path, err := exec.LookPath("nvidia-smi"); err == nil {
		found = append(found, finding{What: "devices", State: fine, Detail: path + " will tell them"})
	} else {
		found = append(found, finding{What: "devices", State: note, Detail: "no nvidia-smi: an agent here simulates devices (the processes are real)"})
	}
	found = append(found, examineCgroup(), examineUser())
	return append(found, a.examineCertificates()...)
}

func (a *app) examineDir() finding {
	f := finding{What: "data directory", State: fine, Detail: a.dir()}
	info, err := os.Stat(a.dir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.State, f.Detail = note, a.dir()+" does not exist yet; ares up makes it"
	case err != nil:
		f.State, f.Detail = fault, err.Error()
	case !info.IsDir():
		f.State, f.Detail, f.Remedy = fault, a.dir()+" is not a directory", "name another with --data-dir"
	case info.Mode().Perm()&0o022 != 0:
		f.State, f.Detail, f.Remedy = fault, a.dir()+" may be written by others", "chmod 700 "+commandLine([]string{a.dir()})
	}
	return f
}

// Below these a data directory is nearly full; a store that cannot write stops
// its server.
const (
	littleSpaceMB = 1024
	noSpaceMB     = 128
)

func (a *app) examineSpace() finding {
	dir := a.dir()
	for { // what is not made yet will be made in the directory above
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return space("free space", dir, server.FreeMB(dir))
}

// space judges how many MB are left.
func space(what, where string, mb int64) finding {
	f := finding{What: what, State: fine, Detail: fmt.Sprintf("%d MB at %s", mb, where), Remedy: "delete what is not needed there, or give it a larger disk"}
	switch {
	case mb < 0:
		f.State, f.Detail, f.Remedy = note, "the system does not tell for "+where, ""
	case mb < noSpaceMB:
		f.State = fault
	case mb < littleSpaceMB:
		f.State = note
	default:
		f.Remedy = ""
	}
	return f
}

func (a *app) examineToken() finding {
	path := firstOf(a.tokenFile, os.Getenv("ARES_TOKEN_FILE"), a.tokenPath())
	if a.tokenFile == "" && os.Getenv("ARES_TOKEN") != "" {
		return finding{What: "token", State: fine, Detail: "from ARES_TOKEN"}
	}
	f := finding{What: "token", State: fine, Detail: path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.State, f.Detail = note, path+" does not exist; ares up makes it"
	case err != nil:
		f.State, f.Detail = fault, err.Error()
	case info.Mode().Perm()&0o077 != 0:
		f.State, f.Detail, f.Remedy = fault, path+" may be read by others", fmt.Sprintf("chmod 600 %s, and consider a new token", commandLine([]string{path}))
	}
	return f
}

// examineCgroup says whether the death of a job's processes can be verified.
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
			f.Detail = fmt.Sprintf("cgroup2 at %s is not writable: an agent finds a job's processes by looking for them", fields[4])
			return f
		}
		if err := os.Remove(probe); err != nil {
			f.Detail = err.Error()
			return f
		}
		return finding{What: "cgroup", State: fine, Detail: "cgroup2 at " + fields[4]}
	}
	f.Detail = "no cgroup2: an agent finds a job's processes by looking for them"
	return f
}

// examinePorts says whether something else sits on the ports of a server.
func examinePorts() []finding {
	var found []finding
	for _, addr := range []string{"127.0.0.1:8080", "127.0.0.1:9090", "127.0.0.1:9091"} {
		lis, err := net.Listen("tcp", addr)
		if err != nil {
			found = append(found, finding{
				What: "port", State: note, Detail: addr + " is taken",
				Remedy: "give ares up another with --http-addr, --grpc-addr or --metrics-addr",
			})
			continue
		}
		_ = lis.Close()
	}
	return found
}
