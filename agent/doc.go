// Package agent runs a node's seats. The agent keeps the node's session alive, claims the seats that are allocated on the node, runs
// each seat under its own supervisor (package run), and reports the results. The agent connects to a server and never accesses the
// store.
//
// The agent starts a seat's process only after the seat's claim has succeeded, and only if the last acknowledged renewal is recent enough.
// The agent releases no seat before it has verified that all processes of the seat have ended. If the node cannot renew its session, each
// supervisor kills its job, even if no agent is running.
package agent
