// Package rest serves the API as JSON over HTTP. Package rest checks host,
// origin and body, calls the handlers through the generated gateway in the same
// process, and writes events, logs and dumps as streams. Each call passes
// through the same pipeline as a gRPC call.
package rest
