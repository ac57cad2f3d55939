//go:build linux && embed_supervisor

package run

import _ "embed"

// The Makefile builds supervisor.bin from cmd/ares-supervisor before it builds this.
//
//go:embed supervisor.bin
var supervisorBinary []byte

// Supervisor gives the path of the supervisor program. This binary contains it; it is
// written to dir once.
func Supervisor(dir string) (string, error) { return unpack(dir, supervisorBinary) }
