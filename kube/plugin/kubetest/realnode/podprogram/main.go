// Podprogram is the only program in the images of a real node's pods: it plays the sandbox, and a job that uses GPUs.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "pause":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
		return nil
	case len(args) == 2 && args[0] == "train":
		return train(args[1])
	}
	return fmt.Errorf("unknown arguments %q: write pause, or train FILE", args)
}

// train checks that the devices are there which the device plugin promises, writes their IDs into the termination
// message, and ends when the file exists.
func train(file string) error {
	ids := os.Getenv("ARES_TEST_GPUS")
	if ids == "" {
		return errors.New("ARES_TEST_GPUS is empty: the device plugin or the DRA driver sets it")
	}
	for id := range strings.SplitSeq(ids, ",") {
		info, err := os.Stat("/dev/" + id)
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeCharDevice == 0 {
			return fmt.Errorf("/dev/%s is no device: its mode is %s", id, info.Mode())
		}
	}
	if err := os.WriteFile("/dev/termination-log", []byte(ids), 0o600); err != nil {
		return err
	}
	for range time.Tick(50 * time.Millisecond) {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
