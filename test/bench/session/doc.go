// Package session measures sessions of users with jobs through two servers: from a key to its echo on a terminal, and the rate of ares forward,
// and how old the lease of a job becomes meanwhile.
package session
