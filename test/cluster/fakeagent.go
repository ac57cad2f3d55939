package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/apipb"
)

// FakeAgent is a node with 8 GPUs that runs no processes. Like a real agent, a
// FakeAgent opens a session, renews the session and reads the seats assigned to
// its node.
type FakeAgent struct {
	Name     string
	Instance string
	Delay    time.Duration // before the first renewal
	Every    time.Duration // between renewals
	// If Opened is not nil, it is called when a session is open.
	Opened func()
	// If Renewed is not nil, it is called after each renewal. If Renewed
	// returns an error, the session ends. If Renewed is nil, a failed renewal
	// ends the session.
	Renewed func(sent time.Time, err error) error
	// If Seat is not nil, it is called once for each seat, each time in a new goroutine.
	Seat func(ctx context.Context, calls apipb.AgentServiceClient, ref *apipb.SessionRef, order *apipb.SeatOrder)
}

// Node returns the agent's description of its node.
func (a *FakeAgent) Node() *apipb.NodeInfo {
	n := &apipb.NodeInfo{NodeId: a.Name, Address: "127.0.0.1", CpuCores: 64, MemoryMb: 1 << 19, Mock: true, Version: "test"}
	for i := range 8 {
		n.Devices = append(n.Devices, &apipb.DeviceInfo{
			DeviceId: fmt.Sprintf("%s-gpu-%d", a.Name, i), Index: int32(i), Type: "gpu", Model: "H100", MemoryMb: 81920, Healthy: true,
		})
	}
	return n
}

// Serve keeps one session open until ctx ends or a call fails. If the parameter `files`
// is not nil, Serve also uses this client to serve files.
func (a *FakeAgent) Serve(ctx context.Context, calls, files apipb.AgentServiceClient) error {
	opening, cancel := context.WithTimeout(ctx, 5*time.Second)
	opened, err := calls.OpenSession(opening, &apipb.OpenSessionRequest{Node: a.Node(), Instance: a.Instance})
	cancel()
	if err != nil {
		return err
	}
	if a.Opened != nil {
		a.Opened()
	}
	ref := &apipb.SessionRef{NodeId: a.Name, Session: opened.GetSession()}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if files != nil {
		stream, err := files.ServeFiles(ctx)
		if err == nil {
			err = stream.Send(&apipb.ServeFilesRequest{Ref: ref})
		}
		if err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	all.Go(func() { end(a.follow(ctx, calls, ref)) })
	end(a.renew(ctx, calls, ref))
	all.Wait()
	return context.Cause(ctx)
}

// `follow` reads the seats that the server sends.
func (a *FakeAgent) follow(ctx context.Context, calls apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	var all sync.WaitGroup
	defer all.Wait()
	known := map[string]bool{}
	stream, err := calls.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: ref})
	for err == nil {
		var got *apipb.WatchSeatsResponse
		if got, err = stream.Recv(); err != nil {
			return err
		}
		for _, o := range got.GetSeats() {
			if key := fmt.Sprint(o.GetSeat()); a.Seat != nil && !known[key] {
				known[key] = true
				all.Go(func() { a.Seat(ctx, calls, ref, o) })
			}
		}
	}
	return err
}

// `renew` renews the session periodically.
func (a *FakeAgent) renew(ctx context.Context, calls apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	next := time.NewTimer(a.Delay)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		}
		next.Reset(a.Every)
		call, cancel := context.WithTimeout(ctx, a.Every)
		sent := time.Now()
		_, err := calls.RenewSession(call, &apipb.RenewSessionRequest{Ref: ref})
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if a.Renewed != nil {
			err = a.Renewed(sent, err)
		}
		if err != nil {
			return err
		}
	}
}

// Succeed returns a function for the field Seat that lets each rank start and succeed
// immediately. The returned function retries when the server is busy, and passes each
// error to the function `failed`.
func Succeed(failed func(error)) func(context.Context, apipb.AgentServiceClient, *apipb.SessionRef, *apipb.SeatOrder) {
	return func(ctx context.Context, calls apipb.AgentServiceClient, ref *apipb.SessionRef, o *apipb.SeatOrder) {
		steps := []func() error{
			func() error {
				_, err := calls.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: ref, Seat: o.GetSeat()})
				return err
			},
			func() error {
				_, err := calls.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: ref, Seat: o.GetSeat(), Result: &apipb.RankResult{Outcome: "succeeded"}})
				return err
			},
			func() error {
				_, err := calls.ReleaseSeat(ctx, &apipb.ReleaseSeatRequest{Ref: ref, Seat: o.GetSeat()})
				return err
			},
		}
		for _, step := range steps {
			for ctx.Err() == nil {
				err := step()
				if err == nil {
					break
				}
				failed(fmt.Errorf("seat %v: %w", o.GetSeat(), err))
			}
		}
	}
}
