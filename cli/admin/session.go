package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/asciicast"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) sessionCommand() *cobra.Command {
	return command.Group("session", "Show what was recorded of sessions with jobs", "  ares session list --user token:red/alice",
		`A server with the setting session_recording.record records what the sessions of users with
running jobs show: "ares exec", "ares shell" and "ares run -it". Administrators and auditors of
a tenant can see the recordings of its jobs. What users type is not recorded, except as far as
the terminal shows it.`,
		a.sessionListCommand(), a.sessionGetCommand(), a.sessionPlayCommand())
}

func (a *commands) sessionListCommand() *cobra.Command {
	var o output.Flags
	var tenant, job, user, since string
	var limit int
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List recordings of sessions, newest first", Args: command.ExactArgs(),
		Example: "  ares session list --job train --since 2d",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 1 {
				return exit.Usagef("--limit %d: use 1 or more", limit)
			}
			begin, _, err := command.ReadTimeRange("since", since, "until", "", a.Now())
			if err != nil {
				return err
			}
			req := &apipb.ListSessionRecordingsRequest{TenantId: tenant, Job: job, User: user, Since: begin, PageSize: int32(min(limit, 1000))}
			list := &apipb.ListSessionRecordingsResponse{}
			err = c.SessionRecordings(ctx, req, func(page []*apipb.SessionRecording) bool {
				list.Recordings = append(list.Recordings, page...)
				return len(list.GetRecordings()) < limit
			})
			if err != nil {
				return err
			}
			list.Recordings = list.Recordings[:min(limit, len(list.GetRecordings()))]
			return a.PrintList(&o, list, func(proto.Message) *output.Table { return recordingTable(list.GetRecordings()) })
		}),
	}
	c.Flags().SortFlags = false
	command.TenantFlag(c.Flags(), &tenant, "only recordings of this tenant")
	c.Flags().StringVar(&job, "job", "", "only sessions with this job: its ID or name")
	c.Flags().StringVar(&user, "user", "", "only sessions of this user")
	c.Flags().StringVar(&since, "since", "", "only sessions that began since this time: 2026-01-31, 2026-01-31T22:00, 22:00, or 90m, 4h, 2d ago")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of recordings")
	return o.AddRows(c)
}

func recordingTable(list []*apipb.SessionRecording) *output.Table {
	t := &output.Table{
		Head:  []string{"RECORDING", "BEGAN", "LENGTH", "USER", "TENANT", "JOB", "RANK", "NODE", "SIZE", "RESULT"},
		Empty: "No recordings.", Drop: []string{"SIZE", "TENANT", "RANK", "LENGTH"}, Wide: []string{"NODE"},
	}
	for _, r := range list {
		length, result := "-", r.GetResult()
		switch {
		case r.GetEndedAt() != nil:
			length = output.Duration(r.GetEndedAt().AsTime().Sub(r.GetBeganAt().AsTime()))
		case result == "":
			result = "no end yet"
		}
		if n := r.GetMissingBytes(); n > 0 {
			result += fmt.Sprintf("; incomplete: %d bytes are missing", n)
		}
		t.Add(r.GetRecordingId(), r.GetBeganAt().AsTime().Local().Format("2006-01-02 15:04:05"), length, r.GetUser(), r.GetTenantId(),
			r.GetJobName(), fmt.Sprint(r.GetRank()), r.GetNodeId(), fmt.Sprintf("%.1f KiB", float64(r.GetBytes())/1024), result)
	}
	return t
}

func (a *commands) sessionGetCommand() *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "get RECORDING", Short: "Write a recording of a session to standard output", Args: command.ExactArgs("RECORDING"),
		Long: `Write a recording to standard output as an asciicast of version 2, a text format that other
programs can play too. The call is recorded in the audit log.

A recording may contain secrets that a command has printed, and its first line has the command
itself.`,
		Example: "  ares session get 20261119T140512-k3x7q2abcd > session.cast",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return c.SessionRecording(ctx, tenant, args[0], a.Out)
		}),
	}
	command.TenantFlag(c.Flags(), &tenant, "tenant of the job (default: all that you may see)")
	return c
}

// player plays a recording.
type player struct {
	to    io.Writer
	speed float64
	idle  time.Duration // the longest pause, before it is made shorter by speed; 0 for no pauses
}

func (a *commands) sessionPlayCommand() *cobra.Command {
	var tenant, idle string
	p := &player{}
	c := &cobra.Command{
		Use: "play RECORDING", Short: "Play a recording of a session", Args: command.ExactArgs("RECORDING"),
		Long: `Show on the terminal what the user of a session saw. Ctrl-C ends it. If the output is not a
terminal, it is written without pauses. The call is recorded in the audit log.

Text, colours and movements of the cursor are shown. What could do harm to your terminal is left
out, such as sequences to which a terminal answers, or that set the clipboard.`,
		Example: "  ares session play 20261119T140512-k3x7q2abcd --speed 4",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if p.speed <= 0 {
				return exit.Usagef("--speed %g: use a number greater than 0", p.speed)
			}
			var err error
			if p.idle, err = command.ReadDuration("idle", idle); err != nil {
				return err
			}
			if !output.IsTerminal(a.Out) {
				p.idle = 0
			}
			var data bytes.Buffer // a session may be longer than a server waits for a reader
			if err = c.SessionRecording(ctx, tenant, args[0], &data); err != nil {
				return err
			}
			return a.play(ctx, &data, p)
		}),
	}
	c.Flags().SortFlags = false
	c.Flags().Float64Var(&p.speed, "speed", 1, "how many times faster than the session was")
	c.Flags().StringVar(&idle, "idle", "2s", "longest pause; 0s for no pauses")
	command.TenantFlag(c.Flags(), &tenant, "tenant of the job (default: all that you may see)")
	return c
}

func (a *commands) play(ctx context.Context, recording io.Reader, p *player) error {
	d, err := asciicast.NewDecoder(recording)
	if err != nil {
		return err
	}
	screen := &output.Playback{W: a.Out}
	p.to = screen
	if output.IsTerminal(a.Out) {
		defer func() { _ = screen.Close() }()
		if columns, rows := output.TerminalSize(a.Out); columns < d.Header.Width || rows < d.Header.Height {
			output.Printf(a.Err, "The terminal of the session had %d columns and %d rows, and yours has %d and %d.\n", d.Header.Width, d.Header.Height, columns, rows)
		}
	}
	if d.Header.Command != "" {
		output.Printf(a.Err, "$ %s\n", output.Clean(d.Header.Command))
	}
	return p.run(ctx, d, func(remark string) { output.Printf(a.Err, "\n[%s]\n", output.Clean(remark)) })
}

// The method `run` shows the events of a recording at their times.
func (p *player) run(ctx context.Context, d *asciicast.Decoder, remark func(string)) error {
	at := time.Duration(0)
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		pause := time.Duration(float64(min(e.At-at, p.idle)) / p.speed)
		at = e.At
		if pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		if ctx.Err() != nil {
			return &exit.Error{Code: exit.Interrupted}
		}
		switch e.Kind {
		case asciicast.Output:
			if _, err = io.WriteString(p.to, e.Data); err != nil {
				return err
			}
		case asciicast.Marker:
			remark(e.Data)
		}
	}
}
