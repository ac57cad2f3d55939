package job

import (
	"context"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// updateFlags are the new values of "ares update".
type updateFlags struct {
	priority  int32
	class     string
	limit     string
	setLabels map[string]string
	remove    []string
}

func (a *commands) jobUpdateCommand() *cobra.Command {
	var o output.Flags
	var s selector
	var u updateFlags
	var req *apipb.UpdateJobRequest
	ch := &change{verb: "update", done: "updated", why: toCancel, apply: func(ctx context.Context, c *client.Client, id string, only []string) (proto.Message, string, error) {
		one := proto.CloneOf(req)
		one.JobId, one.State = id, only
		answer, err := c.Update(ctx, one)
		return answer, answer.GetStatus(), err
	}}
	run := ch.run(a, &s, &o)
	c := &cobra.Command{
		Use: "update JOB... | update --name PATTERN ...", Short: "Change jobs that have not ended", Example: `  job=$(ares job submit -- sleep 600)
  ares job update "$job" --set-label run=second`, Args: cobra.ArbitraryArgs,
		Long: `Change the priority, the time limit or the labels of jobs. The priority and the time limit can
be changed while a job waits; a running attempt keeps those with which it was started. The new
values must pass the same checks as a submission.

` + addressing + `

` + selecting,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req, err = u.request(cmd); err != nil {
				return err
			}
			return run(cmd, args)
		},
	}
	o.AddOutput(c)
	f := c.Flags()
	f.Int32Var(&u.priority, "priority", 0, "new priority, 5 to 1000000, higher first; 0 to 4 are the levels critical, high, normal, low and best-effort")
	f.StringVar(&u.class, "priority-class", "", "new class instead of a priority: best-effort, low, normal, high or critical")
	f.StringVar(&u.limit, "time", "", "new time limit of one attempt, such as 4h, 90m or 1-12:00:00; 0 for none")
	f.StringToStringVar(&u.setLabels, "set-label", nil, "label to add or replace, KEY=VALUE; can be repeated")
	f.StringSliceVar(&u.remove, "remove-label", nil, "key of a label to remove; can be repeated")
	s.add(c, "update")
	return c
}

// The method `request` returns the changes as a request without a job.
func (u *updateFlags) request(cmd *cobra.Command) (*apipb.UpdateJobRequest, error) {
	f := cmd.Flags()
	req := &apipb.UpdateJobRequest{PriorityClass: u.class, Labels: maps.Clone(u.setLabels), RemoveLabels: u.remove}
	if f.Changed("priority") {
		req.Priority = &u.priority
	}
	if f.Changed("time") {
		minutes := int32(0)
		if u.limit != "0" {
			var err error
			if minutes, err = minutesOf(u.limit); err != nil {
				return nil, exit.Usagef("--time: %s", err)
			}
		}
		req.MaxRuntimeMinutes = &minutes
	}
	for key := range req.GetLabels() { // order-free: any of them is wrong
		if strings.TrimSpace(key) == "" {
			return nil, exit.Usagef("--set-label: write KEY=VALUE")
		}
	}
	if req.Priority == nil && u.class == "" && req.MaxRuntimeMinutes == nil && len(req.GetLabels()) == 0 && len(req.GetRemoveLabels()) == 0 {
		return nil, exit.Usagef("nothing to change: use --priority, --priority-class, --time, --set-label or --remove-label")
	}
	return req, nil
}
