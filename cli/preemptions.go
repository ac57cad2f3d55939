package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) preemptionsCommand() *cobra.Command {
	var o readFlags
	var req apipb.ListPreemptionsRequest
	var since string
	var limit int
	c := &cobra.Command{
		Use: "preemptions", Short: "List which jobs gave way to which, why, and what it cost", Args: exactly(),
		Long: `Lists jobs that gave way to others, newest first, with the reckoning of each: what
it gave up, for how much that the other job asked, and the GPU-seconds that were lost
since its last checkpoint, the restart included. Jobs that are archived are no longer
listed.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 0 {
				return usagef("--limit %d: use 0 for all, or how many at most", limit)
			}
			if since != "" {
				at, err := a.sinceWhen(since)
				if err != nil {
					return err
				}
				req.Since = timestamppb.New(at)
			}
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return listPreemptions(ctx, c, &req, limit) },
				func(w io.Writer, m proto.Message) { a.writePreemptions(w, m.(*apipb.ListPreemptionsResponse)) })
		}),
	}
	o.add(c)
	c.Flags().StringVar(&req.TenantId, "tenant-id", "", "only those that concern this tenant, told as its own people may know it")
	c.Flags().StringVar(&req.JobId, "job", "", "only those in which this job gave way, or was given way to")
	c.Flags().StringVar(&since, "since", "", "only those since a time such as 2026-01-31T18:00:00Z, or for so long, such as 24h")
	c.Flags().IntVar(&limit, "limit", 100, "at most this many; 0 for all")
	return c
}

// sinceWhen reads a time, or how long ago it was.
func (a *app) sinceWhen(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return a.now().Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("--since %s: use a time such as 2026-01-31T18:00:00Z, or how long ago, such as 24h", text)
	}
	return at, nil
}

// listPreemptions gathers up to limit of them from as many pages as it takes.
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

func (a *app) writePreemptions(w io.Writer, list *apipb.ListPreemptionsResponse) {
	if len(list.GetPreemptions()) == 0 {
		say(w, "No job gave way to another.\n")
		return
	}
	t := table{head: []string{"AT", "STATE", "JOB", "TENANT", "BY", "OF TENANT", "WHY", "GPUS", "ASKED", "LOST GPU-S", "CHECKPOINT"}}
	for _, p := range list.GetPreemptions() {
		saved := "-"
		if p.GetCheckpointedAt() != nil {
			saved = a.age(p.GetCheckpointedAt()) + " ago"
		}
		t.add(a.age(p.GetAt())+" ago", p.GetState(), firstOf(p.GetJobId(), "another tenant's"), firstOf(p.GetTenantId(), "-"),
			firstOf(p.GetByJobId(), "another tenant's"), firstOf(p.GetByTenantId(), "-"), rightWords(p),
			amount(p.GetGpus()), amount(p.GetAskedGpus()), amount(p.GetGpuSecondsLost()), saved)
	}
	t.write(w, a.color)
	if n := int(list.GetTotal()) - len(list.GetPreemptions()); n > 0 {
		say(w, "(%d more; see them with --limit 0)\n", n)
	}
	say(w, "\n%s in all, %s GPU-seconds lost\n", count(list.GetTotal(), "preemption"), amount(list.GetGpuSecondsLost()))
}

// rightWords is by what right, in a word or three.
func rightWords(p *apipb.Preemption) string {
	if p.GetWhy() == "class" && p.GetByPriorityClass() != "" && p.GetPriorityClass() != "" {
		return p.GetByPriorityClass() + " over " + p.GetPriorityClass()
	}
	return p.GetWhy()
}

// amount writes a number without a fraction that says nothing.
func amount(f float64) string { return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64) }

// gpuWords is so many GPUs in words.
func gpuWords(n float64) string {
	if n == 1 {
		return "1 GPU"
	}
	return amount(n) + " GPUs"
}

// writeYields shows what a job was stopped for, and what is kept for it.
func (s sheet) writeYields(gave []*apipb.Preemption, kept *apipb.Nomination) {
	var words []string
	for _, p := range gave {
		words = append(words, fmt.Sprintf("attempt %d %s", p.GetAttempt(), p.GetText()))
	}
	s.list("Gave way", words)
	if kept == nil {
		return
	}
	s.line("Kept seats", kept.GetText())
	words = nil
	for _, v := range kept.GetVictims() {
		if v.GetState() == "gone" {
			continue
		}
		who := "a job of another tenant"
		if v.GetJobId() != "" {
			who = "job " + v.GetJobId()
		}
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s, %s: %s", who, v.GetState(), gpuWords(v.GetGpus()))))
	}
	s.list("Awaits", words)
}

// gaveWay are the attempts of a job that gave way.
func gaveWay(j *apipb.Job) []*apipb.Preemption {
	var out []*apipb.Preemption
	for _, at := range j.GetAttempts() {
		if p := at.GetPreemption(); p != nil {
			out = append(out, p)
		}
	}
	return out
}
