// Package apipb is the wire contract of Ares. The package contains the protobuf messages, and the
// gRPC services and the REST gateway that are generated from them. It also translates messages to
// and from the types of package ares. Package apipb is only one layer above package ares. The
// store uses package apipb too, because it saves job specs in the same form as the API.
package apipb

import _ "embed"

// OpenAPI is the generated description of the REST API.
//
//go:embed openapi.json
var OpenAPI []byte
