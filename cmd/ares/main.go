// Command ares contains all of Ares in one program: server, node agent and command line. Links to it may have the names
// scheduler, worker and gpu-cli: see package cli.
package main

import (
	"os"
	"path/filepath"

	"github.com/ares-scheduler/ares/cli"
)

func main() { os.Exit(cli.Run(filepath.Base(os.Args[0]))) }
