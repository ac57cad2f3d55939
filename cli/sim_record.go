package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/sim"
)

func (a *app) simRecordCommand() *cobra.Command {
	var o readFlags
	var out string
	var force bool
	c := &cobra.Command{
		Use: "record --out FILE", Short: "Write down what a running server decides from at this moment", Args: exactly(),
		Long: `Writes every record that the server's engine knows, and its configuration, into a
file for "ares sim what-if" and "ares sim run --format ares". To record what comes
after it too, start the server with --record DIR.

The file holds what jobs were given, their environments too: only its owner may
read it.`,
		Example: "  ares sim record --out now.recording",
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("%s: --out is missing", cmd.CommandPath())
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error {
				size := int64(0)
				err := server.WriteWhole(out, force, func(w io.Writer) (err error) {
					size, err = c.Record(ctx, w)
					return err
				})
				if err != nil {
					return err
				}
				return a.printValue(o.output, map[string]any{"file": out, "bytes": size}, func(w io.Writer) {
					say(w, "%s: %d bytes\n", clean(out), size)
				})
			})(cmd, args)
		},
	}
	c.Flags().StringVar(&out, "out", "", "file to write")
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	o.addOutput(c)
	return c
}

func (a *app) simReplayCommand() *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: "replay FILE...", Short: "Decide again what a server has recorded, and compare", Args: atLeastOne("FILE"),
		Long: `Gives what a server recorded (--record DIR) to a new engine and decides again
wherever the server did. Every plan must come out the same: the engine depends on
nothing but what it was told. Exit code 1 when one did not, or when there was none
to compare.`,
		Example: "  ares sim replay /var/lib/ares/recordings/*.recording",
		RunE: func(_ *cobra.Command, args []string) error {
			var all []*sim.ReplayResult
			different, decisions := 0, 0
			for _, name := range args {
				r, err := replayFile(name)
				if err != nil {
					return err
				}
				all = append(all, r)
				different += r.Different
				decisions += r.Decisions
			}
			err := a.printValue(o.output, all, func(w io.Writer) {
				for i, r := range all {
					writeReplayed(w, args[i], r)
				}
			})
			switch {
			case err != nil:
				return err
			case decisions == 0:
				return errors.New("there is nothing to compare: no decision was recorded")
			case different > 0:
				return &exitError{exitFailed}
			}
			return nil
		},
	}
	o.addOutput(c)
	return c
}

func replayFile(name string) (*sim.ReplayResult, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usagef("%s", err)
	}
	defer f.Close()
	if info, bad := f.Stat(); bad == nil && info.IsDir() {
		return nil, usagef("%s is a directory: name the recordings in it", name)
	}
	r, err := sim.Replay(f, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func writeReplayed(w io.Writer, name string, r *sim.ReplayResult) {
	s := sheet{w}
	s.line("Recording", clean(filepath.Base(name)))
	s.line("Server", clean(r.Server)+", Ares "+clean(r.Build))
	s.line("From", r.Began.Format(time.RFC3339)+" for "+r.Until.Sub(r.Began).Round(time.Second).String())
	s.line("Ends", firstOf(r.End, "without a mark: the server was killed, or still writes it"))
	s.line("Holds", fmt.Sprintf("%d batches of %d events, %d decisions", r.Batches, r.Events, r.Decisions))
	if r.Decisions == 0 {
		s.line("Replay", "nothing to compare: it holds no decision")
		return
	}
	if r.Different == 0 {
		s.line("Replay", fmt.Sprintf("all %d decisions are the same; %d placings", r.Decisions, r.Placed))
		return
	}
	s.line("Replay", fmt.Sprintf("%d of %d decisions are different", r.Different, r.Decisions))
	s.line("First", r.First.Recorded.String())
	s.line("Replayed", r.First.Replayed.String())
	if len(r.First.OnlyRecorded) > 0 {
		s.list("Then only", r.First.OnlyRecorded)
	}
	if len(r.First.OnlyReplayed) > 0 {
		s.list("Now only", r.First.OnlyReplayed)
	}
}
