// Package api is the doors of a server: gRPC, REST, server-sent events and
// WebSocket, all from the contract in package apipb. A door says who is
// asking, whether the request has the form of the contract, and translates;
// what happens is decided behind it, by control.Desk and the store.
//
// There is one way in. A REST request is decoded and then makes the same call
// a gRPC client would make, in the same process, so authentication, roles,
// validation and the shape of errors are written once (see Doors.call). Access
// is denied unless the table of methods in auth.go grants it.
//
// Answers are snake_case JSON: numbers are numbers, fences and revisions are
// strings, lists are lists even when empty, and a failure is
//
//	{"error": "what is wrong and what to do", "code": "invalid", "details": [{"field": "gpu_count", "message": "…"}]}
package api
