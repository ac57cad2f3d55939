package job

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) jobPredictCommand() *cobra.Command {
	s := &submission{app: a}
	c := &cobra.Command{
		Use:   "predict JOB | predict [flags] -- command args... | predict -f FILE",
		Short: "Predict the runtime of a job from similar jobs", Example: "  ares job predict --gpus 1 -- python train.py",
		Long: `Predict how long a job will run. For a submitted job, give its ID, its name or @last. To describe
a new job, use the same flags and files as for "ares job submit". The command does not submit the
new job. The output shows the median and the p90 runtime of similar jobs, and which jobs count as
similar. If too few runs of the user are known, the output says "no estimate".`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && cmd.ArgsLenAtDash() < 0 && s.file == "" {
				return a.withJobs(toRead, s.forecast)(cmd, args)
			}
			specs, err := s.specs(cmd, args)
			if err != nil {
				return err
			}
			return a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := s.resolveDependencies(ctx, c, specs); err != nil {
					return err
				}
				return s.predict(ctx, c, specs)
			})(cmd, args)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "file with the job, YAML or JSON; - for standard input")
	s.flags.add(f)
	completeConstraint(c)
	s.out.AddOutput(c)
	return c
}

// The method `forecast` shows the forecast of a submitted job.
func (s *submission) forecast(ctx context.Context, c *client.Client, args []string) error {
	got, err := c.Forecast(ctx, args[0])
	if err != nil {
		return err
	}
	return s.app.Print(&s.out, got, func(w io.Writer, _ proto.Message) { s.app.writeForecast(output.NewSheet(w), got) })
}

// The method `predict` shows the forecasts of jobs that are not submitted.
func (s *submission) predict(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	for i, spec := range specs {
		got, err := c.Predict(ctx, spec)
		if err != nil && len(specs) > 1 {
			return fmt.Errorf("job %d (%s): %w", i+1, output.Clean(spec.GetName()), err)
		}
		if err != nil {
			return err
		}
		err = s.app.Print(&s.out, got, func(w io.Writer, _ proto.Message) {
			if len(specs) > 1 {
				output.Printf(w, "%sJob %d %s\n", map[bool]string{true: "\n"}[i > 0], i+1, output.Clean(spec.GetName()))
			}
			s.app.writeForecast(output.NewSheet(w), got)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeForecast shows the predicted runtime and end of a job. It says "no estimate" if there is none.
func (a *commands) writeForecast(s output.Sheet, f *apipb.RuntimeForecast) {
	switch {
	case f == nil:
		return
	case f.P90Seconds == nil:
		s.Line("Runtime", f.GetBasis())
		return
	case f.P50Seconds == nil:
		s.Line("Runtime", fmt.Sprintf("p90 %s of similar jobs", output.Duration(output.Seconds(f.GetP90Seconds()))))
	default:
		s.Line("Runtime", fmt.Sprintf("median %s, p90 %s of similar jobs", output.Duration(output.Seconds(f.GetP50Seconds())), output.Duration(output.Seconds(f.GetP90Seconds()))))
	}
	s.Line("By", f.GetBasis())
	s.Line("Ends", a.endsText(f))
}

// endsText describes when a running job is expected to end. A job is late only if earlier runs of the same job
// are known: without them, the forecast has no end.
func (a *commands) endsText(f *apipb.RuntimeForecast) string {
	half, most := f.GetP50End().AsTime().Sub(a.Now()), f.GetP90End().AsTime().Sub(a.Now())
	switch {
	case f.GetP90End() == nil:
		return ""
	case most <= 0:
		return fmt.Sprintf("late: %s past the p90 runtime of earlier runs", output.Duration(-most))
	case f.GetP50End() == nil:
		return fmt.Sprintf("in %s (p90)", output.Duration(most))
	case half <= 0:
		return fmt.Sprintf("in %s (p90); %s past the median runtime of earlier runs", output.Duration(most), output.Duration(-half))
	}
	return fmt.Sprintf("in %s (median), in %s (p90)", output.Duration(half), output.Duration(most))
}
