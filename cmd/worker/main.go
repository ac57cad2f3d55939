// Command worker runs a node agent, and a server if none runs. It is the program ares under the
// name worker.
package main

import (
	"os"

	"github.com/ares-scheduler/ares/cli"
)

func main() { os.Exit(cli.Run("worker")) }
