package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/objects"
	"github.com/ares-scheduler/ares/objects/bucket"
	"github.com/ares-scheduler/ares/pause"
)

// ObjectsDir is the name of the default directory for objects in the data directory.
const ObjectsDir = "objects"

// ObjectsConfig configures where the code of jobs and the output of ended jobs
// are kept.
type ObjectsConfig struct {
	// Dir is the directory for the code that jobs bring with --sync, for the output
	// of ended jobs, and for recordings of sessions. All servers of a cluster need the same directory, for
	// example on NFS. Default: objects in data_dir. With etcd.endpoints there is no
	// default, because other servers may use the same store: without a shared
	// place they refuse --sync, and output stays on its node only.
	Dir string `yaml:"dir"`
	// URL is a bucket of an S3 server, instead of a directory:
	// s3://BUCKET/PREFIX?region=REGION&endpoint=https://HOST:PORT. Only the bucket
	// is required. Every cluster needs a bucket or a prefix of its own. The
	// credentials are those of Amazon's tools, such as AWS_ACCESS_KEY_ID and
	// AWS_SECRET_ACCESS_KEY in the server's environment.
	URL string `yaml:"url"`
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
	if c.URL == "" {
		return
	}
	if _, err := bucket.ParseURL(c.URL); err != nil {
		p.Add("objects.url", "%s", err)
	}
	if c.Dir != "" {
		p.Add("objects.url", "objects.dir is set too, and objects are kept in one place: remove one of the two")
	}
}

// The method `shared` returns the place that all servers of a store use, or false if none is set.
func (c *ObjectsConfig) shared() (bucket.Place, bool) {
	if c.URL != "" {
		place, err := bucket.ParseURL(c.URL)
		return place, err == nil // it was checked when the configuration was read
	}
	return bucket.InDir(c.Dir), c.Dir != ""
}

// noObjects is what users and administrators are told if the servers may not share a place.
const noObjects = "this server cannot keep the code of jobs, because several servers may use its store, and neither objects.url nor objects.dir is set: " +
	"an administrator must set objects.url (ARES_OBJECTS_URL) to a bucket, or objects.dir (ARES_OBJECTS_DIR) to one directory that all servers share, or you submit without --sync"

// openCode opens the place for the code of jobs. If this is not possible, the server starts nevertheless, because most
// jobs bring no code.
func (s *Server) openCode(ctx context.Context) *code.Code {
	out := &code.Code{Store: s.Store, View: s.View, Log: s.log, Disabled: noObjects}
	place, isShared := s.cfg.Objects.shared()
	if !isShared && len(s.cfg.Etcd.Endpoints) > 0 {
		return out
	}
	if !isShared {
		place = bucket.InDir(filepath.Join(s.cfg.DataDir, ObjectsDir))
	}
	opened, err := objects.Open(ctx, objects.Config{Place: place, TenantBytes: int64(s.cfg.Objects.TenantMB) << 20})
	if err != nil {
		err = s.unusable(err)
	} else if len(s.cfg.Etcd.Endpoints) > 0 || place.URL != nil {
		err = s.checkObjects(ctx, opened)
		if place.URL != nil && ares.CodeOf(err) == ares.Unavailable {
			s.log.Warn("the place for objects does not answer; trying again", "error", err)
			s.runPart("compare objects", func() error { return s.compareObjects(ctx, opened) })
			err = nil
		}
		if err != nil {
			_ = opened.Close()
		}
	}
	if err != nil {
		s.log.Error("this server cannot keep the code of jobs", "error", err)
		out.Disabled = "this server cannot keep the code of jobs: " + err.Error()
		return out
	}
	out.Objects = opened
	return out
}

func (s *Server) unusable(err error) error {
	return fmt.Errorf("an administrator must make %s usable: %w", s.cfg.Objects.setting(), err)
}

// The method `setting` returns the setting that says where the objects are.
func (c *ObjectsConfig) setting() string {
	if c.URL != "" {
		return "objects.url"
	}
	return "objects.dir"
}

// compareEvery is how often a server asks an S3 server that does not answer. Tests change it.
var compareEvery = 10 * time.Second

// compareObjects is checkObjects for a place that does not answer yet. Until it does, nothing can be stored there or read. If it turns
// out to be another than that of the other servers, the server stops using it, at most compareEvery after it has answered.
func (s *Server) compareObjects(ctx context.Context, opened *objects.Store) error {
	for pause.For(ctx, compareEvery) {
		err := s.checkObjects(ctx, opened)
		switch {
		case ctx.Err() != nil || ares.CodeOf(err) == ares.Unavailable:
			continue
		case err != nil:
			s.log.Error("this server cannot keep the code of jobs", "error", err)
			_ = opened.Refuse(ares.Errorf(ares.FeatureDisabled, "%s", err))
		default:
			s.log.Info("the place for objects answers", "place", opened.Place())
		}
		return nil
	}
	return nil
}

// checkObjects returns an error if the other servers of the store keep objects in another place. A job that one of them
// accepts could not get its code from this server.
func (s *Server) checkObjects(ctx context.Context, opened *objects.Store) error {
	ctx, cancel := context.WithTimeoutCause(ctx, objectsWithin, ares.Errorf(ares.Unavailable, "%s did not answer within %s", opened.Place(), objectsWithin))
	defer cancel()
	mine, err := opened.Identity(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return s.unusable(err)
	}
	shared, err := s.Store.ObjectsIdentity(ctx, mine)
	if err != nil {
		return fmt.Errorf("it could not be compared with that of the other servers: an administrator must start this server again: %s", err)
	}
	if shared != mine {
		return fmt.Errorf("%s is %s with the ID %s, but the servers of this store share a place with the ID %s: an administrator must set %s "+
			"to the place that all servers share, or, if it was replaced, write %s into its file %s, and start the server again",
			s.cfg.Objects.setting(), opened.Place(), mine, shared, s.cfg.Objects.setting(), shared, bucket.IdentityFile)
	}
	return nil
}

// objectsWithin limits how long the start of a server waits for the ID of the shared place.
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
