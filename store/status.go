package store

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// MemberStatus is one member of etcd as this store reaches it.
type MemberStatus struct {
	Endpoint  string
	Err       error // why it does not answer
	Version   string
	Size      int64 // of its file, in bytes
	InUse     int64 // of that
	Quota     int64 // 0 when it does not tell
	HasLeader bool  // it is with a majority
	IsLeader  bool
	Alarms    []string // such as NOSPACE
}

// Embedded says whether the etcd is inside this process.
func (s *Store) Embedded() bool { return s.inside != nil }

func (s *Store) endpoints() []string {
	if s.inside != nil {
		return []string{"embedded"}
	}
	return s.cfg.Endpoints
}

// statusTimeout bounds how long one member is waited for.
const statusTimeout = 2 * time.Second

// Status asks every member by itself, so it answers without a majority too.
func (s *Store) Status(ctx context.Context) []MemberStatus {
	endpoints := s.endpoints()
	out := make([]MemberStatus, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() { out[i] = s.memberStatus(ctx, endpoint) })
	}
	wg.Wait()
	return out
}

func (s *Store) memberStatus(ctx context.Context, endpoint string) MemberStatus {
	ctx, cancel := context.WithTimeout(ctx, min(statusTimeout, s.timeout))
	defer cancel()
	m := MemberStatus{Endpoint: endpoint}
	got, err := s.client.Status(ctx, endpoint)
	if err != nil {
		m.Err = err
		return m
	}
	m.Version, m.Size, m.InUse, m.Quota = got.Version, got.DbSize, got.DbSizeInUse, got.DbSizeQuota
	m.HasLeader, m.IsLeader = got.Leader != 0, got.Leader != 0 && got.Leader == got.Header.GetMemberId()
	m.Alarms = alarmsOf(got)
	return m
}

// alarmsOf finds the names of alarms in what a member says of itself.
func alarmsOf(got *clientv3.StatusResponse) []string {
	var out []string
	for _, text := range got.Errors {
		for _, name := range []string{"NOSPACE", "CORRUPT"} {
			if strings.Contains(text, name) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// spaceFor is how long an answer about the store's space is believed: it is
// asked for whenever somebody wants to know whether a server is ready.
const spaceFor = 2 * time.Second

// space is what is known of the store's space.
type space struct {
	mu    sync.Mutex
	at    time.Time
	alarm string
}

// Writable says whether the store takes writes: one that is out of space still
// answers every read.
func (s *Store) Writable(ctx context.Context) error {
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	if s.space.at.IsZero() || time.Since(s.space.at) > spaceFor {
		s.space.alarm, s.space.at = s.alarm(ctx), time.Now()
	}
	switch s.space.alarm {
	case "":
		return nil
	case "NOSPACE":
		return ares.Errorf(ares.Unavailable, "the store is out of space: %s", NoSpaceRemedy)
	default:
		return ares.Errorf(ares.Unavailable, "the store has raised the alarm %s: replace the member that etcd names, or restore a backup with `ares restore`", s.space.alarm)
	}
}

// alarm is the first alarm that a member with a majority tells, "" for none. It
// waits for the fastest such member alone, for another may be down.
func (s *Store) alarm(ctx context.Context) string {
	ctx, cancel := context.WithCancel(ctx)
	endpoints := s.endpoints()
	answers := make(chan MemberStatus, len(endpoints))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, endpoint := range endpoints {
		wg.Go(func() { answers <- s.memberStatus(ctx, endpoint) })
	}
	for range endpoints {
		if m := <-answers; m.Err == nil && m.HasLeader {
			return strings.Join(m.Alarms[:min(len(m.Alarms), 1)], "")
		}
	}
	return ""
}

// NoSpaceRemedy says how a store gets space again.
const NoSpaceRemedy = "compact etcd (etcdctl compaction with a recent revision), defragment every member (etcdctl defrag), raise --quota-backend-bytes if that was not enough, then take the alarm back (etcdctl alarm disarm)"

// Missed says whether anything below /ares/ was written after a revision. It
// looks at every key, so it is for when there is a doubt.
func (s *Store) Missed(ctx context.Context, revision int64) (bool, error) {
	got, err := s.get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithMinModRev(revision+1), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
	if err != nil {
		return false, err
	}
	return len(got.Kvs) > 0, nil
}
