package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/sim"
)

func (a *commands) simRecordCommand() *cobra.Command {
	var o output.Flags
	var out string
	var force bool
	c := &cobra.Command{
		Use: "record --out FILE", Short: "Record the current state of a running server", Args: command.ExactArgs(),
		Long: `Write the state and the configuration of the server's engine to a file. The commands
"ares sim what-if" and "ares sim run --format ares" read this file. The server itself records all
decisions in the directory "recordings" of its data directory.

The file contains the jobs with their commands, but not their environments, and only its owner can read
it.`,
		Example: "  ares sim record --out now.recording --force",
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return exit.Usagef("%s: --out is missing", cmd.CommandPath())
			}
			return a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
				size := int64(0)
				err := server.WriteWhole(out, force, func(w io.Writer) (err error) {
					size, err = c.Record(ctx, w)
					return err
				})
				if err != nil {
					return err
				}
				return a.PrintValue(o.Format, map[string]any{"file": out, "bytes": size}, func(w io.Writer) {
					output.Printf(w, "%s: %d bytes\n", output.Clean(out), size)
				})
			})(cmd, args)
		},
	}
	c.Flags().StringVar(&out, "out", "", "file to write")
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	o.AddOutput(c)
	return c
}

func (a *commands) simReplayCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "replay FILE...", Short: "Replay a recording and compare the decisions", Args: command.MinOneArg("FILE"),
		Long: `Run a new engine on a recording that a server wrote. The command compares the new decisions with
the recorded decisions. The decisions must be the same, because the engine
depends only on its input. The command exits with 1 if a decision differs or the recording has
no decisions.`,
		Example: "  ares sim replay recordings/*.recording",
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
			err := a.PrintValue(o.Format, all, func(w io.Writer) {
				for i, r := range all {
					writeReplayed(w, args[i], r)
				}
			})
			switch {
			case err != nil:
				return err
			case decisions == 0:
				return errors.New("nothing to compare: the recording has no decisions")
			case different > 0:
				return &exit.Error{Code: exit.Failed}
			}
			return nil
		},
	}
	o.AddOutput(c)
	return c
}

func replayFile(name string) (*sim.ReplayResult, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, exit.Usagef("%s", err)
	}
	defer f.Close()
	if info, bad := f.Stat(); bad == nil && info.IsDir() {
		return nil, exit.Usagef("%s is a directory: name its files", name)
	}
	r, err := sim.Replay(f, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func writeReplayed(w io.Writer, name string, r *sim.ReplayResult) {
	s := output.NewSheet(w)
	s.Line("Recording", output.Clean(filepath.Base(name)))
	s.Line("Server", output.Clean(r.Server)+", Ares "+output.Clean(r.Build))
	s.Line("From", r.Began.Format(time.RFC3339)+" for "+r.Until.Sub(r.Began).Round(time.Second).String())
	s.Line("Ends", cmp.Or(r.End, "missing: the server was killed or still writes the recording"))
	s.Line("Holds", fmt.Sprintf("%d batches of %d events, %d decisions", r.Batches, r.Events, r.Decisions))
	if r.Decisions == 0 {
		s.Line("Replay", "nothing to compare: the recording has no decisions")
		return
	}
	if r.Different == 0 {
		s.Line("Replay", fmt.Sprintf("all %d decisions are the same; %d placements", r.Decisions, r.Placed))
		return
	}
	s.Line("Replay", fmt.Sprintf("%d of %d decisions are different", r.Different, r.Decisions))
	s.Line("First", r.First.Recorded.String())
	s.Line("Replayed", r.First.Replayed.String())
	if len(r.First.OnlyRecorded) > 0 {
		s.List("Then only", r.First.OnlyRecorded)
	}
	if len(r.First.OnlyReplayed) > 0 {
		s.List("Now only", r.First.OnlyReplayed)
	}
}
