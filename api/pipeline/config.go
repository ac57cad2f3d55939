package pipeline

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"buf.build/go/protovalidate"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// Config holds what the steps of the pipeline need.
type Config struct {
	View  *cache.View
	Store *store.Store
	// Accounting finds jobs that are no longer live. If Accounting is nil, the
	// server has no history.
	Accounting *accounting.Accounting
	// Policies are the user-defined policies. If Policies is nil, there are no
	// policies.
	Policies *admission.Policies
	Auth     *auth.Auth
	// Trust issues and checks the certificates of nodes.
	Trust *Trust
	// The function Certified returns the identity that a verified client certificate proves. The
	// identity has kind ares.ByCert. By default, Certified is Trust.Identify.
	Certified func(ctx context.Context, leaf *x509.Certificate) (ares.Identity, error)
	// Audit records calls. If Audit is nil, no call is recorded.
	Audit Auditor
	// MaxBody limits the size of a request that is not a batch. The default is DefaultMaxBody.
	MaxBody int64
	// Limits sets the maximum number of concurrent calls. The default is DefaultLimits.
	Limits Limits
	Log    *slog.Logger
	// After each call, Observe is called with the method, the code and the duration. The code is "" for
	// success. Observe may be nil.
	Observe func(method string, code ares.Code, took time.Duration)
	// When a limit rejects a call, the function Shed is called with the limiter's class. This function
	// may be nil.
	Shed func(class string)
}

// Pipeline runs calls through the steps.
type Pipeline struct {
	Cfg      Config
	validate protovalidate.Validator
	Limiters *limiters
	life     context.Context // ends with Close
	end      context.CancelFunc

	Recheck, WriteWait, ReceiveWait, SlowAfter, ViewWait time.Duration // constants, except that tests change them
}

// New returns a pipeline.
func New(cfg Config) (*Pipeline, error) {
	if cfg.Certified == nil {
		cfg.Certified = cfg.Trust.Identify
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits()
	}
	validate, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("make the validator: %w", err)
	}
	d := &Pipeline{
		Cfg: cfg, validate: validate, Limiters: newLimiters(cfg.Limits, cfg.Shed),
		Recheck: recheckEvery, WriteWait: MaxWriteWait, ReceiveWait: MaxReceive, SlowAfter: slowAfter, ViewWait: maxViewWait,
	}
	d.life, d.end = context.WithCancel(context.Background())
	return d, nil
}

// Close ends every open stream and waits up to MaxEnding until they have ended.
// After Close is called, new streams are rejected.
func (d *Pipeline) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, MaxEnding)
	defer cancel()
	d.end()
	for _, g := range []*Limiter{d.Limiters.Events, d.Limiters.logs, d.Limiters.dumps, d.Limiters.backups} {
		g.Close(ctx)
	}
}
