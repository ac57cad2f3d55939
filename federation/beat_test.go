package federation_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/grant"
)

// TestBusyHub lets the hub handle one message of a member for as long as many heartbeats take. They must be answered meanwhile: the session
// goes on.
func TestBusyHub(t *testing.T) {
	b := newBeats()
	count := func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if info.FullMethod == apipb.FederationService_Connect_FullMethodName {
			b.streams.Add(1)
			stream = &serverBeats{stream, b}
		}
		return handler(srv, stream)
	}
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(count))
		h.authenticate = b.await
	})
	newMember(t, h, "a").awaitMode(grant.Federated)
	b.checkOneStream(t)
}

// TestBusyMember lets a member look at an offer for as long as many heartbeats take. It must send them and note their answers
// meanwhile.
func TestBusyMember(t *testing.T) {
	b := newBeats()
	h := newHub(t)
	a := newMember(t, h, "a", func(m *member) {
		m.wire.options = append(m.wire.options, b.count())
		m.admit = func(ctx context.Context, _ *ares.Job) error { return b.await(ctx, "") }
	})
	close(a.gate)
	h.await(h.submit(), ares.Succeeded)
	b.checkOneStream(t)
}

// Beats counts the sessions between a hub and a member, and the heartbeats, or answers to them, that one side has received.
type beats struct {
	streams, received atomic.Int64
	news              chan struct{}
}

func newBeats() *beats { return &beats{news: make(chan struct{}, 1)} }

// The method `count` lets a member's connections count its sessions and the answers to its heartbeats.
func (b *beats) count() grpc.DialOption {
	return grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, conn, method, opts...)
		if err != nil || method != apipb.FederationService_Connect_FullMethodName {
			return stream, err
		}
		b.streams.Add(1)
		return &clientBeats{stream, b}, nil
	})
}

// The method `await` waits for so many heartbeats that a side which handles none would have lost its session.
func (b *beats) await(ctx context.Context, _ string) error {
	for b.received.Load() < 3*grant.Missed {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.news:
		}
	}
	return nil
}

func (b *beats) note() {
	b.received.Add(1)
	select {
	case b.news <- struct{}{}:
	default:
	}
}

func (b *beats) checkOneStream(t *testing.T) {
	t.Helper()
	if n := b.streams.Load(); n != 1 {
		t.Errorf("the member has opened %d sessions, want one", n)
	}
}

type serverBeats struct {
	grpc.ServerStream
	*beats
}

func (s *serverBeats) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if message, ok := m.(*apipb.MemberMessage); ok && message.GetHeartbeat() != nil {
		s.note()
	}
	return err
}

type clientBeats struct {
	grpc.ClientStream
	*beats
}

func (s *clientBeats) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if message, ok := m.(*apipb.HubMessage); ok && message.GetHeartbeat() != nil {
		s.note()
	}
	return err
}
