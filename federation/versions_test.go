package federation_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store/storepb"
)

// TestVersions repeats tests with a hub of the next version and clusters of this one, and the other way round. Everything
// that the later side sends has unknown fields, and there are messages of an unknown kind between the others.
func TestVersions(t *testing.T) {
	for _, side := range []string{laterHub, laterCluster} {
		t.Run(side, func(t *testing.T) {
			for name, scenario := range map[string]func(*testing.T){
				"jobs": TestChooser, "cancel": TestCancel, "return": TestReturn, "taken": TestTaken, "link cut": TestLinkCut,
				"hub restored": TestHubRestored, "cluster restored": TestMemberRestored, "declared dead": TestDeclaredDead,
			} {
				t.Run(name, scenario)
			}
		})
	}
}

// TestUnreadableJob submits a job to a hub of the next version that this version must not misread. The cluster must leave
// it alone, and must go on with the other jobs in the same session.
func TestUnreadableJob(t *testing.T) {
	h := newHub(t, func(h *hub) { h.options = append(h.options, grpc.StreamInterceptor(laterServer)) })
	a := newMember(t, h, "a")
	close(a.gate)
	unreadable := h.submit(func(s *ares.Spec) { s.Name = unreadableName })
	controltest.Await(t, h.view, "an offer", func() bool {
		grants, _, err := h.s.Grants(t.Context())
		return err == nil && len(grants) == 1 && grants[0].Job == unreadable
	})
	h.await(h.submit(), ares.Succeeded)
	if e := h.view.Job(unreadable); e.Run.Phase != ares.Pending || a.view.Job(unreadable) != nil {
		t.Errorf("a job that the cluster cannot read is %s", e.Run.Phase)
	}
	if mode, _, why := a.uplink.Mode(); mode != grant.Federated || why != "" {
		t.Errorf("the cluster is %s: %s", mode, why)
	}
}

// These subtests of TestVersions run one side as the next version: newHub and newIdleMember look for them in a test's name.
const (
	laterHub     = "later hub"
	laterCluster = "later cluster"
)

func isLater(t *testing.T, side string) bool {
	return strings.HasPrefix(t.Name(), "TestVersions/"+strings.ReplaceAll(side, " ", "_")+"/")
}

// laterServer and laterClient are a hub and a member of the next version.
func laterServer(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(srv, &laterServerStream{stream})
}

func laterClient(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &laterClientStream{stream}, nil
}

type laterServerStream struct{ grpc.ServerStream }

func (s *laterServerStream) SendMsg(m any) error { return sendLater(s.ServerStream.SendMsg, m) }

type laterClientStream struct{ grpc.ClientStream }

func (s *laterClientStream) SendMsg(m any) error { return sendLater(s.ClientStream.SendMsg, m) }

// sendLater sends a message of an unknown kind, and then the given message with unknown fields in all its parts.
func sendLater(send func(any) error, m any) error {
	out := proto.Clone(m.(proto.Message)).ProtoReflect()
	unknown := out.New()
	unknown.SetUnknown(laterField)
	if err := send(unknown.Interface()); err != nil {
		return err
	}
	if err := makeLater(out); err != nil {
		return err
	}
	return send(out.Interface())
}

// laterField is a field that no message of this version has: a message with a text.
var laterField = protowire.AppendBytes(protowire.AppendTag(nil, 500, protowire.BytesType), protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "of the next version"))

const (
	laterProtocol  = 2
	unreadableName = "unreadable"
)

// makeLater adds an unknown field to a message and its parts, also to those that it has as bytes, and raises the protocol.
func makeLater(m protoreflect.Message) (failed error) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				failed = cmpErr(failed, makeLater(v.List().Get(i).Message()))
			}
		case f.Message() != nil:
			failed = cmpErr(failed, makeLater(v.Message()))
		case f.Name() == "protocol":
			m.Set(f, protoreflect.ValueOfInt32(laterProtocol))
		case f.Kind() == protoreflect.BytesKind:
			if part := partOf(f.Name()); part != nil {
				data, err := remake(part, v.Bytes())
				failed = cmpErr(failed, err)
				m.Set(f, protoreflect.ValueOfBytes(data))
			}
		}
		return true
	})
	if r, ok := m.Interface().(*storepb.Record); ok && r.GetJob().GetSpec().GetName() == unreadableName {
		r.MinReader = 1 << 20
	}
	m.SetUnknown(append(append(protoreflect.RawFields{}, m.GetUnknown()...), laterField...))
	return failed
}

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// partOf returns an empty message of the kind that a field has as bytes, or nil.
func partOf(field protoreflect.Name) proto.Message {
	switch field {
	case "job", "run":
		return &storepb.Batch{}
	case "value", "record":
		return &storepb.Record{}
	case "description":
		return &apipb.ClusterDescription{}
	case "summary":
		return &apipb.ClusterSummary{}
	}
	return nil
}

func remake(part proto.Message, data []byte) ([]byte, error) {
	if err := proto.Unmarshal(data, part); err != nil {
		return nil, err
	}
	if err := makeLater(part.ProtoReflect()); err != nil {
		return nil, err
	}
	return proto.Marshal(part)
}
