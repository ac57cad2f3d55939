package cli

import (
	"context"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// maxCompletions is the maximum number of jobs that completion offers.
const maxCompletions = 50

// addCompletion lets the shell complete the arguments and flags of all commands that name jobs, nodes, tenants, queues
// or priority classes. An argument is recognized by its name in the command's usage, and a flag by its name.
func addCompletion(root *cobra.Command, a *command.App) {
	args := map[string]cobra.CompletionFunc{
		"JOB": a.Completion(completeJobs), "NODE": a.Completion(completeNodes),
		"TENANT": a.Completion(completeTenants), "QUEUE": a.Completion(completeQueueIDs),
	}
	flags := map[string]cobra.CompletionFunc{
		"after": args["JOB"], "array": args["JOB"], "job": args["JOB"], "node": args["NODE"], "nodes": args["NODE"],
		"tenant-id": args["TENANT"], "queue": a.Completion(completeQueues),
		"priority-class": cobra.FixedCompletions(classNames(), cobra.ShellCompDirectiveNoFileComp),
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if m := usageArg.FindStringSubmatch(c.Use); m != nil && c.ValidArgsFunction == nil {
			c.ValidArgsFunction = completeArgs(args[m[1]], m[2] != "")
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if complete := flags[f.Name]; complete != nil && strings.HasPrefix(f.Value.Type(), "string") {
				if _, exists := c.GetFlagCompletionFunc(f.Name); !exists {
					output.Must(c.RegisterFlagCompletionFunc(f.Name, complete))
				}
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// usageArg matches the first argument in a command's usage, and the dots of an argument that may be repeated.
var usageArg = regexp.MustCompile(`^\S+ \[?(JOB|NODE|TENANT|QUEUE)\b\]?(\.\.\.)?`)

// completeArgs completes the first argument of a command, or all of them if the argument may be repeated.
func completeArgs(complete cobra.CompletionFunc, repeated bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !repeated {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, begin)
	}
}

func classNames() []string {
	var out []string
	for _, c := range ares.Classes() {
		out = append(out, string(c))
	}
	return out
}

// completeJobs offers the IDs that begin with a text, or the names of jobs. Jobs that have not ended come first, because
// the list is ordered by age. @last is offered too.
func completeJobs(ctx context.Context, c *client.Client, begin string) ([]string, error) {
	before, begin := cutLast(begin)
	var words []string
	if strings.HasPrefix("@last", begin) && begin != "" {
		words = append(words, before+"@last\tthe newest job that you submitted")
	}
	if strings.HasPrefix(begin, "job-") {
		found, err := completeIDs(ctx, c, begin)
		for i := range found {
			found[i] = before + found[i]
		}
		return found, err
	}
	list, err := c.Jobs(ctx, &apipb.ListJobsRequest{Name: begin, PageSize: 1000})
	if err != nil {
		return words, err
	}
	seen := map[string]bool{}
	for _, j := range list.GetJobs() {
		if name := j.GetName(); strings.HasPrefix(name, begin) && !seen[name] && !strings.Contains(name, "\t") && len(words) < maxCompletions {
			seen[name] = true
			words = append(words, before+name+"\t"+j.GetState()+" "+j.GetJobId())
		}
	}
	return words, nil
}

// completeIDs offers the job IDs that begin with a text. The server finds an ID by its first characters; for fewer
// characters, the newest jobs are offered.
func completeIDs(ctx context.Context, c *client.Client, begin string) ([]string, error) {
	var words []string
	list, err := c.Jobs(ctx, &apipb.ListJobsRequest{PageSize: 1000})
	if err != nil {
		return nil, err
	}
	for _, j := range list.GetJobs() {
		if strings.HasPrefix(j.GetJobId(), begin) && len(words) < maxCompletions {
			words = append(words, j.GetJobId()+"\t"+strings.TrimSpace(j.GetState()+" "+j.GetName()))
		}
	}
	if len(words) > 0 || len(begin) < len("job-")+4 {
		return words, nil
	}
	found, err := c.Resolve(ctx, &apipb.ResolveJobRequest{Reference: begin, Unique: true})
	if err != nil {
		return nil, err
	}
	for _, m := range found.GetMatches() {
		if strings.HasPrefix(m.GetJobId(), begin) {
			words = append(words, m.GetJobId()+"\t"+strings.TrimSpace(m.GetState()+" "+m.GetName()))
		}
	}
	if id := found.GetJobId(); strings.HasPrefix(id, begin) {
		words = append(words, id)
	}
	return words, nil
}

// cutLast splits a list of words, such as the value of --after, before its last word.
func cutLast(list string) (before, last string) {
	i := strings.LastIndexByte(list, ',') + 1
	return list[:i], list[i:]
}

func completeNodes(ctx context.Context, c *client.Client, begin string) ([]string, error) {
	before, begin := cutLast(begin)
	list, err := c.Nodes(ctx)
	var words []string
	for _, n := range list.GetNodes() {
		if strings.HasPrefix(n.GetNodeId(), begin) {
			words = append(words, before+n.GetNodeId()+"\t"+n.GetState())
		}
	}
	return words, err
}

func completeTenants(ctx context.Context, c *client.Client, begin string) ([]string, error) {
	list, err := c.Tenants(ctx)
	var words []string
	for _, t := range list.GetTenants() {
		if strings.HasPrefix(t.GetId(), begin) {
			words = append(words, t.GetId()+"\t"+t.GetName())
		}
	}
	return words, err
}

// completeQueueIDs offers queues as TENANT/QUEUE.
func completeQueueIDs(ctx context.Context, c *client.Client, begin string) ([]string, error) {
	list, err := c.Queues(ctx, "")
	var words []string
	for _, q := range list.GetQueues() {
		if id := q.GetTenantId() + "/" + q.GetName(); strings.HasPrefix(id, begin) {
			words = append(words, id)
		}
	}
	return words, err
}

// completeQueues offers queues by their names alone, for a flag beside --tenant-id.
func completeQueues(ctx context.Context, c *client.Client, begin string) ([]string, error) {
	list, err := c.Queues(ctx, "")
	var words []string
	seen := map[string]bool{}
	for _, q := range list.GetQueues() {
		if name := q.GetName(); strings.HasPrefix(name, begin) && !seen[name] {
			seen[name] = true
			words = append(words, name)
		}
	}
	return words, err
}
