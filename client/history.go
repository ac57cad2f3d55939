package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// usagePage is how many rows of usage are asked for at once.
const usagePage = 10_000

// Usage sums up GPU time and cost, all pages of it.
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
		if page.PageToken = answer.GetNextPageToken(); page.PageToken == "" {
			return all, nil
		}
	}
}

// Prices lists every price, past ones too.
func (c *Client) Prices(ctx context.Context) (*apipb.ListPricesResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListPricesResponse, error) {
		return apipb.NewHistoryServiceClient(conn).ListPrices(ctx, &apipb.ListPricesRequest{})
	})
}

// SetPrice sets what an hour of a GPU costs from a day on.
func (c *Client) SetPrice(ctx context.Context, p *apipb.Price) (*apipb.Price, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.SetPriceResponse, error) {
		return apipb.NewHistoryServiceClient(conn).SetPrice(ctx, &apipb.SetPriceRequest{Price: p})
	})
	return answer.GetPrice(), err
}

// DeletePrice removes the price of a model, a region and a day.
func (c *Client) DeletePrice(ctx context.Context, model, region, from string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeletePriceResponse, error) {
		tries++
		return apipb.NewHistoryServiceClient(conn).DeletePrice(ctx, &apipb.DeletePriceRequest{GpuModel: model, Region: region, From: from})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try did it, and its answer was lost
	}
	return err
}
