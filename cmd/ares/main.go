// Command ares contains all of Ares in one program: server, node agent and command line. Links to it may have the names
// scheduler, worker and gpu-cli: see package cli.
package main

import (
	"os"
	"path/filepath"

	"github.com/ares-scheduler/ares/agent/image"
	"github.com/ares-scheduler/ares/cli"
)

func main() {
	image.RunUnpacker() // the agent starts this program again to unpack the layers of images
	os.Exit(cli.Run(filepath.Base(os.Args[0])))
}
