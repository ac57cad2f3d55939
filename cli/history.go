package cli

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
	"github.com/ares-scheduler/ares/client"
)

func (a *app) historyCommand() *cobra.Command {
	return group("history", "Take out what is kept of jobs that ended", "", a.historyExportCommand())
}

// since are the flags of a list that choose a time.
type since struct{ from, to string }

func (s *since) add(c *cobra.Command) {
	c.Flags().StringVar(&s.from, "from", "", "only jobs created from this time on: 2026-01-31, 2026-01-31T22:00, 22:00, or 90m, 4h, 2d ago")
	c.Flags().StringVar(&s.to, "to", "", "only jobs created before this time, as --from")
}

func (s *since) fill(a *app, req *apipb.ListJobsRequest) (err error) {
	req.From, req.To, err = readPeriod("from", s.from, "to", s.to, a.now())
	return err
}

func (a *app) historyExportCommand() *cobra.Command {
	var when since
	var format string
	req := apipb.ListJobsRequest{All: true, PageSize: 1000}
	c := &cobra.Command{
		Use: "export", Short: "Write jobs as CSV or JSON lines, newest first", Args: exactly(),
		Long: `Write every job that ended, and with --live those that have not, a line each: CSV with a
head, or one JSON object a line. Elements of arrays are not among them, their arrays are.`,
	}
	live := c.Flags().Bool("live", false, "jobs that have not ended too")
	c.RunE = a.with(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := when.fill(a, &req); err != nil {
			return err
		}
		write, flush := jsonLines(a.out), func() error { return nil }
		switch format {
		case "jsonl":
		case "csv":
			write, flush = csvLines(a.out)
		default:
			return usagef("--format %s: use csv or jsonl", format)
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
				return errors.Join(fmt.Errorf("not all was written, only %s: %w", count(n, "job"), err), flush())
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
	c.Flags().StringVar(&req.User, "user", "", "only jobs this identity submitted")
	return c
}

func finalPhases() []string {
	return slices.DeleteFunc(phaseNames(), func(p string) bool { return !ares.Phase(p).Final() })
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
			j.GetJobId(), harmless(j.GetName()), harmless(j.GetTenantId()), harmless(j.GetQueue()), harmless(j.GetSubmittedBy()), j.GetState(), harmless(j.GetReason()), exit,
			decimal(j.GetPriority()), decimal(j.GetMembers()), decimal(j.GetGpuCount()), decimal(j.GetGpuMilli()),
			isoTime(j.GetCreatedAt()), isoTime(j.GetStartedAt()), isoTime(j.GetFinishedAt()), decimal(j.GetAttempt()), decimal(j.GetPreemptions()),
			fixed(u.GetGpuHours()), fixed(u.GetCost()), u.GetCurrency(), fixed(u.GetUnpricedGpuHours()),
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
