package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) jobPredictCommand() *cobra.Command {
	s := &submission{app: a}
	c := &cobra.Command{
		Use:   "predict JOB | predict [flags] -- command args... | predict -f FILE",
		Short: "Say how long a job will run, from the runs before it",
		Long: `Takes a job that was submitted, by its ID, or one that was not, as "ares job submit"
does; nothing is submitted. It says within which time half of such runs end, and
within which nine of ten do, and what that rests on.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && cmd.ArgsLenAtDash() < 0 && s.file == "" {
				return a.with(s.forecast)(cmd, args)
			}
			specs, err := s.specs(cmd, args)
			if err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error { return s.predict(ctx, c, specs) })(cmd, args)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "file with the job, YAML or JSON; - for standard input")
	s.flags.add(f)
	completeConstraint(c)
	s.out.addOutput(c)
	return c
}

// forecast answers for a job that was submitted.
func (s *submission) forecast(ctx context.Context, c *client.Client, args []string) error {
	got, err := c.Forecast(ctx, args[0])
	if err != nil {
		return err
	}
	return s.app.print(&s.out, got, func(w io.Writer, _ proto.Message) { s.app.writeForecast(sheet{w}, got) })
}

// predict answers for jobs that were not.
func (s *submission) predict(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	for i, spec := range specs {
		got, err := c.Predict(ctx, spec)
		if err != nil && len(specs) > 1 {
			return fmt.Errorf("job %d (%s): %w", i+1, clean(spec.GetName()), err)
		}
		if err != nil {
			return err
		}
		err = s.app.print(&s.out, got, func(w io.Writer, _ proto.Message) {
			if len(specs) > 1 {
				say(w, "%sJob %d %s\n", map[bool]string{true: "\n"}[i > 0], i+1, clean(spec.GetName()))
			}
			s.app.writeForecast(sheet{w}, got)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeForecast shows how long a job will run, and when it will have ended.
func (a *app) writeForecast(s sheet, f *apipb.RuntimeForecast) {
	if f == nil {
		return
	}
	s.line("Runtime", fmt.Sprintf("half of such runs end within %s, nine of ten within %s", span(seconds(f.GetP50Seconds())), span(seconds(f.GetP90Seconds()))))
	s.line("By", f.GetBasis())
	if f.GetP90End() == nil {
		return
	}
	half, most := f.GetP50End().AsTime().Sub(a.now()), f.GetP90End().AsTime().Sub(a.now())
	switch {
	case half > 0:
		s.line("Ends", fmt.Sprintf("half of such runs in %s, nine of ten in %s", span(half), span(most)))
	case most > 0:
		s.line("Ends", fmt.Sprintf("nine of ten such runs in %s; half have ended %s ago", span(most), span(-half)))
	default:
		s.line("Ends", fmt.Sprintf("late: nine of ten such runs ended %s ago", span(-most)))
	}
}
