// Package method is the table of the API's methods. The table has one row per
// RPC, with the RPC's permission, scope, audit rule, limiter, read-your-writes
// flag, body size, success status and REST routes.
//
// The package contains data and no behaviour. Authentication, authorization,
// the audit log, the limits, the REST routes and the role test all read the
// table. Each fact about a method is therefore written only once. The package
// must not depend on requests, handlers or the store.
package method
