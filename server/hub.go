package server

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/health"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/store"
)

// newHub returns the part of a hub's server that offers jobs to clusters. On the leader, the given parts run too.
func (s *Server) newHub(parts map[string]func(context.Context, *store.Leadership) error) *federation.Hub {
	h := federation.NewHub(s.View)
	h.Store, h.Server, h.Now, h.Log, h.Version = s.Store, s.name, time.Now, s.log, Version
	h.TTL = time.Duration(s.cfg.Scheduler.LeaderTTLSeconds) * time.Second
	h.Heartbeat = s.cfg.Federation.heartbeat()
	h.Authenticate = authenticateMember
	h.Seal = func(cluster string, revision int64, word string) []byte {
		return s.trust.Authority.MAC("metadata of a cluster", []byte(cluster+"\x00"+strconv.FormatInt(revision, 10)+"\x00"+word))
	}
	h.Chooser = choose.New(s.cfg.engine(), choose.Default())
	if s.cfg.History.URL != "" { // a file of this server may be lost together with the store
		h.RecordRoster = s.recordRoster
	}
	reports := make(chan reachability, maxClusterReports)
	h.Reachable = func(cluster string, reachable bool) {
		select {
		case reports <- reachability{cluster, reachable, time.Now()}:
		default: // the hub's own sessions are right; only the stored state lags behind until the next change
			s.log.Warn("too many clusters are lost and found at the same time", "cluster", cluster)
		}
	}
	h.Alarm = func(cluster, why string) {
		s.log.Error("a cluster was refused", "cluster", cluster, "why", why)
		s.refused.Store(&refusedCluster{cluster, why, time.Now()})
	}
	parts["health of clusters"] = func(ctx context.Context, _ *store.Leadership) error { return s.recordHealth(ctx, reports) }
	h.WhileLeading = func(ctx context.Context, lead *store.Leadership) error { return s.runParts(ctx, lead, parts) }
	return h
}

// rosterTimeout is the maximum time of one write of the roster into history.
const rosterTimeout = 10 * time.Second

// recordRoster writes the hub's roster into history, from where a restore reads it.
func (s *Server) recordRoster(ctx context.Context, r *store.Roster) error {
	ctx, cancel := context.WithTimeout(ctx, rosterTimeout)
	defer cancel()
	clusters, err := json.Marshal(r.Clusters)
	if err != nil {
		return err
	}
	return s.Accounting.History.PutRoster(ctx, history.Roster{Hub: r.Hub, Version: r.Version, Clusters: clusters})
}

// runParts runs parts of the leader until the term ends. When one of them ends, the term ends.
func (s *Server) runParts(ctx context.Context, lead *store.Leadership, parts map[string]func(context.Context, *store.Leadership) error) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for name, part := range parts {
		wg.Go(func() {
			defer cancel()
			if err := part(ctx, lead); err != nil && !errors.Is(err, context.Canceled) {
				s.log.Error("a part of the leader failed", "part", name, "error", err)
			}
		})
	}
	<-ctx.Done()
	return ctx.Err()
}

// authenticateMember compares the cluster that a member names with its certificate.
func authenticateMember(ctx context.Context, cluster string) error {
	if own := pipeline.IdentityOf(ctx).Cluster; own != cluster {
		return ares.Errorf(ares.Forbidden, "the certificate belongs to cluster %s, not to %q", own, ares.Clip(cluster))
	}
	return nil
}

// maxClusterReports is the largest number of changes of reachability that wait to be written.
const maxClusterReports = 4 * store.MaxClusters

// A reachability says that a cluster opened a session, or was lost.
type reachability struct {
	cluster   string
	reachable bool
	at        time.Time
}

// releaseEvery is how often the leader looks for clusters whose offers are no longer held back.
const releaseEvery = 5 * time.Second

// recordHealth writes which clusters are reachable, counts their losses, and releases held offers when their time is over.
func (s *Server) recordHealth(ctx context.Context, reports <-chan reachability) error {
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-reports:
			s.recordReachable(ctx, r)
		case <-tick.C:
			s.releaseHeld(ctx, time.Now())
		}
	}
}

func (s *Server) recordReachable(ctx context.Context, r reachability) {
	c, err := s.Store.UpdateCluster(ctx, r.cluster, func(c *store.Cluster) error {
		if c.Unreachable == !r.reachable {
			return nil
		}
		c.Unreachable, c.HealthSince = !r.reachable, r.at
		if !r.reachable {
			setDamping(c, dampingOf(c).Lost(r.at))
		}
		return nil
	})
	switch {
	case err != nil:
		s.log.Warn("the state of a cluster was not written", "cluster", r.cluster, "error", err)
	case r.reachable:
		s.log.Info("a cluster is connected", "cluster", r.cluster)
	default:
		s.log.Warn("a cluster cannot be reached: it gets no offers, and keeps the jobs that it owns", "cluster", r.cluster, "held", c.Damped)
	}
}

// releaseHeld lets the hub offer jobs again to clusters that were lost often, but not lately.
func (s *Server) releaseHeld(ctx context.Context, now time.Time) {
	all, err := s.Store.Clusters(ctx)
	if err != nil {
		return // the next tick tries again
	}
	for i := range all {
		if !all[i].Damped || dampingOf(&all[i]).HoldsAt(now) {
			continue
		}
		_, err = s.Store.UpdateCluster(ctx, all[i].Name, func(c *store.Cluster) error {
			if d := dampingOf(c); !d.HoldsAt(now) {
				setDamping(c, health.Damping{Points: d.PointsAt(now), At: now})
			}
			return nil
		})
		if err == nil {
			s.log.Info("a cluster that was lost often gets offers again", "cluster", all[i].Name)
		}
	}
}

func dampingOf(c *store.Cluster) health.Damping {
	return health.Damping{Points: c.Penalty, At: c.PenaltyAt, Held: c.Damped}
}

func setDamping(c *store.Cluster, d health.Damping) {
	c.Penalty, c.PenaltyAt, c.Damped = d.Points, d.At, d.Held
}

// ownedJobs counts the jobs that each cluster owns.
func (s *Server) ownedJobs(ctx context.Context) (map[string]service.OwnedJobs, error) {
	grants, _, err := s.Store.Grants(ctx)
	out := map[string]service.OwnedJobs{}
	for i := range grants {
		if grants[i].State != ares.GrantBound {
			continue
		}
		n := out[grants[i].Cluster]
		n.Jobs++
		if e := s.View.Job(grants[i].Job); e != nil && !e.Run.IsMovable(e.Job) {
			n.Staying++
		}
		out[grants[i].Cluster] = n
	}
	return out, err
}

// A refusedCluster is a cluster whose store is not the one that joined.
type refusedCluster struct {
	name, why string
	at        time.Time
}

// refusedFor is how long an alert shows a cluster that was refused. Such a cluster tries again and again.
const refusedFor = 10 * time.Minute

// clusterAlert returns a warning about a cluster that was refused lately, or "".
func (s *Server) clusterAlert(now time.Time) string {
	r := s.refused.Load()
	if r == nil || now.Sub(r.at) > refusedFor {
		return ""
	}
	return "cluster " + r.name + " was refused: " + r.why
}

// federation returns what the API needs to know about other clusters.
func (s *Server) federation() service.Federation {
	if s.Hub != nil {
		return service.Federation{Hub: true, CertLife: s.cfg.Federation.certLife(), Owned: s.ownedJobs, Owners: hubReads{s.Hub}}
	}
	return service.Federation{Join: s.joinHub, Leave: s.leaveHub, Membership: s.membership}
}

// hubService returns the service for members, or nil without a hub.
func (s *Server) hubService() apipb.FederationServiceServer {
	if s.Hub == nil {
		return nil
	}
	return s.Hub
}
