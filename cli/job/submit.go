package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// The type `submission` holds the flags of one `ares job submit` command.
type submission struct {
	app    *commands
	out    output.Flags
	file   string
	wait   bool
	follow bool
	flags  specFlags
	code   codeFlag
	// session says how the command of an interactive job is run. It is empty for other jobs.
	session execFlags

	fallback []string // the command of a job that has none; without it, such a job is an error
}

func (a *commands) submitCommand() *cobra.Command { return a.submitCommandWith(nil) }

// submitCommandWith returns the command that submits jobs. The argument `fallback` is the command of a job that has none.
func (a *commands) submitCommandWith(fallback []string) *cobra.Command {
	s := &submission{app: a, fallback: fallback}
	c := &cobra.Command{
		Use:   "submit [flags] -- command args... | submit -f FILE",
		Short: "Submit jobs",
		Long: `Submit a job that is described by flags, by a file, or by both; flags override the file.

A job file is YAML or JSON with the fields of the API. The file name "-" means standard input. A
file can contain several jobs, either as YAML documents or as a list under "jobs:". All jobs of
a file are submitted together.

--constraint selects the nodes for the job. Separate several conditions with commas. A node
must meet every condition:

  key=value, key!=value                 the node's label has this value, or another value
  key in (a, b), key notin (a, b)       one of these values, or none of them
  key>=2T, key<=2T                      the label is a number, compared with units
  key, !key                             the node has the label, or does not have it

Three keys describe GPUs, not node labels: gpu.model, gpu.memory and gpu.count. Conditions on
gpu.model and gpu.memory must hold for each GPU of the job. The key gpu.count is the number of
GPUs of the node. The condition gpu.model=h100 matches every model with h100 in its name. A
value of gpu.memory without a unit is in MB.

With --sync, the job gets a copy of a directory of this machine as its working directory. A
retry runs the same copy. Files named .aresignore, with the rules of .gitignore files, say what
to leave out. Without --sync, the job starts in an empty directory on its node.

The command prints the job's ID. With --follow, the command prints the job's output instead
of the ID, and exits with the job's exit code.`,
		Example: `  ares job submit --name hello -- echo hello
  ares job submit --sync . --name train --gpus 4 --tenant-id vision -- python train.py --epochs 10
  ares job submit --sync . --gpus 1 --constraint 'gpu.memory>=40G,!spot' -- python train.py
  ares job submit -f job.yaml --wait`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			specs, err := s.specs(cmd, args)
			if err == nil {
				err = s.code.check(a.App, specs, s.file == "" && s.fallback == nil)
			}
			if err != nil {
				return err
			}
			return a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := s.code.attach(ctx, a.App, c, specs); err != nil {
					return err
				}
				if err := s.resolveDependencies(ctx, c, specs); err != nil {
					return err
				}
				return s.run(ctx, c, specs)
			})(cmd, args)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "file with the job, YAML or JSON; - for standard input")
	f.BoolVar(&s.wait, "wait", false, "wait until the job ends; exit with 1 unless it succeeded")
	f.BoolVar(&s.follow, "follow", false, "print the job's output until it ends, and exit with its exit code")
	s.code.add(f)
	s.flags.add(f)
	s.flags.addAttach(f)
	completeConstraint(c)
	s.out.AddOutput(c)
	return c
}

// The method `specs` returns the jobs that the command line and the file describe.
func (s *submission) specs(cmd *cobra.Command, args []string) ([]*apipb.JobSpec, error) {
	if n := cmd.ArgsLenAtDash(); n > 0 || n < 0 && len(args) > 0 {
		return nil, exit.Usagef("put the job's command after --, such as: %s --name hello -- %s", cmd.CommandPath(), output.CommandLine(args))
	}
	specs := []*apipb.JobSpec{{}}
	if s.file != "" {
		var err error
		if specs, err = s.app.readJobs(s.file); err != nil {
			return nil, err
		}
	} else if len(args) == 0 && s.fallback != nil {
		output.Printf(s.app.Err, "warning: the job has no command, so it prints its GPUs and ends: add a command after --\n")
		args = s.fallback
	} else if len(args) == 0 && !cmd.Flags().Changed("image") {
		return nil, exit.Usagef("the job has no command: use %s --name hello -- echo hello, or -f FILE", cmd.CommandPath())
	}
	if len(specs) > 1 && (len(args) > 0 || s.flags.requestID != "") {
		return nil, exit.Usagef("%s has %d jobs: a command or --request-id works with one job only", s.file, len(specs))
	}
	if len(specs) > 1 && s.follow {
		return nil, exit.Usagef("%s has %d jobs: --follow works with one job: use --wait", s.file, len(specs))
	}
	for i, spec := range specs {
		if err := s.flags.apply(cmd.Flags(), spec); err != nil {
			return nil, err
		}
		spec, err := s.app.withDefaults(spec)
		if err != nil {
			return nil, err
		}
		specs[i] = spec
		if len(args) > 0 {
			spec.Command, spec.Args = args, nil
		}
		if s.follow && spec.GetArray().GetCount() > 0 {
			return nil, exit.Usagef("an array has no output of its own: use --wait instead of --follow")
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
		return s.located(0, err)
	}
	id := output.Clean(answer.GetJobId())
	s.warn("", answer.GetWarnings())
	if s.follow {
		output.Printf(s.app.Err, "%s %s\n", id, output.Clean(answer.GetStatus()))
		return s.followTo(ctx, c, id)
	}
	err = s.app.Print(&s.out, answer, func(w io.Writer, _ proto.Message) { output.Printf(w, "%s\n", id) })
	if err != nil {
		return err
	}
	if s.wait {
		return s.waitAll(ctx, c, []string{id})
	}
	if answer.GetStatus() == "duplicate" {
		output.Printf(s.app.Err, "this request was accepted before; its job is %s\n", output.Clean(answer.GetState()))
	}
	if specs[0].GetArray().GetCount() > 0 {
		output.Printf(s.app.Err, "list its elements with: %s job list --array %s\n", s.app.Invocation(), id)
		return nil
	}
	output.Printf(s.app.Err, "follow it with: %s job logs -f %s\n", s.app.Invocation(), id)
	return nil
}

// The method `warn` prints the warnings that the server returned for an accepted job.
func (s *submission) warn(of string, warnings []string) {
	for _, text := range warnings {
		output.Printf(s.app.Err, "warning: %s%s\n", of, output.Clean(text))
	}
}

func (s *submission) batch(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	answer, err := c.SubmitBatch(ctx, specs)
	printed := s.app.Print(&s.out, answer, func(w io.Writer, _ proto.Message) {
		for i, r := range answer.GetResults() {
			if r.GetStatus() == "refused" {
				output.Printf(s.app.Err, "ares: job %d (%s): %s\n", i+1, output.Clean(specs[i].GetName()), output.Clean(r.GetError()))
				continue
			}
			s.warn(fmt.Sprintf("job %d (%s): ", i+1, output.Clean(specs[i].GetName())), r.GetWarnings())
			output.Printf(w, "%s\n", output.Clean(r.GetJobId()))
		}
	})
	if err = errors.Join(err, printed); err != nil {
		return err
	}
	output.Printf(s.app.Err, "%d submitted, %d submitted before, %d refused; list them with: %s job list\n", answer.GetAccepted(), answer.GetDuplicates(), answer.GetRefused(), s.app.Invocation())
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
		return &exit.Error{Code: exit.Refused}
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
		output.Printf(s.app.Err, "%s %s\n", output.Clean(id), ending(job))
		failed = failed || job.GetState() != string(ares.Succeeded)
	}
	if failed {
		return &exit.Error{Code: exit.Failed}
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
	output.Printf(s.app.Err, "ares: %s %s\n", id, ending(job))
	if code := int(job.GetResult().GetExitCode()); code > 0 && code < 256 {
		return &exit.Error{Code: code}
	}
	return &exit.Error{Code: exit.Failed}
}

// The function `interrupted` tells the user that the job continues although the command no
// longer waits for it.
func interrupted(ctx context.Context, id string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("stopped waiting, but the job continues: show it with \"ares job get %s\", or cancel it with \"ares job cancel %s\"", id, id)
	}
	return err
}

// specFlags are the flags that set fields of a job.
type specFlags struct {
	text          map[string]*string
	number        map[string]*int32
	requestID     string
	deadline      string
	env           []string
	labels        []string
	after         []string
	require       []string
	notify        []string
	gang          bool
	preempt       bool
	mixed         bool
	containerRoot bool
	stdin         bool // with tty, only for commands with addAttach
	tty           bool

	secretEnv, secretFile []string
	mounts                []string
	start                 startFlags
	cpus                  cpuFlag
	federation            federationFlags
}

// These flags set fields of a job that are texts or numbers. Each entry names the field that its
// flag sets.
var (
	textFlags = []struct{ flag, field, usage string }{
		{"name", "name", "name of the job"},
		{"tenant-id", "tenant_id", "tenant of the job (default that of the context, else your own)"},
		{"queue", "queue", "queue of the job (default that of the context, else default)"},
		{"priority-class", "priority_class", "best-effort, low, normal, high or critical; instead of --priority"},
		{"gpu-model", "gpu_model", "GPU model, or several separated by |; without it, all members get GPUs of one model"},
		{"mig-profile", "mig_profile", "MIG profile, such as 1g.10gb"},
		{"accelerator-type", "accelerator_type", "gpu, tpu, fpga or custom"},
		{"workdir", "working_dir", "working directory: an absolute path on the node or, with --sync, a path inside the synced directory"},
		{"image", "image", "container image: HOST/NAME:TAG, or oci-archive:, docker-archive: or dir: with a path on the nodes"},
		{"network", "network", "network of the job: host (default), or none for only a loopback interface of its own"},
		{"execution-mode", "execution_mode", "restart (default), or at_most_once to never run the job again after it failed or its node was lost"},
		{"on-partition", "on_partition", "at a hub, when the job's cluster is silent: wait for it (default), or fence to run the job in another cluster"},
	}
	numberFlags = []struct{ flag, field, usage string }{
		{"gpu-milli", "gpu_milli", "thousandths of one GPU, instead of --gpus"},
		{"gpu-memory-mb", "gpu_memory_mb", "GPU memory of each member, summed over its GPUs"},
		{"memory-mb", "memory_mb", "memory for each member"},
		{"priority", "priority", "5 to 1000000, higher first (default 500); 0 to 4 are the levels critical, high, normal, low and best-effort"},
		{"members", "members", "number of members, which start together; see --min-members and --gang-scheduling (default 1)"},
		{"min-members", "min_members", "minimum number of members with which an attempt can start (default all)"},
		{"max-runtime-minutes", "max_runtime_minutes", "time limit of one attempt"},
		{"max-queue-minutes", "max_queue_minutes", "cancel the job if it has not started after waiting this long"},
		{"grace-seconds", "grace_seconds", "time between SIGTERM and SIGKILL (default 30)"},
		{"lost-after-seconds", "lost_after_seconds", "time after which a job on an unreachable node is placed elsewhere (default 25)"},
		{"cluster-lost-after-seconds", "cluster_lost_after_seconds", "with --on-partition fence: time after which a job of a silent cluster runs in another one, 60 to 86400"},
	}
)

// addAttach adds the flags for jobs to which users can write. They have other meanings for ares run.
func (s *specFlags) addAttach(f *pflag.FlagSet) {
	f.BoolVar(&s.stdin, "stdin", false, "give the command a standard input, to which ares attach sends")
	f.BoolVar(&s.tty, "tty", false, "give the command a terminal, to which ares attach connects")
}

func (s *specFlags) add(f *pflag.FlagSet) {
	s.text, s.number = map[string]*string{}, map[string]*int32{}
	for _, t := range textFlags {
		s.text[t.field] = f.String(t.flag, "", t.usage)
	}
	s.start.add(f)
	s.federation.add(f)
	for _, n := range numberFlags {
		s.number[n.field] = f.Int32(n.flag, 0, n.usage)
	}
	f.Var(&s.cpus, "cpus", "CPU cores for each member, such as 8 or 0.5")
	f.Int32("max-retries", 0, "maximum number of retries after a failure (default 3)")
	f.StringVar(&s.deadline, "deadline", "", "time by which the job should end, such as 2026-03-01T18:00:00Z, or 2h30m from now")
	f.StringArrayVar(&s.notify, "notify", nil, "notify you about events of the job: begin, end, fail or requeue, by mail, slack or a webhook, such as end,fail=mail;\nmay be repeated")
	f.StringVar(&s.requestID, "request-id", "", "ID of this request: repeating it returns the same job")
	f.StringArrayVar(&s.env, "env", nil, "environment variable NAME=VALUE; may be repeated")
	f.StringArrayVar(&s.secretEnv, "secret-env", nil, "secret as an environment variable, VARIABLE=SECRET or VARIABLE=SECRET/KEY; may be repeated")
	f.StringArrayVar(&s.secretFile, "secret-file", nil, "secret as a file in the directory $ARES_SECRETS_DIR, FILE=SECRET or FILE=SECRET/KEY; may be repeated")
	f.StringArrayVar(&s.mounts, "mount", nil, "with --image: a file or directory of the node that the job sees, SOURCE:TARGET or SOURCE:TARGET:ro; may be repeated")
	f.BoolVar(&s.containerRoot, "container-root", false, "with --image: the job is root in its image, in a user namespace; outside of it, it is the job's user")
	f.StringArrayVar(&s.labels, "label", nil, "label NAME=VALUE; may be repeated")
	f.StringSliceVar(&s.after, "after", nil, "jobs that must succeed first: their IDs or names, or @last")
	f.StringArrayVar(&s.require, "constraint", nil, "conditions on nodes and their GPUs, such as 'gpu.memory>=80G,!spot'; may be repeated; a node must meet all of them")
	f.BoolVar(&s.gang, "gang-scheduling", true, "start only when all members can be placed; --gang-scheduling=false starts as many members as fit. A job with more --gpus than the largest node\nhas, and without --members, is split over nodes")
	f.BoolVar(&s.mixed, "allow-mixed-models", false, "the members may get GPUs of different models; by default all members get one model")
	f.BoolVar(&s.preempt, "preemptible", false, "the job may be stopped for a shorter job of its queue and class, and runs again later; the default is true for a job with\ncheckpoint.enabled")
	f.Int32("array", 0, "number of array elements, which all run the same command; ARES_ARRAY_INDEX is the index of an element, from 0")
	f.Int32("parallelism", 0, "maximum number of elements at once (default all)")
}

// The method `apply` sets those fields of the job spec for which the user gave a flag.
func (s *specFlags) apply(f *pflag.FlagSet, spec *apipb.JobSpec) error {
	m := spec.ProtoReflect()
	fields := m.Descriptor().Fields()
	for _, t := range textFlags {
		if f.Changed(t.flag) {
			m.Set(fields.ByTextName(t.field), protoreflect.ValueOf(*s.text[t.field]))
		}
	}
	for _, n := range numberFlags {
		if f.Changed(n.flag) {
			m.Set(fields.ByTextName(n.field), protoreflect.ValueOf(*s.number[n.field]))
		}
	}
	s.cpus.apply(f, spec)
	spec.Stdin, spec.Tty, spec.ContainerRoot = spec.GetStdin() || s.stdin, spec.GetTty() || s.tty, spec.GetContainerRoot() || s.containerRoot
	if f.Changed("max-retries") {
		n, err := f.GetInt32("max-retries")
		output.Must(err)
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
		output.Must(err)
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
	if f.Changed("preemptible") {
		spec.Preemptible = &s.preempt
	}
	for _, text := range s.notify {
		if _, err := ares.ParseNotifyRule(text); err != nil {
			return exit.Usagef("--notify: %s", err)
		}
	}
	if len(s.notify) > 0 {
		spec.Notify = s.notify
	}
	if len(s.after) > 0 {
		spec.After = s.after
	}
	if f.Changed("allow-mixed-models") {
		spec.AllowMixedModels = s.mixed
	}
	if s.deadline != "" {
		at, err := deadlineOf(s.deadline, time.Now())
		if err != nil {
			return err
		}
		spec.Deadline = apipb.Timestamp(at)
	}
	return errors.Join(command.AssignPairs(&spec.Environment, "--env", s.env), command.AssignPairs(&spec.Labels, "--label", s.labels), s.constrain(spec), s.secrets(spec), s.mount(spec), s.federation.apply(spec), s.start.apply(f, spec, time.Now()))
}

// deadlineOf parses a time, or a duration that is added to the current time.
func deadlineOf(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	within, err := time.ParseDuration(text)
	if err != nil || within <= 0 {
		return time.Time{}, exit.Usagef("--deadline %s: use a time such as 2026-03-01T18:00:00Z, or a duration such as 2h30m", text)
	}
	return now.Add(within).Truncate(time.Second), nil
}
