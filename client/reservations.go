package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// CreateReservation reserves nodes for a period of time.
func (c *Client) CreateReservation(ctx context.Context, r *apipb.Reservation) (*apipb.Reservation, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateReservationResponse, error) {
		return apipb.NewReservationServiceClient(conn).CreateReservation(ctx, &apipb.CreateReservationRequest{Reservation: r})
	})
	return answer.GetReservation(), err
}

// Reservation reads one reservation, with the jobs that run on its nodes.
func (c *Client) Reservation(ctx context.Context, name string) (*apipb.Reservation, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetReservationResponse, error) {
		return apipb.NewReservationServiceClient(conn).GetReservation(ctx, &apipb.GetReservationRequest{Name: name})
	})
	return answer.GetReservation(), err
}

// Reservations lists all reservations, page by page.
func (c *Client) Reservations(ctx context.Context) (*apipb.ListReservationsResponse, error) {
	all := &apipb.ListReservationsResponse{}
	for req := (&apipb.ListReservationsRequest{PageSize: pageSize}); ; {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListReservationsResponse, error) {
			return apipb.NewReservationServiceClient(conn).ListReservations(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		all.Reservations, all.Total = append(all.Reservations, page.GetReservations()...), page.GetTotal()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// DeleteReservation deletes a reservation.
func (c *Client) DeleteReservation(ctx context.Context, name string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeleteReservationResponse, error) {
		tries++
		return apipb.NewReservationServiceClient(conn).DeleteReservation(ctx, &apipb.DeleteReservationRequest{Name: name})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try deleted it, and its answer was lost
	}
	return err
}
