// Command mutations removes one safeguard at a time from Ares and expects a test
// to fail. If no test fails, a test for the safeguard is missing.
//
//	make mutations                 # every mutation, as a table
//	make mutations ONLY=R5         # those whose name holds R5
//
// A mutation consists of a few exact text replacements and the name of the test
// that must fail. Only the compiler sees the replacements (see package overlay).
// The named test passes without the mutation. With the mutation, the test must
// fail with the expected message. A compile error or another failure does not
// count. If the named test passes with the mutation, the safeguard is not
// tested.
//
// A plain `go test` of this package runs no mutation. A plain `go test` only
// checks that each mutation still applies to the source and compiles. It also
// checks that the named test exists. When a mutation no longer applies, move it
// to the new location of its safeguard. If the safeguard no longer exists,
// report that as a defect.
package main
