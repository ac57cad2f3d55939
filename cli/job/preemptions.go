package job

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) preemptionsCommand() *cobra.Command {
	var o output.Flags
	var req apipb.ListPreemptionsRequest
	var since string
	var limit int
	c := &cobra.Command{
		Use: "preemptions", Short: "List preemptions with their reason and cost", Example: "  ares preemptions --since 24h", Args: command.ExactArgs(),
		Long: `List preemptions, newest first. Each line shows how many GPUs the preempted job lost, and how
many GPUs the preempting job requested. Each line also shows the cost in GPU-seconds: the work
lost since the last checkpoint, plus the restart. Preemptions of archived jobs are not listed.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 0 {
				return exit.Usagef("--limit %d: use 0 for all, or a positive maximum", limit)
			}
			if since != "" {
				at, err := a.sinceWhen(since)
				if err != nil {
					return err
				}
				req.Since = timestamppb.New(at)
			}
			id, err := a.resolve(ctx, c, req.GetJobId(), toRead)
			if err != nil {
				return err
			}
			req.JobId = id
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return listPreemptions(ctx, c, &req, limit) },
				func(m proto.Message) *output.Table { return a.preemptionTable(m.(*apipb.ListPreemptionsResponse)) })
		}),
	}
	o.AddList(c)
	c.Flags().StringVar(&req.TenantId, "tenant-id", "", "only preemptions that this tenant can see")
	c.Flags().StringVar(&req.JobId, "job", "", "only preemptions of this job or by this job")
	c.Flags().StringVar(&since, "since", "", "only preemptions since a time such as 2026-01-31T18:00:00Z, or in the last 24h")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of rows; 0 for all")
	return c
}

// sinceWhen parses a time, or a duration that is subtracted from the current
// time.
func (a *commands) sinceWhen(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return a.Now().Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, exit.Usagef("--since %s: use a time such as 2026-01-31T18:00:00Z, or a duration such as 24h", text)
	}
	return at, nil
}

// listPreemptions fetches pages until it has `limit` preemptions or the list
// ends.
func listPreemptions(ctx context.Context, c *client.Client, filter *apipb.ListPreemptionsRequest, limit int) (*apipb.ListPreemptionsResponse, error) {
	page := proto.CloneOf(filter)
	all := &apipb.ListPreemptionsResponse{}
	for {
		page.PageSize = 1000
		if limit > 0 {
			page.PageSize = int32(min(limit-len(all.Preemptions), 1000))
		}
		answer, err := c.Preemptions(ctx, page)
		if err != nil {
			return nil, err
		}
		list := append(all.Preemptions, answer.GetPreemptions()...)
		all = answer
		if all.Preemptions = list; all.NextPageToken == "" || limit > 0 && len(list) >= limit {
			return all, nil
		}
		page.PageToken = all.NextPageToken
	}
}

func (a *commands) preemptionTable(list *apipb.ListPreemptionsResponse) *output.Table {
	t := &output.Table{
		Head:  []string{"AT", "STATE", "JOB", "TENANT", "BY", "OF TENANT", "WHY", "GPUS", "ASKED", "LOST GPU-S", "CHECKPOINT"},
		Empty: "No preemptions.", Name: "JOB", Passing: []string{"AT", "CHECKPOINT"},
		Drop: []string{"CHECKPOINT", "ASKED", "OF TENANT", "TENANT", "LOST GPU-S", "GPUS", "WHY"}, Flex: []string{"WHY"},
	}
	for _, p := range list.GetPreemptions() {
		saved := "-"
		if p.GetCheckpointedAt() != nil {
			saved = a.Age(p.GetCheckpointedAt()) + " ago"
		}
		t.Add(a.Age(p.GetAt())+" ago", p.GetState(), cmp.Or(p.GetJobId(), "another tenant's"), cmp.Or(p.GetTenantId(), "-"),
			cmp.Or(p.GetByJobId(), "another tenant's"), cmp.Or(p.GetByTenantId(), "-"), basisText(p),
			output.Amount(p.GetGpus()), output.Amount(p.GetAskedGpus()), output.Amount(p.GetGpuSecondsLost()), saved)
	}
	if n := int(list.GetTotal()) - len(list.GetPreemptions()); n > 0 {
		t.Note = fmt.Sprintf("(%d more: show them with --limit 0)\n", n)
	}
	t.Note += fmt.Sprintf("\n%s in total, %s GPU-seconds lost", output.Count(list.GetTotal(), "preemption"), output.Amount(list.GetGpuSecondsLost()))
	return t
}

// basisText describes why a preemption was allowed, for example "critical over
// low".
func basisText(p *apipb.Preemption) string {
	if p.GetWhy() == "class" && p.GetByPriorityClass() != "" && p.GetPriorityClass() != "" {
		return p.GetByPriorityClass() + " over " + p.GetPriorityClass()
	}
	return p.GetWhy()
}

// writeJobPreemptions shows the preemptions of a job and its nomination.
func writeJobPreemptions(s output.Sheet, preempted []*apipb.Preemption, nomination *apipb.Nomination) {
	var words []string
	for _, p := range preempted {
		words = append(words, fmt.Sprintf("attempt %d %s", p.GetAttempt(), p.GetText()))
	}
	s.List("Preemptions", words)
	if nomination == nil {
		return
	}
	s.Line("Nomination", nomination.GetText())
	words = nil
	for _, v := range nomination.GetVictims() {
		if v.GetState() == "gone" {
			continue
		}
		who := "a job of another tenant"
		if v.GetJobId() != "" {
			who = "job " + v.GetJobId()
		}
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s, %s: %s", who, v.GetState(), output.GPUs(v.GetGpus()))))
	}
	s.List("Victims", words)
}

// preemptionsOf returns the preemptions of a job's attempts.
func preemptionsOf(j *apipb.Job) []*apipb.Preemption {
	var out []*apipb.Preemption
	for _, at := range j.GetAttempts() {
		if p := at.GetPreemption(); p != nil {
			out = append(out, p)
		}
	}
	return out
}
