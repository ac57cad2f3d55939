// Package session measures sessions of users with jobs through one server and through two: from a key to its echo on a terminal, and the rate of ares forward,
// and how old the lease of a job becomes meanwhile.
package session
