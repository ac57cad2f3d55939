// Command scheduler runs a server, or submits a test job to a running one. It is the program ares under the
// name scheduler.
package main

import (
	"os"

	"github.com/ares-scheduler/ares/cli"
)

func main() { os.Exit(cli.Run("scheduler")) }
