package apipb_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// FuzzConvert translates arbitrary protobuf messages, because the checks for JSON do not apply to gRPC
// requests. No information may be lost when a message is translated to package ares and back, and every
// accepted job must be printable as JSON.
func FuzzConvert(f *testing.F) {
	gang, four := true, int32(4)
	node := &apipb.NodeInfo{
		NodeId: "n", Devices: []*apipb.DeviceInfo{{DeviceId: "g", Numa: -1, Healthy: true}}, Links: []*apipb.LinkRow{{To: []string{"X"}}, {}},
		Labels: map[string]string{"a": "b"}, SessionTtlSeconds: -5,
	}
	for _, m := range []proto.Message{
		node, &apipb.JobSpec{},
		&apipb.JobSpec{Command: []string{"x"}, Array: &apipb.Array{Parallelism: 1}, Placement: &apipb.Placement{}, Retry: &apipb.RetryPolicy{}},
		&apipb.JobSpec{Command: []string{"x"}, GangScheduling: &gang, Priority: &four, Environment: map[string]string{"": ""}, Checkpoint: &apipb.Checkpoint{Path: "/"}},
		&apipb.JobSpec{Command: []string{"x"}, Deadline: &timestamppb.Timestamp{Seconds: 1 << 60, Nanos: -1}},
		&apipb.JobSpec{Command: []string{"x"}, Deadline: &timestamppb.Timestamp{Seconds: -62135596801}},
		&apipb.JobSpec{Command: []string{"x"}, Placement: &apipb.Placement{Regions: []string{""}, NodeSelector: map[string]string{"a": "b"}}},
		&apipb.JobSpec{Command: []string{"x"}, Placement: &apipb.Placement{NodeRequirements: []*apipb.NodeRequirement{{Key: "a", Operator: "In", Values: []string{"b", ""}}, {}}}},
		&apipb.JobSpec{Command: []string{"x"}, Placement: &apipb.Placement{NodeAffinity: []string{"a in (b)"}, PreferredNodeAffinity: []string{"!c"}, Affinity: []string{"a=b @leaf"}, AntiAffinity: []string{"c=d"}, PreferredAntiAffinity: []string{"e=f @zone"}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var info apipb.NodeInfo
		if proto.Unmarshal(data, &info) == nil {
			n := info.Node()
			info.ProtoReflect().SetUnknown(nil)
			back := apipb.NewNodeInfo(&n)
			for _, list := range [][]*apipb.DeviceInfo{info.GetDevices(), back.GetDevices()} {
				for _, d := range list {
					d.ProtoReflect().SetUnknown(nil)
				}
			}
			for _, row := range info.GetLinks() {
				row.ProtoReflect().SetUnknown(nil)
			}
			for _, part := range info.GetNuma() {
				part.ProtoReflect().SetUnknown(nil)
			}
			for _, taint := range info.GetTaints() {
				taint.ProtoReflect().SetUnknown(nil)
			}
			if !proto.Equal(&info, back) {
				t.Fatalf("a node changed on the way:\n%v\n%v", &info, back)
			}
		}
		var m apipb.JobSpec
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		spec := m.Spec()
		wire := apipb.NewJobSpec(&spec)
		again := wire.Spec()
		if !proto.Equal(apipb.NewJobSpec(&again), wire) || ares.DigestOf(again) != ares.DigestOf(spec) {
			t.Fatalf("a spec changed on the way:\n%+v\n%+v", spec, again)
		}
		if again.Array != spec.Array || again.Checkpoint != spec.Checkpoint || !again.Deadline.Equal(spec.Deadline) {
			t.Fatalf("a part of a spec was lost on the way:\n%+v\n%+v", spec, again)
		}
		if spec.Check() != nil {
			return
		}
		full := spec.WithDefaults()
		if _, err := protojson.Marshal(apipb.NewJobSpec(&full)); err != nil {
			t.Fatalf("an accepted job cannot be shown: %v", err)
		}
	})
}

// FuzzStatus reads the status of a failed call from an untrusted server. The status becomes an ares error.
// Another server must be able to forward this error with the same code and within the size limits.
func FuzzStatus(f *testing.F) {
	info, err1 := anypb.New(&errdetails.ErrorInfo{Reason: "conflict", Domain: "ares"})
	bad, err2 := anypb.New(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "a", Description: "b"}, {Field: "c"}}})
	if err := errors.Join(err1, err2); err != nil {
		f.Fatal(err)
	}
	for _, s := range []*spb.Status{
		{},
		{Code: 3, Message: "x", Details: []*anypb.Any{info, bad}},
		{Code: 3, Details: []*anypb.Any{bad}},
		{Code: 9, Message: "\x00", Details: []*anypb.Any{nil, {TypeUrl: "?", Value: []byte{1}}}},
		{Code: -1, Message: strings.Repeat("ü", 2000)},
		{Code: 14, Message: `connection error: desc = "transport: Error while dialing: dial tcp"`},
		{Code: 8, Message: "larger than max"},
		{Code: 1},
		{Code: 4},
		{Code: 12, Message: "m"},
		{Code: 99},
	} {
		data, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	retry := status.Convert(apipb.WithRetryAfter(ares.Errorf(ares.Exhausted, "slow down"), 3*time.Second))
	data, err := proto.Marshal(retry.Proto())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var s spb.Status
		if proto.Unmarshal(data, &s) != nil {
			return
		}
		wire := status.FromProto(&s).Err()
		if apipb.RetryAfter(wire) < 0 {
			t.Fatalf("wait for %s", apipb.RetryAfter(wire))
		}
		got := apipb.FromStatus(wire)
		if wire == nil {
			if got != nil {
				t.Fatalf("success is read as %v", got)
			}
			return
		}
		if ares.CodeOf(got) == "" || !utf8.ValidString(got.Error()) {
			t.Fatalf("%v is read as %v", wire, got)
		}
		if e, ok := errors.AsType[*ares.Error](got); !ok {
			t.Fatalf("%v is read as %v, which is not of the vocabulary", wire, e)
		}
		sent := apipb.ToStatus(got)
		if back := ares.CodeOf(apipb.FromStatus(sent)); back != ares.CodeOf(got) {
			t.Fatalf("%s came back as %s", ares.CodeOf(got), back)
		}
		if n := proto.Size(status.Convert(sent).Proto()); n > 12<<10 {
			t.Fatalf("a refusal of %d bytes does not fit into trailers", n)
		}
	})
}
