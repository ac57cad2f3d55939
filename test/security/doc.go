// Package security attacks a real server with a table of attempts. The attacker
// is another tenant, an unauthorized node, or somebody on the network. The
// package also searches for planted secrets in everything that Ares writes.
// Every attempt must be rejected, reveal nothing, change nothing, and be in the
// audit log.
package security
