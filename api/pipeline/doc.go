// Package pipeline runs every call of the API through the same steps:
// authenticate, limit, validate, resolve the tenant, authorize, run the
// handler, and write the audit log. The steps are the same for gRPC and REST,
// and for single requests and streams. To understand the package, read the list
// of steps in pipeline.go first. The method's row in package method says what
// each step does for a call, so the steps do not depend on handlers or routes.
package pipeline
