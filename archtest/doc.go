// Package archtest holds the shape of the tree as a test: which package may
// know which, what the pure packages must not touch, and how long a function
// or a file may grow.
//
// A rule reads parsed source and answers with sentences; a tree without
// complaints is in shape. The tables are in laws.go: to change the shape,
// change them there, in the same commit as docs/architecture.md. Every rule is
// itself tested against small bad trees in testdata.
package archtest
