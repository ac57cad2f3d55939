package pipeline

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
)

// counting is a connection that counts the bytes of the answers that wait for its client.
type counting struct {
	noConnection
	bytes int
}

func (c *counting) Sending(bytes int, _ func(func(error)) *Transfer) { c.bytes += bytes }

// registered keeps the description of a service.
type registered struct{ desc *grpc.ServiceDesc }

func (r *registered) RegisterService(desc *grpc.ServiceDesc, _ any) { r.desc = desc }

// TestOnlySentAnswersWait checks which answers count as bytes that wait for a client. An answer that gRPC never sends must not
// count, because nothing would ever subtract it, and the connection of an honest client would be closed.
func TestOnlySentAnswersWait(t *testing.T) {
	small := &apipb.PutSecretRequest{Name: "hub"}
	large := &apipb.PutSecretRequest{Data: map[string][]byte{"value": make([]byte, MaxAnswer)}}
	for _, c := range []struct {
		name      string
		answer    proto.Message
		err       error
		cancelled bool
		want      int
	}{
		{"an answer", small, nil, false, proto.Size(small)},
		{"an error", nil, errors.New("no"), false, 0},
		{"a call that its client has cancelled", small, nil, true, 0},
		{"an answer that is too large", large, nil, false, 0},
	} {
		var to registered
		(&Pipeline{}).Guard(&to).RegisterService(&grpc.ServiceDesc{ServiceName: "test", Methods: []grpc.MethodDesc{{
			MethodName: "Test",
			Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
				return c.answer, c.err
			},
		}}}, nil)
		var out counting
		ctx, cancel := context.WithCancel(WithConnection(t.Context(), &out))
		if c.cancelled {
			cancel()
		}
		_, err := to.desc.Methods[0].Handler(nil, ctx, nil, nil)
		cancel()
		if !errors.Is(err, c.err) || out.bytes != c.want {
			t.Errorf("%s: %d bytes wait, want %d; %v", c.name, out.bytes, c.want, err)
		}
	}
}
