package rest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The type `direct` is a connection from the REST gateway to the services in the same process. It runs the
// same interceptor as the gRPC server, but without an extra goroutine, encoding or HTTP/2.
type direct struct {
	unary   grpc.UnaryServerInterceptor
	methods map[string]directMethod
}

type directMethod struct {
	service any
	handler grpc.MethodHandler
}

// RegisterService implements grpc.ServiceRegistrar.
func (c *direct) RegisterService(desc *grpc.ServiceDesc, service any) {
	for _, m := range desc.Methods {
		c.methods["/"+desc.ServiceName+"/"+m.MethodName] = directMethod{service, m.Handler}
	}
}

// Invoke implements grpc.ClientConnInterface.
func (c *direct) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	m, ok := c.methods[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "the API has no method %s", method)
	}
	setMask(ctx, args)
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx = metadata.NewIncomingContext(ctx, md)
	resp, err := m.handler(m.service, ctx, func(in any) error { return move(in, args) }, c.unary)
	if err != nil {
		return err
	}
	return move(reply, resp)
}

// NewStream implements grpc.ClientConnInterface. NewStream always fails,
// because no streaming method has a generated REST route.
func (c *direct) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Errorf(codes.Unimplemented, "%s is a streaming method, which this REST gateway does not support", method)
}

// The function `move` copies all fields from `src` to `dst`. The caller must not use `src` afterwards,
// because both messages share their values.
func move(dst, src any) error {
	to, ok := dst.(proto.Message)
	from, same := src.(proto.Message)
	if !ok || !same || to.ProtoReflect().Descriptor() != from.ProtoReflect().Descriptor() {
		return status.Errorf(codes.Internal, "a message of type %T cannot be copied to type %T", src, dst)
	}
	from.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.ProtoReflect().Set(fd, v)
		return true
	})
	return nil
}
