package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/objects"
)

// ObjectsDir is the name of the default directory for objects in the data directory.
const ObjectsDir = "objects"

// ObjectsConfig configures where the code of jobs and the output of ended jobs
// are kept.
type ObjectsConfig struct {
	// Dir is the directory for the code that jobs bring with --sync, and for the
	// output of ended jobs. All servers of a cluster need the same directory, for
	// example on NFS. Default: objects in data_dir. With etcd.endpoints there is no
	// default, because other servers may use the same store: without a directory
	// they refuse --sync, and output stays on its node only.
	Dir string `yaml:"dir"`
	// TenantMB limits the code that one tenant has stored, in MiB. Code that no
	// job uses is deleted after 24 hours. Default 10240; 0 for no limit.
	TenantMB int `yaml:"tenant_mb"`
	// LogDays is how long the output of an ended job can be read when its node is
	// gone or has deleted it, in days. Default 7, up to 3650; 0 to leave output on
	// its node only.
	LogDays int `yaml:"log_days"`
	// TenantLogMB limits the stored output of one tenant's ended jobs, in MiB after
	// compression. The oldest is deleted. Default 4096; 0 for no limit.
	TenantLogMB int `yaml:"tenant_log_mb"`
}

const (
	defaultTenantMB    = 10 << 10
	defaultLogDays     = 7
	defaultTenantLogMB = 4 << 10
	maxTenantMB        = 1 << 30
	maxLogDays         = 3650
)

func (c *ObjectsConfig) check(p *ares.Problems) {
	if c.TenantMB < 0 || c.TenantMB > maxTenantMB {
		p.Add("objects.tenant_mb", "must be between 0 and %d, got %d", maxTenantMB, c.TenantMB)
	}
	if c.LogDays < 0 || c.LogDays > maxLogDays {
		p.Add("objects.log_days", "must be between 0 and %d, got %d", maxLogDays, c.LogDays)
	}
	if c.TenantLogMB < 0 || c.TenantLogMB > maxTenantMB {
		p.Add("objects.tenant_log_mb", "must be between 0 and %d, got %d", maxTenantMB, c.TenantLogMB)
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		p.Add("objects.dir", "%q is not absolute: start it with /", c.Dir)
	}
}

// noObjects is what users and administrators are told if the servers may not share a directory.
const noObjects = "this server cannot keep the code of jobs, because several servers may use its store and objects.dir is not set: " +
	"an administrator must set objects.dir (ARES_OBJECTS_DIR) to one directory that all servers share, or you submit without --sync"

// openCode opens the directory for the code of jobs. If this is not possible, the server starts nevertheless, because most
// jobs bring no code.
func (s *Server) openCode(ctx context.Context) *code.Code {
	out := &code.Code{Store: s.Store, View: s.View, Log: s.log, Disabled: noObjects}
	dir := s.cfg.Objects.Dir
	if dir == "" && len(s.cfg.Etcd.Endpoints) > 0 {
		return out
	}
	if dir == "" {
		dir = filepath.Join(s.cfg.DataDir, ObjectsDir)
	}
	opened, err := objects.Open(objects.Config{Dir: dir, TenantBytes: int64(s.cfg.Objects.TenantMB) << 20})
	if err != nil {
		s.log.Error("this server cannot keep the code of jobs", "error", err)
		out.Disabled = "this server cannot keep the code of jobs: an administrator must make objects.dir usable: " + err.Error()
		return out
	}
	if len(s.cfg.Etcd.Endpoints) > 0 {
		if err = s.checkObjects(ctx, opened); err != nil {
			s.log.Error("this server cannot keep the code of jobs", "error", err)
			out.Disabled = "this server cannot keep the code of jobs: " + err.Error()
			_ = opened.Close()
			return out
		}
	}
	out.Objects = opened
	return out
}

// checkObjects returns an error if the other servers of the store keep objects in another directory. A job that one of them
// accepts could not get its code from this server.
func (s *Server) checkObjects(ctx context.Context, opened *objects.Store) error {
	mine, err := opened.Identity()
	if err != nil {
		return fmt.Errorf("an administrator must make objects.dir usable: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, objectsWithin)
	defer cancel()
	shared, err := s.Store.ObjectsIdentity(ctx, mine)
	if err != nil {
		return fmt.Errorf("its directory could not be compared with that of the other servers: an administrator must start it again: %w", err)
	}
	if shared != mine {
		return fmt.Errorf("objects.dir is %s with the ID %s, but the servers of this store share a directory with the ID %s: an administrator must set objects.dir "+
			"(ARES_OBJECTS_DIR) to the directory that all servers share, or, if the directory was replaced, write %s into its file %s, and start the server again",
			opened.Dir(), mine, shared, shared, objects.IdentityFile)
	}
	return nil
}

// objectsWithin limits how long the start of a server waits for the ID of the shared directory.
const objectsWithin = 10 * time.Second

func (s *Server) closeCode() {
	if s.logs != nil {
		if err := s.logs.Close(); err != nil {
			s.log.Warn("close the directory for logs", "error", err)
		}
	}
	if s.Code == nil || s.Code.Objects == nil {
		return
	}
	if err := s.Code.Objects.Close(); err != nil {
		s.log.Warn("close the directory for objects", "error", err)
	}
}
