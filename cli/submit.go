package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

// submission is one `ares job submit`.
type submission struct {
	app    *app
	out    readFlags
	file   string
	wait   bool
	follow bool
	flags  specFlags
}

func (a *app) submitCommand() *cobra.Command {
	s := &submission{app: a}
	c := &cobra.Command{
		Use:   "submit [flags] -- command args... | submit -f FILE",
		Short: "Submit a job, or many",
		Long: `Submit a job from flags, from a file, or from a file with flags that change it.

A file is YAML or JSON with the fields of the API; "-" is standard input. Several
documents, or a list under "jobs:", are submitted together.

--constraint says which nodes the job may run on. It takes conditions with commas
between them, and all must hold:

  key=value, key!=value                 the node's label has that value, or not
  key in (a, b), key notin (a, b)       one of these values, or none of them
  key>=2T, key<=2T                      the label is a number, compared with units
  key, !key                             the label is there, or not

Three keys are about GPUs instead of labels: gpu.model and gpu.memory hold for each
GPU that the job gets, and gpu.count for the GPUs of the node. gpu.model=h100 is every
model with h100 in its name; gpu.memory without a unit is in MB.

The job's ID goes to standard output. With --follow, the job's own output goes
there instead, and the exit code is the job's.`,
		Example: `  ares job submit --name hello -- echo hello
  ares job submit --name train --gpus 4 --priority 1000 --tenant-id vision -- python train.py --epochs 10
  ares job submit --gpus 1 --constraint 'gpu.memory>=80G,!spot' --constraint 'zone in (a, b)' -- python train.py
  ares job submit -f job.yaml --wait`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			specs, err := s.specs(cmd, args)
			if err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error { return s.run(ctx, c, specs) })(cmd, args)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "file with the job, YAML or JSON; - for standard input")
	f.BoolVar(&s.wait, "wait", false, "wait for the end; exit code 1 unless it succeeded")
	f.BoolVar(&s.follow, "follow", false, "print the job's output until its end; the exit code is the job's")
	s.flags.add(f)
	completeConstraint(c)
	s.out.addOutput(c)
	return c
}

// specs are the jobs a command line asks for.
func (s *submission) specs(cmd *cobra.Command, args []string) ([]*apipb.JobSpec, error) {
	if n := cmd.ArgsLenAtDash(); n > 0 || n < 0 && len(args) > 0 {
		return nil, usagef("put the job's command after --, such as: %s --name hello -- %s", cmd.CommandPath(), commandLine(args))
	}
	specs := []*apipb.JobSpec{{}}
	if s.file != "" {
		var err error
		if specs, err = s.app.readJobs(s.file); err != nil {
			return nil, err
		}
	} else if len(args) == 0 {
		return nil, usagef("say what to run: %s --name hello -- echo hello, or -f FILE", cmd.CommandPath())
	}
	if len(specs) > 1 && (len(args) > 0 || s.flags.requestID != "") {
		return nil, usagef("%s has %d jobs: a command or --request-id cannot be given for all of them", s.file, len(specs))
	}
	if len(specs) > 1 && s.follow {
		return nil, usagef("%s has %d jobs: --follow is for one; use --wait", s.file, len(specs))
	}
	for _, spec := range specs {
		if err := s.flags.apply(cmd.Flags(), spec); err != nil {
			return nil, err
		}
		if len(args) > 0 {
			spec.Command, spec.Args = args, nil
		}
		if s.follow && spec.GetArray().GetCount() > 0 {
			return nil, usagef("an array prints nothing itself: use --wait instead of --follow")
		}
	}
	return specs, nil
}

func (s *submission) run(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	if len(specs) > 1 {
		return s.batch(ctx, c, specs)
	}
	answer, err := c.Submit(ctx, specs[0])
	if err != nil {
		return err
	}
	id := clean(answer.GetJobId())
	s.warn("", answer.GetWarnings())
	if s.follow {
		say(s.app.err, "%s %s\n", id, clean(answer.GetStatus()))
		return s.followTo(ctx, c, id)
	}
	err = s.app.print(&s.out, answer, func(w io.Writer, _ proto.Message) { say(w, "%s\n", id) })
	if err != nil {
		return err
	}
	if s.wait {
		return s.waitAll(ctx, c, []string{id})
	}
	if answer.GetStatus() == "duplicate" {
		say(s.app.err, "this request was accepted before; the job is %s\n", clean(answer.GetState()))
	}
	if specs[0].GetArray().GetCount() > 0 {
		say(s.app.err, "see its elements with: %s job list --array %s\n", s.app.again(), id)
		return nil
	}
	say(s.app.err, "follow it with: %s job logs -f %s\n", s.app.again(), id)
	return nil
}

// warn prints what speaks against a job that was accepted.
func (s *submission) warn(of string, warnings []string) {
	for _, text := range warnings {
		say(s.app.err, "warning: %s%s\n", of, clean(text))
	}
}

func (s *submission) batch(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	answer, err := c.SubmitBatch(ctx, specs)
	printed := s.app.print(&s.out, answer, func(w io.Writer, _ proto.Message) {
		for i, r := range answer.GetResults() {
			if r.GetStatus() == "refused" {
				say(s.app.err, "ares: job %d (%s): %s\n", i+1, clean(specs[i].GetName()), clean(r.GetError()))
				continue
			}
			s.warn(fmt.Sprintf("job %d (%s): ", i+1, clean(specs[i].GetName())), r.GetWarnings())
			say(w, "%s\n", clean(r.GetJobId()))
		}
	})
	if err = errors.Join(err, printed); err != nil {
		return err
	}
	say(s.app.err, "%d submitted, %d known already, %d refused; see them with: %s job list\n", answer.GetAccepted(), answer.GetDuplicates(), answer.GetRefused(), s.app.again())
	if s.wait {
		var ids []string
		for _, r := range answer.GetResults() {
			if r.GetJobId() != "" && r.GetStatus() != "refused" {
				ids = append(ids, r.GetJobId())
			}
		}
		if err := s.waitAll(ctx, c, ids); err != nil {
			return err
		}
	}
	if answer.GetRefused() > 0 {
		return &exitError{exitRefused}
	}
	return nil
}

func (s *submission) waitAll(ctx context.Context, c *client.Client, ids []string) error {
	failed := false
	for _, id := range ids {
		job, err := c.Wait(ctx, id)
		if err != nil {
			return interrupted(ctx, id, err)
		}
		say(s.app.err, "%s %s\n", clean(id), ending(job))
		failed = failed || job.GetState() != string(ares.Succeeded)
	}
	if failed {
		return &exitError{exitFailed}
	}
	return nil
}

func (s *submission) followTo(ctx context.Context, c *client.Client, id string) error {
	out, flush := s.app.logWriter()
	job, err := c.Follow(ctx, id, 0, out, s.app.nextAttempt)
	if err = errors.Join(err, flush()); err != nil {
		return interrupted(ctx, id, err)
	}
	if job.GetState() == string(ares.Succeeded) {
		return nil
	}
	say(s.app.err, "ares: %s %s\n", id, ending(job))
	if code := int(job.GetResult().GetExitCode()); code > 0 && code < 256 {
		return &exitError{code}
	}
	return &exitError{exitFailed}
}

// interrupted says that a job goes on although nobody looks any more.
func interrupted(ctx context.Context, id string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no longer waiting, but the job goes on: see it with ares job get %s, or end it with ares job cancel %s", id, id)
	}
	return err
}

// specFlags are the fields of a job that have a flag.
type specFlags struct {
	text      map[string]*string
	number    map[string]*int32
	requestID string
	deadline  string
	env       []string
	labels    []string
	after     []string
	require   []string
	gang      bool
}

// Flags of a job's text and number fields, with the field each sets.
var (
	textFlags = []struct{ flag, field, usage string }{
		{"name", "name", "name of the job"},
		{"tenant-id", "tenant_id", `tenant it belongs to (default "default")`},
		{"queue", "queue", "queue it waits in"},
		{"priority-class", "priority_class", "best-effort, low, normal, high or critical; instead of --priority"},
		{"gpu-model", "gpu_model", "model of GPU"},
		{"mig-profile", "mig_profile", "MIG profile, such as 1g.10gb"},
		{"accelerator-type", "accelerator_type", "gpu, tpu, fpga or custom"},
		{"workdir", "working_dir", "directory to run in, absolute"},
		{"image", "image", "container image"},
		{"execution-mode", "execution_mode", "restart, or at_most_once: never run again after its node is lost"},
	}
	numberFlags = []struct{ flag, field, usage string }{
		{"gpus", "gpu_count", "whole GPUs for each member"},
		{"gpu-milli", "gpu_milli", "thousandths of one GPU, instead of --gpus"},
		{"gpu-memory-mb", "gpu_memory_mb", "GPU memory of a member, over all its GPUs"},
		{"cpus", "cpu_cores", "CPU cores for each member"},
		{"memory-mb", "memory_mb", "memory for each member"},
		{"priority", "priority", "0 to 1000000, higher first (default 500)"},
		{"members", "members", "processes of the job, placed all or none (default 1)"},
		{"min-members", "min_members", "the fewest members an attempt may start with (default all)"},
		{"max-runtime-minutes", "max_runtime_minutes", "time limit of one attempt"},
		{"max-queue-minutes", "max_queue_minutes", "end it when it has waited this long for its first place"},
		{"grace-seconds", "grace_seconds", "between SIGTERM and SIGKILL (default 30)"},
		{"lost-after-seconds", "lost_after_seconds", "how long a silent node keeps the job (default 30)"},
	}
)

func (s *specFlags) add(f *pflag.FlagSet) {
	s.text, s.number = map[string]*string{}, map[string]*int32{}
	for _, t := range textFlags {
		s.text[t.field] = f.String(t.flag, "", t.usage)
	}
	for _, n := range numberFlags {
		s.number[n.field] = f.Int32(n.flag, 0, n.usage)
	}
	f.Int32("max-retries", 0, "how often a failure is tried again (default 3)")
	f.StringVar(&s.deadline, "deadline", "", "time it should be done by, such as 2026-03-01T18:00:00Z, or so long from now, such as 2h30m")
	f.StringVar(&s.requestID, "request-id", "", "makes the submission repeatable: the same ID is the same job")
	f.StringArrayVar(&s.env, "env", nil, "environment variable NAME=VALUE; may be repeated")
	f.StringArrayVar(&s.labels, "label", nil, "label NAME=VALUE; may be repeated")
	f.StringSliceVar(&s.after, "after", nil, "jobs that must have succeeded first")
	f.StringArrayVar(&s.require, "constraint", nil, "conditions on nodes and their GPUs, such as 'gpu.memory>=80G,!spot'; may be repeated, all must hold")
	f.BoolVar(&s.gang, "gang-scheduling", true, "place all members or none; without it as many as fit. With it, --gpus beyond the largest node and no --members are split over nodes")
	f.Int32("array", 0, "run this many alike elements, each with its ARES_ARRAY_INDEX from 0")
	f.Int32("parallelism", 0, "elements under way at once (default all)")
}

// apply puts the flags that were given into spec.
func (s *specFlags) apply(f *pflag.FlagSet, spec *apipb.JobSpec) error {
	m := spec.ProtoReflect()
	fields := m.Descriptor().Fields()
	for _, t := range textFlags {
		if f.Changed(t.flag) {
			m.Set(fields.ByTextName(t.field), valueOf(*s.text[t.field]))
		}
	}
	for _, n := range numberFlags {
		if f.Changed(n.flag) {
			m.Set(fields.ByTextName(n.field), valueOf(*s.number[n.field]))
		}
	}
	if f.Changed("max-retries") {
		n, err := f.GetInt32("max-retries")
		must(err)
		if spec.Retry == nil {
			spec.Retry = &apipb.RetryPolicy{}
		}
		spec.Retry.MaxRetries = &n
	}
	for _, n := range []string{"array", "parallelism"} {
		if !f.Changed(n) {
			continue
		}
		v, err := f.GetInt32(n)
		must(err)
		if spec.Array == nil {
			spec.Array = &apipb.Array{}
		}
		if n == "array" {
			spec.Array.Count = v
		} else {
			spec.Array.Parallelism = v
		}
	}
	if s.requestID != "" {
		spec.RequestId = s.requestID
	}
	if f.Changed("gang-scheduling") {
		spec.GangScheduling = &s.gang
	}
	if len(s.after) > 0 {
		spec.After = s.after
	}
	if s.deadline != "" {
		at, err := deadlineOf(s.deadline, time.Now())
		if err != nil {
			return err
		}
		spec.Deadline = apipb.Timestamp(at)
	}
	return errors.Join(assign(&spec.Environment, "--env", s.env), assign(&spec.Labels, "--label", s.labels), s.constrain(spec))
}

// deadlineOf reads a time, or how far away it is.
func deadlineOf(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	within, err := time.ParseDuration(text)
	if err != nil || within <= 0 {
		return time.Time{}, usagef("--deadline %s: write it as 2026-03-01T18:00:00Z, or as 2h30m for so long from now", text)
	}
	return now.Add(within).Truncate(time.Second), nil
}

func assign(m *map[string]string, flag string, assignments []string) error {
	for _, text := range assignments {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return usagef("%s %s: write it as NAME=VALUE", flag, text)
		}
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[k] = v
	}
	return nil
}
