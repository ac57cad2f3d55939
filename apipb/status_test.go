package apipb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

func TestCodesSurviveTheWire(t *testing.T) {
	statuses := map[ares.Code]codes.Code{
		ares.Invalid: codes.InvalidArgument, ares.NotFound: codes.NotFound, ares.Conflict: codes.Aborted,
		ares.Fenced: codes.FailedPrecondition, ares.TooLarge: codes.OutOfRange,
		ares.Exhausted: codes.ResourceExhausted, ares.Unavailable: codes.Unavailable,
		ares.Unauthentic: codes.Unauthenticated, ares.Forbidden: codes.PermissionDenied, ares.Internal: codes.Internal,
	}
	for _, code := range ares.Codes() {
		want, listed := statuses[code]
		if code.Rejects() {
			want, listed = codes.FailedPrecondition, true
		}
		if !listed {
			t.Errorf("%s has no status here", code)
		}
		sent := fmt.Errorf("serve: %w", ares.Errorf(code, "because %s", code).At("name"))
		wire := apipb.ToStatus(sent)
		if status.Code(wire) != want {
			t.Errorf("%s became %s, want %s", code, status.Code(wire), want)
		}
		got, ok := errors.AsType[*ares.Error](apipb.FromStatus(wire))
		if !ok || got.Code != code || got.Field != "name" || got.Message != "because "+string(code) {
			t.Errorf("%s came back as %+v", code, got)
		}
	}
}

func TestEveryFieldTravels(t *testing.T) {
	var p ares.Problems
	p.Add("command", "is required")
	p.Add("gpu_count", "must be between 0 and 1024, got %d", -1)
	back := apipb.FromStatus(apipb.ToStatus(p.Err()))
	if back.Error() != p.Err().Error() || ares.CodeOf(back) != ares.Invalid {
		t.Errorf("got %q, want %q", back, p.Err())
	}
	for range 1000 {
		p.Add("environment", "%s", strings.Repeat("x", 100)+"\xff")
	}
	wire := apipb.ToStatus(p.Err())
	if n := len(status.Convert(wire).Message()); n > 3000 {
		t.Errorf("a refusal of %d bytes does not fit into trailers", n)
	}
	if ares.CodeOf(apipb.FromStatus(wire)) != ares.Invalid {
		t.Error("the code was lost with the long message")
	}
}

func TestStatusOfOthers(t *testing.T) {
	for grpcCode, want := range map[codes.Code]ares.Code{
		codes.InvalidArgument: ares.Invalid, codes.AlreadyExists: ares.Conflict, codes.Aborted: ares.Conflict,
		codes.FailedPrecondition: ares.Fenced, codes.ResourceExhausted: ares.Exhausted, codes.DeadlineExceeded: ares.Unavailable,
		codes.Canceled: ares.Unavailable, codes.Unimplemented: ares.Internal, codes.Unknown: ares.Internal, codes.DataLoss: ares.Internal,
	} {
		if got := ares.CodeOf(apipb.FromStatus(status.Error(grpcCode, "x"))); got != want {
			t.Errorf("%s became %s, want %s", grpcCode, got, want)
		}
	}
	if !errors.Is(apipb.FromStatus(status.Error(codes.Canceled, "")), context.Canceled) {
		t.Error("a cancelled call is not context.Canceled")
	}
	big := status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)")
	if ares.CodeOf(apipb.FromStatus(big)) != ares.TooLarge {
		t.Error("gRPC's size limit is not too_large")
	}
}

func TestInternalTextStaysHome(t *testing.T) {
	wire := apipb.ToStatus(errors.New("dial etcd at 10.0.0.3: secret"))
	if status.Code(wire) != codes.Internal || strings.Contains(wire.Error(), "secret") {
		t.Errorf("got %v", wire)
	}
	if apipb.ToStatus(nil) != nil || apipb.FromStatus(nil) != nil || !errors.Is(apipb.FromStatus(io.EOF), io.EOF) {
		t.Error("nil and foreign errors must pass")
	}
	kept := apipb.ToStatus(status.Error(codes.Unavailable, "no leader"))
	if status.Code(kept) != codes.Unavailable {
		t.Errorf("a status became %v", kept)
	}
	if status.Code(apipb.ToStatus(fmt.Errorf("read: %w", context.DeadlineExceeded))) != codes.DeadlineExceeded {
		t.Error("a deadline is not DeadlineExceeded")
	}
}

func TestRetryAfter(t *testing.T) {
	wire := apipb.WithRetryAfter(ares.Errorf(ares.Exhausted, "slow down"), 3*time.Second)
	if apipb.RetryAfter(wire) != 3*time.Second || ares.CodeOf(apipb.FromStatus(wire)) != ares.Exhausted {
		t.Errorf("got %v", apipb.RetryAfter(wire))
	}
	if apipb.RetryAfter(io.EOF) != 0 || apipb.RetryAfter(nil) != 0 || apipb.WithRetryAfter(nil, time.Second) != nil {
		t.Error("no hint must be 0")
	}
}
