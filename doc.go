// Package ares is the vocabulary of the Ares scheduler: what a job, a run, a
// node, a seat and a plan are, and the one table of moves a job may make.
//
// It imports only the standard library and does no input or output. Every
// other package of the project speaks these words; none redefines them.
package ares
