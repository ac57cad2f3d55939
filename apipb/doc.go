// Package apipb is the wire contract of Ares: protobuf messages, gRPC services
// and the REST gateway generated from them, and the translation between these
// and the vocabulary of package ares. It stands one rung above the vocabulary
// because the store keeps specs in the same form that the doors speak.
package apipb

import _ "embed"

// OpenAPI is the description of the REST contract, generated with the rest.
//
//go:embed openapi.json
var OpenAPI []byte
