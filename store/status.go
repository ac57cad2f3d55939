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

// MemberStatus is the status of one etcd member, as seen from this server.
type MemberStatus struct {
	Endpoint  string
	Err       error // why it does not answer
	Version   string
	Size      int64 // size of its file, in bytes
	InUse     int64 // bytes of Size that are in use
	Quota     int64 // 0 when it is not reported
	HasLeader bool  // it reaches a majority of the members
	IsLeader  bool
	Alarms    []string // such as NOSPACE
}

// Embedded reports whether the etcd runs inside this process.
func (s *Store) Embedded() bool { return s.inside != nil }

func (s *Store) endpoints() []string {
	if s.inside != nil {
		return []string{"embedded"}
	}
	return s.cfg.Endpoints
}

// statusTimeout is the maximum wait for one member's answer.
const statusTimeout = 2 * time.Second

// Status asks every member separately, so it also works when etcd has no
// majority.
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

// alarmsOf returns the names of the alarms in a member's status.
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

// The server caches the answer about the store's free space for this duration. The answer is cached because every
// readiness check needs it.
const spaceFor = 2 * time.Second

// This type is the cached answer about the store's free space.
type space struct {
	mu    sync.Mutex
	at    time.Time
	alarm string
}

// Writable returns an error unless the store accepts writes. The method Ready is not enough for this check. A store
// that is out of space still answers every read.
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
		return ares.Errorf(ares.Unavailable, "etcd has raised the alarm %s: replace the etcd member that the alarm names, or restore a backup with `ares restore`", s.space.alarm)
	}
}

// This method asks all members. It uses the first answer from a member that is in contact with a majority. The result
// is the first alarm of that member, or "" if it reports no alarm. The method does not wait for other members,
// because they may be down.
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

// NoSpaceRemedy says how to free space in the store.
const NoSpaceRemedy = "compact etcd (etcdctl compaction with a recent revision), defragment every member (etcdctl defrag), raise --quota-backend-bytes if that was not enough, then clear the alarm (etcdctl alarm disarm)"

// Missed reports whether anything below /ares/ was written after a revision. Missed reads every
// key, so call it only when the server's view may be behind the store.
func (s *Store) Missed(ctx context.Context, revision int64) (bool, error) {
	got, err := s.get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithMinModRev(revision+1), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
	if err != nil {
		return false, err
	}
	return len(got.Kvs) > 0, nil
}
