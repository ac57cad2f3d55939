// Package ares defines the terms of the Ares scheduler: job, run, node, seat and plan. Package ares also contains the
// table of all transitions that a job may make. No other package has such a table.
//
// Package ares imports only the standard library and does no input or output. Every other package uses
// the types of package ares and does not redefine them.
package ares
