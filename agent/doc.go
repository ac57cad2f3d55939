// Package agent holds a node's seats: it proves by a session that the node is
// there, claims the seats it is given, runs each under a supervisor of its own
// (package run), and reports what became of it. It dials out to a server and
// never sees the store.
//
// Its law: nothing is spawned before the claim has succeeded and while the last
// acknowledged renewal is too old; nothing is released before its death is
// verified. Who cannot renew is killed by its supervisor, agent or not.
package agent
