// Package archtest checks the structure of the source tree. The rules limit
// which packages a package may import, what the pure packages may use, and
// how large functions, files and packages may be. Other rules require that
// docs/design/architecture.md names every package, and that every link in
// the documentation works.
//
// A rule reads parsed source code and returns the problems it finds, one sentence
// each. The tables that the rules read are in tables.go. To change the
// structure, change these tables and docs/design/architecture.md in the same
// commit. Every rule is tested against small faulty source trees in testdata.
//
// To print the files, the largest cycle of files and the largest struct of each
// package of engine:
//
//	go test ./archtest -run TestTree -v
//
// To print the references that form a cycle of files:
//
//	go run ./archtest/filegraph -edges engine/queue
package archtest
