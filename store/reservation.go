package store

import (
	"context"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// CreateReservation creates a reservation and returns it with its revision. Creating an identical reservation
// again changes nothing. Creating a different reservation with the same name is a conflict. The reservation's
// tenant and queue must exist.
func (s *Store) CreateReservation(ctx context.Context, r ares.Reservation) (ares.Reservation, error) {
	value, err := marshal(reservationRecord(&r))
	if err != nil {
		return r, err
	}
	return Retry(maxTries, func() (ares.Reservation, error) {
		all, revision, err := s.reservations(ctx)
		if err != nil {
			return r, err
		}
		if there := all[r.Name]; there != nil {
			if there.Same(&r) {
				return *there, nil
			}
			return r, ares.Errorf(ares.Conflict, "reservation %s already exists with other content: choose another name, or delete it first", r.Name).At("name")
		}
		if len(all) >= ares.MaxReservations {
			return r, ares.Errorf(ares.LimitReached, "there are %d reservations, which is the limit: delete some", len(all))
		}
		cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(reservationsKey), "<", revision+1).WithPrefix()}
		var reads []clientv3.Op
		for _, key := range reservationScopeKeys(&r) {
			cmps = append(cmps, keyExists(key))
			reads = append(reads, clientv3.OpGet(key, clientv3.WithKeysOnly()))
		}
		resp, err := s.txn(ctx, "write reservation", cmps, []clientv3.Op{clientv3.OpPut(reservationKey(r.Name), value)}, reads)
		if err != nil {
			return r, err
		}
		if resp.Succeeded {
			r.Revision = resp.Header.Revision
			return r, nil
		}
		for i, one := range resp.Responses {
			if len(one.GetResponseRange().Kvs) > 0 {
				continue
			}
			if i == 0 {
				return r, NoTenant(r.Tenant)
			}
			return r, NoQueue(r.Tenant, r.Queue).At("queue")
		}
		return r, Conflict{ares.Errorf(ares.Exhausted, "the reservations keep changing: try again")}
	})
}

// reservationScopeKeys returns the keys of a reservation's tenant and queue, in that
// order.
func reservationScopeKeys(r *ares.Reservation) []string {
	switch {
	case r.Tenant == "":
		return nil
	case r.Queue == "" || r.Queue == ares.DefaultQueue:
		return []string{tenantKey(r.Tenant)}
	}
	return []string{tenantKey(r.Tenant), queueKey(r.Tenant, r.Queue)}
}

// DeleteReservation deletes a reservation if its revision is unchanged, and returns the revision of the deletion.
func (s *Store) DeleteReservation(ctx context.Context, name string, revision int64) (int64, error) {
	resp, err := s.txn(ctx, "delete reservation",
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(reservationKey(name)), "=", revision)},
		[]clientv3.Op{clientv3.OpDelete(reservationKey(name))}, []clientv3.Op{clientv3.OpGet(reservationKey(name), clientv3.WithKeysOnly())})
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return resp.Header.Revision, nil
	case len(resp.Responses[0].GetResponseRange().Kvs) == 0:
		return 0, NoReservation(name)
	}
	return 0, ares.Errorf(ares.Conflict, "reservation %s was replaced by another request: read the reservation again, and then repeat your request", name)
}

// Reservation reads one reservation with a linearizable read.
func (s *Store) Reservation(ctx context.Context, name string) (ares.Reservation, error) {
	key := reservationKey(name)
	got, err := s.get(ctx, key)
	if err != nil {
		return ares.Reservation{}, err
	}
	if len(got.Kvs) == 0 {
		return ares.Reservation{}, NoReservation(name)
	}
	rec, err := unmarshal(key, got.Kvs[0].Value)
	if err != nil {
		return ares.Reservation{}, err
	}
	return *reservationOf(rec.GetReservation(), name, got.Kvs[0].ModRevision), nil
}

// This method returns a map of all reservations, whose keys are the names. It also returns the revision at which
// they were read.
func (s *Store) reservations(ctx context.Context) (map[string]*ares.Reservation, int64, error) {
	list, revision, err := s.records(ctx, reservationsKey)
	all := map[string]*ares.Reservation{}
	for _, r := range list {
		all[r.name] = reservationOf(r.GetReservation(), r.name, r.revision)
	}
	return all, revision, err
}

// NoReservation is the error for a reservation that does not exist or that the caller may not see.
func NoReservation(name string) error {
	return ares.Errorf(ares.NotFound, "there is no reservation %s: list the reservations with `ares reservation list`", name).At("name")
}

func reservationRecord(r *ares.Reservation) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Reservation{Reservation: &storepb.Reservation{
		Tenant: r.Tenant, Queue: r.Queue, From: micros(r.From), Until: micros(r.Until), Nodes: r.Nodes, Selector: r.Selector, Domain: r.Domain,
		Drain: r.Drain, Force: r.Force, By: r.By, Why: r.Why, CreatedAt: micros(r.CreatedAt),
	}}}
}

func reservationOf(m *storepb.Reservation, name string, revision int64) *ares.Reservation {
	return &ares.Reservation{
		Name: name, Tenant: m.GetTenant(), Queue: m.GetQueue(), From: fromMicros(m.GetFrom()), Until: fromMicros(m.GetUntil()),
		Nodes: slices.Clone(m.GetNodes()), Selector: maps.Clone(m.GetSelector()), Domain: m.GetDomain(),
		Drain: m.GetDrain(), Force: m.GetForce(), By: m.GetBy(), Why: m.GetWhy(), CreatedAt: fromMicros(m.GetCreatedAt()), Revision: revision,
	}
}
