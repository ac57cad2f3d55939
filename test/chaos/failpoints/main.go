// Command failpoints builds .bin/failpoints/ares (`make failpoints`). The built
// program is like bin/ares, but has a failpoint at every step of a job's life.
// It can also run with a wrong wall clock. README.md lists the failpoints and
// describes how to control them.
//
// The sources on disk do not change. The comments `// gofail: var name type`
// become code only in copies that the compiler reads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/ares-scheduler/ares/test/overlay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "failpoints:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("failpoints", flag.ContinueOnError)
	root := flags.String("root", ".", "the repository")
	out := flags.String("o", ".bin/failpoints/ares", "the program to build")
	dir := flags.String("dir", "", "where the changed sources go (default: src beside the program)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		*dir = filepath.Join(filepath.Dir(*out), "src")
	}
	o, err := overlay.New(*root, *dir)
	if err != nil {
		return err
	}
	names, err := plant(o)
	if err != nil {
		return err
	}
	if err := errors.Join(shiftWallClock(o), shortenDamping(o), handOn(o)); err != nil {
		return err
	}
	if err := o.Build(ctx, *out); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d failpoints\n", *out, len(names))
	return nil
}
