package job

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) historyCommand() *cobra.Command {
	return command.Group("history", "Export finished jobs", "  ares history export --from 7d > jobs-of-the-week.csv", "", a.historyExportCommand())
}

// timeFlags are the flags that limit a list to a time range.
type timeFlags struct{ from, to string }

func (s *timeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&s.from, "from", "", "only jobs created at or after this time: 2026-01-31, 2026-01-31T22:00, 22:00, or 90m, 4h, 2d ago")
	c.Flags().StringVar(&s.to, "to", "", "only jobs created before this time, in the same formats")
}

func (s *timeFlags) fill(a *commands, req *apipb.ListJobsRequest) (err error) {
	req.From, req.To, err = command.ReadTimeRange("from", s.from, "to", s.to, a.Now())
	return err
}

func (a *commands) historyExportCommand() *cobra.Command {
	var when timeFlags
	var who userFlags
	var format string
	req := apipb.ListJobsRequest{All: true, PageSize: 1000}
	c := &cobra.Command{
		Use: "export", Short: "Export jobs as CSV or JSON lines, newest first", Example: `  ares history export --from 7d > jobs-of-the-week.csv
  ares history export --format jsonl --live`, Args: command.ExactArgs(),
		Long: `Export every finished job, one per line, as CSV with a header or as JSON. With --live, the
export includes jobs that have not finished. An array is exported as one line, without a line
for each element.`,
	}
	live := c.Flags().Bool("live", false, "include jobs that have not finished")
	c.RunE = a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := errors.Join(who.fill(&req), when.fill(a, &req)); err != nil {
			return err
		}
		write, flush := jsonLines(a.Out), func() error { return nil }
		switch format {
		case "jsonl":
		case "csv":
			write, flush = csvLines(a.Out)
		default:
			return exit.Usagef("--format %s: use csv or jsonl", format)
		}
		if !*live {
			req.State = finalPhases()
		}
		n := int32(0)
		for job, err := range c.AllJobs(ctx, &req) {
			if err == nil {
				err = write(job)
			}
			if err != nil && n == 0 {
				return err
			}
			if err != nil {
				return errors.Join(fmt.Errorf("the export stopped after %s and is incomplete: %w", output.Count(n, "job"), err), flush())
			}
			n++
		}
		return flush()
	})
	c.Flags().SortFlags = false
	c.Flags().StringVar(&format, "format", "csv", "csv or jsonl")
	when.add(c)
	c.Flags().StringVar(&req.TenantId, "tenant-id", "", "only jobs of this tenant")
	c.Flags().StringVar(&req.Queue, "queue", "", "only jobs of this queue")
	who.add(c)
	return c
}

func finalPhases() []string {
	return slices.DeleteFunc(command.PhaseNames(), func(p string) bool { return !ares.Phase(p).Final() })
}

func jsonLines(w io.Writer) func(*apipb.Job) error {
	return func(j *apipb.Job) error {
		data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(j)
		if err == nil {
			_, err = w.Write(append(data, '\n'))
		}
		return err
	}
}

func csvLines(w io.Writer) (write func(*apipb.Job) error, flush func() error) {
	out := csv.NewWriter(w)
	head := false
	begin := func() error {
		if head {
			return nil
		}
		head = true
		return out.Write([]string{
			"job_id", "name", "tenant", "queue", "user", "state", "reason", "exit_code", "priority", "members", "gpus_per_member", "gpu_milli",
			"created_at", "started_at", "finished_at", "attempts", "preemptions", "gpu_hours", "cost", "currency", "unpriced_gpu_hours",
		})
	}
	write = func(j *apipb.Job) error {
		exit := ""
		if j.GetResult() != nil {
			exit = strconv.Itoa(int(j.GetResult().GetExitCode()))
		}
		u := j.GetUse()
		return errors.Join(begin(), out.Write([]string{
			j.GetJobId(), output.CSVCell(j.GetName()), output.CSVCell(j.GetTenantId()), output.CSVCell(j.GetQueue()), output.CSVCell(j.GetSubmittedBy()), j.GetState(), output.CSVCell(j.GetReason()), exit,
			decimal(j.GetPriority()), decimal(j.GetMembers()), decimal(j.GetGpuCount()), decimal(j.GetGpuMilli()),
			isoTime(j.GetCreatedAt()), isoTime(j.GetStartedAt()), isoTime(j.GetFinishedAt()), decimal(j.GetAttempt()), decimal(j.GetPreemptions()),
			output.FixedPoint(u.GetGpuHours()), output.FixedPoint(u.GetCost()), u.GetCurrency(), output.FixedPoint(u.GetUnpricedGpuHours()),
		}))
	}
	return write, func() error {
		err := begin()
		out.Flush()
		return errors.Join(err, out.Error())
	}
}

func decimal(n int32) string { return strconv.Itoa(int(n)) }

func isoTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339Nano)
}
