// Command protoimports writes the .proto files that the Ares contract imports.
//
// They are printed from the descriptors inside the Go packages that the product
// links, so the sources buf compiles against and the code the binary runs are
// one version, pinned in go.mod, and no schema registry is asked.
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

// imported is what our own .proto files may name in an import, beyond the
// well-known types that buf carries itself.
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
