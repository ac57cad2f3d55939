package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects/tree"
	"github.com/ares-scheduler/ares/pause"
)

const (
	// codeTries is how often an agent asks for the code of a seat. In between it pauses, so that another server may answer.
	codeTries = 6
	// codeTime limits one try. A snapshot has at most 1 GiB.
	codeTime = 10 * time.Minute
)

// fetchCode writes the code of the seat's job into its working directory. The seat is claimed already, and no process of it
// has started.
func (s *seat) fetchCode(ctx context.Context, spec *run.Spec) error {
	text := s.order.GetSpec().GetCodeDigest()
	if text == "" {
		return nil
	}
	want, err := tree.ParseDigest(text)
	if err != nil {
		return err
	}
	for try, wait := 1, 200*time.Millisecond; ; try, wait = try+1, 2*wait {
		err := s.unpackCode(ctx, want, spec)
		if err == nil {
			return nil
		}
		code := ares.CodeOf(err)
		if mayPass := code == ares.Unavailable || code == ares.Exhausted; !mayPass || try == codeTries || s.isStopped() || !pause.For(ctx, wait) {
			return err
		}
	}
}

// codeFits returns an error if a job's code needs more than the working directory that the node gives the job.
func (s *seat) codeFits(spec *run.Spec, need tree.Footprint) error {
	bytes, files := spec.Sandbox.Room()
	if bytes == 0 || need.Bytes <= bytes && int64(need.Files) <= files {
		return nil
	}
	const mib = 1 << 20
	return ares.Errorf(ares.TooLarge, "the job's code needs %d MiB and %d files, but node %s gives each job a working directory with room for %d MiB and %d files "+
		"(isolation.work_mb or isolation.disk_mb): leave data out with .aresignore, or submit the job with --constraint for other nodes",
		(need.Bytes+mib-1)/mib, need.Files, s.agent.cfg.Node, max(bytes, 0)/mib, files)
}

// unpackCode writes the code once. If an earlier try has left something, the working directory is made anew.
func (s *seat) unpackCode(ctx context.Context, want tree.Digest, spec *run.Spec) error {
	root, err := s.emptyScratch(spec)
	if err != nil {
		return err
	}
	defer root.Close()
	user := spec.User
	var owner *tree.Owner
	if user != nil {
		owner = &tree.Owner{UID: int(user.UID), GID: int(user.GID)}
	}
	ctx, cancel := context.WithTimeout(ctx, codeTime)
	defer cancel()
	control, _, _, err := s.agent.link.connections()
	if err != nil {
		return err
	}
	session := s.agent.session.Load()
	if session == 0 {
		return ares.Errorf(ares.Unavailable, "the agent has no session yet")
	}
	stream, err := control.FetchCode(ctx, &apipb.FetchCodeRequest{Ref: &apipb.SessionRef{NodeId: s.agent.cfg.Node, Session: session}, Seat: refOf(s.key)})
	if err != nil {
		return apipb.FromStatus(err)
	}
	var u *tree.Unpacker
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) && u != nil {
			return u.Close()
		}
		if err != nil {
			return apipb.FromStatus(err)
		}
		if u == nil {
			if u, err = tree.NewUnpacker(root, owner, want, m.GetSnapshot()); err != nil {
				return err
			}
			u.Fits = func(need tree.Footprint) error { return s.codeFits(spec, need) }
		}
		for _, chunk := range m.GetChunks() {
			if err = u.Add(chunk); err != nil {
				return err
			}
		}
		if s.isStopped() {
			return ares.Errorf(ares.Fenced, "the job was asked to stop while its code was fetched")
		}
	}
}

// emptyScratch opens the directory for the seat's code, after it has removed what an earlier try has left there. It is the seat's working
// directory, or a directory in it whose content the supervisor moves into a file system of the job's own.
func (s *seat) emptyScratch(spec *run.Spec) (*os.Root, error) {
	list, err := os.ReadDir(s.scratch())
	if err != nil {
		return nil, fmt.Errorf("read the working directory: %w", err)
	}
	if len(list) > 0 {
		if err = s.agent.bin.Discard(s.scratch()); err != nil {
			return nil, fmt.Errorf("empty the working directory: %w", err)
		}
		if err = s.makeScratch(scratchOwner(spec)); err != nil {
			return nil, fmt.Errorf("create the working directory: %w", err)
		}
	}
	if dir := spec.Sandbox.Code(); dir != "" {
		if err = os.Mkdir(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create the directory for the job's code: %w", err)
		}
		return os.OpenRoot(dir)
	}
	return os.OpenRoot(s.scratch())
}

func (s *seat) isStopped() bool {
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	return s.stopped != ""
}

// withoutCode ends a seat whose code could not be unpacked. Code that is gone or invalid is the job's own failure. If the disk
// is full or no server answers, the job is tried again, as after the loss of a node.
func (s *seat) withoutCode(ctx context.Context, err error) error {
	node := "node " + s.agent.cfg.Node
	switch code := ares.CodeOf(err); {
	case ctx.Err() != nil:
		return err // the agent stops
	case s.isStopped():
		s.end(run.Result{Outcome: run.Stopped, Reason: "stopped while its code was fetched", Ended: time.Now()})
	case code == ares.Fenced:
		return err // the claim is no longer valid
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		reason := fmt.Sprintf("the disk of %s is full, so the job's code does not fit: free space in %s", node, s.agent.cfg.Dir)
		s.agent.startFailed(reason)
		s.end(run.Result{Outcome: run.Lost, Reason: reason, Ended: time.Now()})
	case code == ares.NotFound || code == ares.Invalid || code == ares.TooLarge || code == ares.FeatureDisabled:
		s.end(run.Result{Outcome: run.SpawnError, Reason: err.Error(), Ended: time.Now()})
	default:
		s.end(run.Result{Outcome: run.Lost, Reason: node + " could not unpack the job's code: " + err.Error(), Ended: time.Now()})
	}
	return nil
}
