// Command ares contains all of Ares in one program: server, node agent and command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ares-scheduler/ares/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the program immediately
	}()
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
