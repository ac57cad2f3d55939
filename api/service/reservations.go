package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// reservationService implements ReservationService.
type reservationService struct {
	apipb.UnimplementedReservationServiceServer
	*Services
}

// maxNamed is the maximum number of jobs that an answer names for one
// reservation.
const maxNamed = 100

// CreateReservation implements apipb.ReservationServiceServer. Repeating an identical request
// changes nothing.
func (d *reservationService) CreateReservation(ctx context.Context, req *apipb.CreateReservationRequest) (*apipb.CreateReservationResponse, error) {
	m := req.GetReservation()
	r, err := d.reservationOf(ctx, m)
	if err != nil {
		return nil, err
	}
	if m.GetFrom() == nil { // the repeated request had no start time, so use the start time of the existing reservation
		if there, unread := d.Cfg.Store.Reservation(ctx, r.Name); unread == nil {
			r.From = there.From
		}
	}
	made, err := d.Cfg.Store.CreateReservation(ctx, r)
	if err != nil {
		return nil, err
	}
	pipeline.AuditCreation(ctx, made.Tenant, made, made.CreatedAt.Equal(r.CreatedAt))
	d.WaitForView(ctx, made.Revision)
	return &apipb.CreateReservationResponse{Reservation: d.reservation(visibilityOf(ctx), &made, true)}, nil
}

// reservationOf converts the reservation in a request to its internal form.
// Start and end times are stored in whole seconds.
func (d *reservationService) reservationOf(ctx context.Context, m *apipb.Reservation) (ares.Reservation, error) {
	now := d.Cfg.Now().UTC()
	r := ares.Reservation{
		Name: m.GetName(), Tenant: m.GetTenantId(), Queue: m.GetQueue(), From: now.Truncate(time.Second), Nodes: m.GetNodes(),
		Selector: m.GetNodeSelector(), Domain: m.GetDomain(), Drain: m.GetDrain(), Force: m.GetForce(), By: pipeline.CallerName(ctx), Why: m.GetWhy(), CreatedAt: now,
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
func (d *reservationService) GetReservation(ctx context.Context, req *apipb.GetReservationRequest) (*apipb.GetReservationResponse, error) {
	r, err := d.find(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &apipb.GetReservationResponse{Reservation: d.reservation(visibilityOf(ctx), &r, true)}, nil
}

func (d *reservationService) find(ctx context.Context, name string) (ares.Reservation, error) {
	if !ares.ValidName(name) {
		return ares.Reservation{}, ares.Errorf(ares.NotFound, "there is no reservation %q: list the reservations with `ares reservation list`", ares.Clip(name)).At("name")
	}
	r, err := d.Cfg.Store.Reservation(ctx, name)
	if err == nil && !visibilityOf(ctx).reserved(&r) {
		return ares.Reservation{}, store.NoReservation(name)
	}
	return r, err
}

// ListReservations implements apipb.ReservationServiceServer.
func (d *reservationService) ListReservations(ctx context.Context, req *apipb.ListReservationsRequest) (*apipb.ListReservationsResponse, error) {
	to := visibilityOf(ctx)
	all := slices.DeleteFunc(d.Cfg.View.Reservations(), func(r *ares.Reservation) bool { return !to.reserved(r) })
	page, next, err := PageByID(all, req.GetPageSize(), req.GetPageToken(), func(r *ares.Reservation) string { return r.Name },
		func(r *ares.Reservation) *apipb.Reservation { return d.reservation(to, r, false) })
	return &apipb.ListReservationsResponse{Reservations: page, Total: int32(len(all)), NextPageToken: next}, err
}

// DeleteReservation implements apipb.ReservationServiceServer.
func (d *reservationService) DeleteReservation(ctx context.Context, req *apipb.DeleteReservationRequest) (*apipb.DeleteReservationResponse, error) {
	r, err := d.find(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	gone, err := d.Cfg.Store.DeleteReservation(ctx, r.Name, r.Revision)
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, r.Tenant, r, nil)
	d.WaitForView(ctx, gone)
	return &apipb.DeleteReservationResponse{Message: "Reservation " + r.Name + " deleted"}, nil
}

// The method `record` converts a reservation to its public form, without the jobs on its
// nodes.
func (d *Services) record(r *ares.Reservation) *apipb.Reservation {
	return &apipb.Reservation{
		Name: r.Name, TenantId: r.Tenant, Queue: r.Queue, From: apipb.Timestamp(r.From), Until: apipb.Timestamp(r.Until), Nodes: r.Nodes,
		NodeSelector: r.Selector, Domain: r.Domain, Drain: r.Drain, Force: r.Force, Why: r.Why, CreatedBy: r.By,
		CreatedAt: apipb.Timestamp(r.CreatedAt), State: string(r.StateAt(d.Cfg.Now())),
	}
}

// The method `reservation` converts a reservation to its public form, with the jobs on its
// nodes.
func (d *reservationService) reservation(to Visibility, r *ares.Reservation, whole bool) *apipb.Reservation {
	m := d.record(r)
	found := d.Cfg.View.OccupancyOf(r)
	m.NodeCount = int32(len(found.Nodes))
	if whole {
		m.ReservedNodes = found.Nodes
	}
	if m.GetState() == string(ares.ReservationOver) {
		return m // it has ended, so its nodes are free for everybody
	}
	m.JobCount = int32(len(d.names(to, found.Jobs, len(found.Jobs)))) // the jobs of other tenants are not counted for a tenant
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
