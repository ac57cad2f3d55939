// Package api serves the API that package apipb defines, over gRPC, REST,
// server-sent events and WebSocket. This package only wires the parts of one
// server:
//
//   - package method has a row of facts per RPC: permission, scope, audit rule, limiter, routes;
//   - package pipeline is the list of steps that every call passes;
//   - package service has the handlers, such as jobService for JobService;
//   - package rest decodes a REST request and sends it through the same pipeline steps, in the same process.
//
// Package api makes no scheduling decisions: package control makes them, and
// the store records them.
//
// Answers are snake_case JSON: numbers are numbers, fences and revisions are
// strings, lists are lists even when empty, and a failure is
//
//	{"error": "what is wrong and what to do", "code": "invalid", "details": [{"field": "gpu_count", "message": "…"}]}
package api
