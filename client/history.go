package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// usagePage is how many rows of a usage report are requested at once.
const usagePage = 10_000

// Usage returns GPU time and cost. Usage reads all pages of the report and
// returns their rows together.
func (c *Client) Usage(ctx context.Context, req *apipb.GetUsageRequest) (*apipb.GetUsageResponse, error) {
	all := &apipb.GetUsageResponse{}
	for page := proto.CloneOf(req); ; {
		page.PageSize = usagePage
		answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetUsageResponse, error) {
			return apipb.NewHistoryServiceClient(conn).GetUsage(ctx, page)
		})
		if err != nil {
			return nil, err
		}
		all.Rows, all.Total, all.Currency = append(all.Rows, answer.GetRows()...), answer.GetTotal(), answer.GetCurrency()
		all.Status, all.ClosesAt = answer.GetStatus(), answer.GetClosesAt()
		if page.PageToken = answer.GetNextPageToken(); page.PageToken == "" {
			return all, nil
		}
	}
}

// Prices lists every price, including past ones.
func (c *Client) Prices(ctx context.Context) (*apipb.ListPricesResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListPricesResponse, error) {
		return apipb.NewHistoryServiceClient(conn).ListPrices(ctx, &apipb.ListPricesRequest{})
	})
}

// SetPrice sets the price of a GPU hour, starting on a given day.
func (c *Client) SetPrice(ctx context.Context, p *apipb.Price) (*apipb.Price, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.SetPriceResponse, error) {
		return apipb.NewHistoryServiceClient(conn).SetPrice(ctx, &apipb.SetPriceRequest{Price: p})
	})
	return answer.GetPrice(), err
}

// DeletePrice deletes a price, which is identified by model, region and first
// day.
func (c *Client) DeletePrice(ctx context.Context, model, region, from string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeletePriceResponse, error) {
		tries++
		return apipb.NewHistoryServiceClient(conn).DeletePrice(ctx, &apipb.DeletePriceRequest{GpuModel: model, Region: region, From: from})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try deleted it, and its answer was lost
	}
	return err
}
