// Package archtest checks the structure of the source tree: which packages may
// import which (the layers of the components and the ranks inside engine), what
// the pure packages must not use, how large a function, a file and a package may
// be, and whether docs/architecture.md names every package.
//
// A rule reads parsed source and returns its problems, one sentence each. The
// tables that the rules read are in tables.go: to change the structure, change
// them in the same commit as docs/architecture.md. Every rule is tested against
// small bad trees in testdata.
//
// To print the files, the largest cycle of files and the largest struct of each
// package of engine:
//
//	go test ./archtest -run TestTree -v
//
// To print what holds a cycle of files together:
//
//	go run ./archtest/filegraph -edges engine/queue
package archtest
