// Command mutations takes one safeguard at a time out of Ares and wants a test
// to fail: a promise that no test would miss is only a sentence.
//
//	make mutations                 # every mutation, as a table
//	make mutations ONLY=R5         # those whose name holds R5
//
// A mutation is a few replacements of exact text, seen by the compiler only
// (package overlay), and the test that must notice. That test passes without
// the mutation; with it, it must fail and say what the mutation expects, so that
// neither a compile error nor another failure counts. A mutation that survives
// is a missing test.
//
// A plain `go test` of this package runs none of them. It checks that each still
// fits the source, compiles, and names a test that exists, so that the list
// cannot rot. When one no longer fits, move it to where its safeguard went; when
// the safeguard went nowhere, that is the finding.
package main
