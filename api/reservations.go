package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// reservationDoor is the ReservationService.
type reservationDoor struct {
	apipb.UnimplementedReservationServiceServer
	*Doors
}

// maxNamed is how many jobs under a reservation are named.
const maxNamed = 100

// CreateReservation implements apipb.ReservationServiceServer. The same request
// may be repeated.
func (d *reservationDoor) CreateReservation(ctx context.Context, req *apipb.CreateReservationRequest) (*apipb.CreateReservationResponse, error) {
	m := req.GetReservation()
	r, err := d.reservationOf(ctx, m)
	if err != nil {
		return nil, err
	}
	if m.GetFrom() == nil { // a repeated request for "from now" means the window that began then
		if there, unread := d.cfg.Store.Reservation(ctx, r.Name); unread == nil {
			r.From = there.From
		}
	}
	made, err := d.cfg.Store.CreateReservation(ctx, r)
	if err != nil {
		return nil, err
	}
	created(ctx, made.Tenant, made, made.CreatedAt.Equal(r.CreatedAt))
	d.seen(ctx, made.Revision)
	return &apipb.CreateReservationResponse{Reservation: d.reservation(eyesOf(ctx), &made, true)}, nil
}

// reservationOf is the reservation that a request asks for. Times are kept to
// the second.
func (d *reservationDoor) reservationOf(ctx context.Context, m *apipb.Reservation) (ares.Reservation, error) {
	now := d.cfg.Now().UTC()
	r := ares.Reservation{
		Name: m.GetName(), Tenant: m.GetTenantId(), Queue: m.GetQueue(), From: now.Truncate(time.Second), Nodes: m.GetNodes(),
		Selector: m.GetNodeSelector(), Domain: m.GetDomain(), Drain: m.GetDrain(), Force: m.GetForce(), By: caller(ctx), Why: m.GetWhy(), CreatedAt: now,
	}
	if m.GetFrom() != nil {
		r.From = m.GetFrom().AsTime().Truncate(time.Second)
	}
	if m.GetUntil() != nil {
		r.Until = m.GetUntil().AsTime().Truncate(time.Second)
	}
	if len(r.Selector) == 0 {
		r.Selector = nil
	}
	var p ares.Problems
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"created_by", m.GetCreatedBy() != ""},
		{"created_at", m.GetCreatedAt() != nil},
		{"state", m.GetState() != ""},
		{"node_count", m.GetNodeCount() != 0},
		{"reserved_nodes", len(m.GetReservedNodes()) > 0},
		{"job_count", m.GetJobCount() != 0},
		{"jobs", len(m.GetJobs()) > 0},
		{"left_running", len(m.GetLeftRunning()) > 0},
		{"warnings", len(m.GetWarnings()) > 0},
	} {
		if f.given {
			p.Add(f.name, "is not part of a request: remove it")
		}
	}
	if bad, ok := r.Check(now).(*ares.InvalidRequest); ok { //nolint:errorlint // Check makes it itself
		p = append(p, bad.Problems...)
	}
	return r, p.Err()
}

// GetReservation implements apipb.ReservationServiceServer.
func (d *reservationDoor) GetReservation(ctx context.Context, req *apipb.GetReservationRequest) (*apipb.GetReservationResponse, error) {
	r, err := d.find(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &apipb.GetReservationResponse{Reservation: d.reservation(eyesOf(ctx), &r, true)}, nil
}

func (d *reservationDoor) find(ctx context.Context, name string) (ares.Reservation, error) {
	if !ares.ValidName(name) {
		return ares.Reservation{}, ares.Errorf(ares.NotFound, "there is no reservation %q: see `ares reservation list`", clip(name)).At("name")
	}
	r, err := d.cfg.Store.Reservation(ctx, name)
	if err == nil && !eyesOf(ctx).reserved(&r) {
		return ares.Reservation{}, store.NoReservation(name)
	}
	return r, err
}

// ListReservations implements apipb.ReservationServiceServer.
func (d *reservationDoor) ListReservations(ctx context.Context, req *apipb.ListReservationsRequest) (*apipb.ListReservationsResponse, error) {
	to := eyesOf(ctx)
	all := slices.DeleteFunc(d.cfg.View.Reservations(), func(r *ares.Reservation) bool { return !to.reserved(r) })
	page, next, err := pageByID(all, req.GetPageSize(), req.GetPageToken(), func(r *ares.Reservation) string { return r.Name },
		func(r *ares.Reservation) *apipb.Reservation { return d.reservation(to, r, false) })
	return &apipb.ListReservationsResponse{Reservations: page, Total: int32(len(all)), NextPageToken: next}, err
}

// DeleteReservation implements apipb.ReservationServiceServer.
func (d *reservationDoor) DeleteReservation(ctx context.Context, req *apipb.DeleteReservationRequest) (*apipb.DeleteReservationResponse, error) {
	r, err := d.find(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	gone, err := d.cfg.Store.DeleteReservation(ctx, r.Name, r.Revision)
	if err != nil {
		return nil, err
	}
	changed(ctx, r.Tenant, r, nil)
	d.seen(ctx, gone)
	return &apipb.DeleteReservationResponse{Message: "Reservation " + r.Name + " deleted"}, nil
}

// record is a reservation in its public form, without what runs there.
func (d *Doors) record(r *ares.Reservation) *apipb.Reservation {
	return &apipb.Reservation{
		Name: r.Name, TenantId: r.Tenant, Queue: r.Queue, From: apipb.Timestamp(r.From), Until: apipb.Timestamp(r.Until), Nodes: r.Nodes,
		NodeSelector: r.Selector, Domain: r.Domain, Drain: r.Drain, Force: r.Force, Why: r.Why, CreatedBy: r.By,
		CreatedAt: apipb.Timestamp(r.CreatedAt), State: string(r.StateAt(d.cfg.Now())),
	}
}

// reservation is a reservation with what it finds on its nodes.
func (d *reservationDoor) reservation(to eyes, r *ares.Reservation, whole bool) *apipb.Reservation {
	m := d.record(r)
	found := d.cfg.View.Under(r)
	m.NodeCount = int32(len(found.Nodes))
	if whole {
		m.ReservedNodes = found.Nodes
	}
	if m.GetState() == string(ares.ReservationOver) {
		return m // its nodes are everybody's again
	}
	m.JobCount = int32(len(found.Jobs))
	m.Jobs, m.LeftRunning = d.names(to, found.Jobs, maxNamed), d.names(to, found.Enduring, maxNamed)
	for _, id := range r.Nodes {
		if _, known := slices.BinarySearch(found.Nodes, id); !known {
			m.Warnings = append(m.Warnings, fmt.Sprintf("no node is called %s yet: it is reserved when it joins", id))
		}
	}
	if len(found.Nodes) == 0 && len(r.Nodes) == 0 {
		m.Warnings = append(m.Warnings, "no node is meant by it yet: those that join later are")
	}
	return m
}
