// Command protoimports writes the .proto files that the Ares API imports.
//
// `protoimports` prints the files from the descriptors inside the Go packages that Ares links.
// With these files, buf compiles against the versions that go.mod pins for the binary. It then
// needs no schema registry.
//
// Usage: protoimports DIR
package main

import (
	"fmt"
	"os"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2/options"
	"github.com/jhump/protoreflect/desc"
	"github.com/jhump/protoreflect/desc/protoprint"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The variable `imported` lists the files that our own .proto files may import. The well-known
// types are not in the list, because buf includes them itself.
var imported = []protoreflect.FileDescriptor{
	annotations.File_google_api_annotations_proto,
	annotations.File_google_api_field_behavior_proto,
	annotations.File_google_api_http_proto,
	httpbody.File_google_api_httpbody_proto,
	validate.File_buf_validate_validate_proto,
	options.File_protoc_gen_openapiv2_options_annotations_proto,
	options.File_protoc_gen_openapiv2_options_openapiv2_proto,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protoimports DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protoimports:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	files, err := desc.WrapFiles(imported)
	if err != nil {
		return fmt.Errorf("wrap descriptors: %w", err)
	}
	return new(protoprint.Printer).PrintProtosToFileSystem(files, dir)
}
