//go:build linux && embed_supervisor

package run

import _ "embed"

// The Makefile builds supervisor.bin from cmd/ares-supervisor before it builds this package.
//
//go:embed supervisor.bin
var supervisorBinary []byte

// Supervisor returns the path of the supervisor program. This binary contains the supervisor program and writes it to
// the directory `dir` once.
func Supervisor(dir string) (string, error) { return unpack(dir, supervisorBinary) }
