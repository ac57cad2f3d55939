// Package federation connects clusters. A Hub accepts jobs for several member clusters and decides which of them may start
// each job. An Uplink connects a member to its hub: it claims jobs that the hub offers, and reports what becomes of them.
// Both are parts of a server. The rules are in package grant. Every decision is a transaction of the store on the side that
// makes it, so any server can continue the work of another one.
//
// Nothing on a member's own path waits for the hub: a claimed job is an ordinary job of the member, and is scheduled, run
// and ended while the hub cannot be reached.
package federation
