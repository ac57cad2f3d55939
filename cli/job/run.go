package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// runCommand returns the command that submits a job, prints its output and ends with its exit code.
func (a *commands) runCommand() *cobra.Command {
	s := &submission{app: a, follow: true}
	c := &cobra.Command{
		Use:   "run [flags] -- command args... | run -f FILE",
		Short: "Run a job: submit it, print its output and exit with its exit code",
		Long: `Submit a job, print the output of its rank 0 until it ends, and exit with the job's exit code.
The command takes the same flags and files as "ares job submit".

The exit code is 125 if Ares itself failed: no server answered, the server refused the job, the
job could not be started, or it was cancelled or lost. If a signal ended the job, the exit code
is 128 plus the number of the signal.

In a terminal, the first Ctrl-C asks whether to cancel the job or to detach from it. A second
Ctrl-C detaches, and so does a Ctrl-C without a terminal. The exit code is then 130. The job
continues after you detach: follow it again with "ares logs -f JOB".

With -i or -t, as in "ares run -it --gpus 1 -- bash", the job is interactive: when it has its allocation, the command runs in a session
with it, as with "ares exec", and standard input is sent to it. With -t, it gets a terminal, and
Ctrl-C goes to it. The job ends with the command and its exit code; it is never retried. Ctrl-C
while the job waits cancels it. If the connection is lost, or ares is killed, the command ends,
and the job a minute later. The program sh must be on the node, or in the job's image.`,
		Example: `  ares run --name hello -- echo hello
  ares run --sync . -- python train.py
  ares run --gpus 2 -- sh -c 'echo "GPUs: $CUDA_VISIBLE_DEVICES"'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			specs, err := s.specs(cmd, args)
			if err != nil {
				return a.asRunError(err)
			}
			if len(specs) > 1 {
				return exit.Usagef("%s has %d jobs, but ares run runs one: use ares submit -f %s", s.file, len(specs), s.file)
			}
			if err := s.code.check(a.App, specs, s.file == ""); err != nil {
				return a.asRunError(err)
			}
			if err := s.checkSession(specs[0]); err != nil {
				return err
			}
			return a.asRunError(a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := s.code.attach(ctx, a.App, c, specs); err != nil {
					return err
				}
				if s.session.isInteractive() {
					return s.interactive(ctx, c, specs[0])
				}
				return s.attached(ctx, c, specs)
			})(cmd, args))
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "file with the job, YAML or JSON; - for standard input")
	s.session.addInput(c)
	s.code.add(f)
	s.flags.add(f)
	completeConstraint(c)
	return c
}

// asRunError reports an error of Ares itself and returns the exit code for it, which no job has by accident. A mistake on
// the command line keeps its own exit code.
func (a *commands) asRunError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exit.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*exit.UsageError](err); ok {
		return err
	}
	a.Report(err)
	return &exit.Error{Code: exit.AresFailed}
}

// The method `attached` submits one job, prints its output and returns its exit code as an error. The job is followed even
// after the user has pressed Ctrl-C, until the user decides what to do.
func (s *submission) attached(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	second := make(chan os.Signal, 2) // while it is registered, Ctrl-C does not end the program
	signal.Notify(second, os.Interrupt)
	defer signal.Stop(second)
	if err := s.resolveDependencies(ctx, c, specs); err != nil {
		return err
	}
	answer, err := c.Submit(ctx, specs[0])
	if err != nil {
		return s.located(0, err)
	}
	id := output.Clean(answer.GetJobId())
	s.warn("", answer.GetWarnings())
	output.Printf(s.app.Err, "%s %s\n", id, output.Clean(answer.GetStatus()))

	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.followJob(following, c, id) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select { // the signal that cancelled ctx
	case <-second:
	default:
	}
	choice := s.askToCancel(following, id, second, ended)
	switch choice.what {
	case wantsEnd:
		return choice.err
	case wantsCancel:
		if _, err := c.Cancel(following, id); err != nil {
			stop()
			<-ended
			return fmt.Errorf("cancel %s: %w", id, err)
		}
		return s.awaitCancelled(second, ended, stop, id)
	}
	stop()
	<-ended
	output.Printf(s.app.Err, "detached: %s continues; follow it with: %s logs -f %s\n", id, s.app.Invocation(), id)
	return &exit.Error{Code: exit.Interrupted}
}

// awaitCancelled waits until a job that the user has cancelled has ended. Another Ctrl-C ends the wait.
func (s *submission) awaitCancelled(second <-chan os.Signal, ended <-chan error, stop func(), id string) error {
	output.Printf(s.app.Err, "cancelling %s; press Ctrl-C to stop waiting for its end\n", id)
	select {
	case err := <-ended:
		if _, ok := errors.AsType[*exit.Error](err); err != nil && !ok {
			return err
		}
	case <-second:
		stop()
		<-ended
	}
	return &exit.Error{Code: exit.Interrupted}
}

// followJob prints the output of a job until the job has ended, and returns its exit code as an error.
func (s *submission) followJob(ctx context.Context, c *client.Client, id string) error {
	out, flush := s.app.logWriter()
	job, err := c.Follow(ctx, id, 0, out, s.app.nextAttempt)
	if err = errors.Join(err, flush()); err != nil {
		return err
	}
	if job.GetState() == string(ares.Succeeded) {
		return nil
	}
	output.Printf(s.app.Err, "ares: %s %s\n", id, ending(job))
	return &exit.Error{Code: exitCodeOf(job)}
}

// exitCodeOf returns the exit code of "ares run" for a job that did not succeed. It is the job's own exit code, 128 plus
// the number of the signal that ended it, or the code for a failure of Ares.
func exitCodeOf(job *apipb.Job) int { return exitCodeOfResult(job.GetResult()) }

func exitCodeOfResult(r *apipb.JobResult) int {
	if code := int(r.GetExitCode()); code > 0 && code < 256 {
		return code
	}
	number := 0
	if r.GetOutcome() == string(ares.OutcomeSignaled) {
		if n, err := fmt.Sscanf(r.GetReason(), "ended by signal %d", &number); n == 1 && err == nil && number > 0 && number < 128 {
			return 128 + number
		}
	}
	return exit.AresFailed
}

// The type `answer` is what the user wants after the first Ctrl-C.
type answer struct {
	what int
	err  error // with wantsEnd: the result of the job, which ended before the user answered
}

const (
	wantsDetach = iota
	wantsCancel
	wantsEnd
)

// askToCancel asks the user of a terminal whether to cancel the job. Without a terminal, the job continues. It also
// continues after a second Ctrl-C, and when the input ends.
func (s *submission) askToCancel(ctx context.Context, id string, second <-chan os.Signal, ended chan error) answer {
	in, ok := s.app.In.(*os.File)
	if !ok || !output.IsTerminal(in) {
		return answer{what: wantsDetach}
	}
	lines := make(chan string)
	go func() { // it ends with the program: a read from a terminal cannot be interrupted
		scan := bufio.NewScanner(in)
		for scan.Scan() {
			select {
			case lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
		close(lines)
	}()
	for {
		output.Printf(s.app.Err, "\n%s has not ended. Type c to cancel it, d to detach and let it continue, or w to keep waiting: ", id)
		select {
		case err := <-ended:
			output.Printf(s.app.Err, "\n")
			return answer{wantsEnd, err}
		case <-second:
			output.Printf(s.app.Err, "\n")
			return answer{what: wantsDetach}
		case line, open := <-lines:
			switch word := strings.ToLower(strings.TrimSpace(line)); {
			case !open:
				return answer{what: wantsDetach}
			case word != "" && strings.HasPrefix("cancel", word):
				return answer{what: wantsCancel}
			case word != "" && strings.HasPrefix("detach", word):
				return answer{what: wantsDetach}
			case word != "" && strings.HasPrefix("wait", word):
				output.Printf(s.app.Err, "waiting; press Ctrl-C to be asked again\n")
				select {
				case err := <-ended:
					return answer{wantsEnd, err}
				case <-second: // ask again
				}
			}
		}
	}
}

// resolveDependencies replaces references in `after`, such as names, by the IDs of the jobs. A reference to no job is an
// unknown dependency.
func (s *submission) resolveDependencies(ctx context.Context, c *client.Client, specs []*apipb.JobSpec) error {
	for n, spec := range specs {
		for i, reference := range spec.GetAfter() {
			id, err := s.app.resolve(ctx, c, reference, toAwait)
			switch {
			case err == nil:
				spec.After[i] = id
			default:
				return s.located(n, unknownDependency(fmt.Sprintf("after[%d]", i), err))
			}
		}
		for i, text := range spec.GetStart().GetDependencies() {
			list, err := ares.ParseDependencies(text)
			if err != nil {
				continue // the server says what is wrong with it
			}
			words := make([]string, len(list))
			for k, d := range list {
				if words[k] = d.String(); d.Job == "" {
					continue
				}
				id, err := s.app.resolve(ctx, c, string(d.Job), toAwait)
				switch {
				case err == nil:
					words[k] = ares.Dependency{Type: d.Type, Job: ares.JobID(id)}.String()
				default:
					return s.located(n, unknownDependency(fmt.Sprintf("start.dependencies[%d]", i), err))
				}
			}
			spec.Start.Dependencies[i] = strings.Join(words, ",")
		}
	}
	return nil
}

// unknownDependency returns the error for a dependency that could not be resolved.
func unknownDependency(field string, err error) error {
	if ares.CodeOf(err) != ares.NotFound {
		return err
	}
	return ares.Errorf(ares.DependencyUnknown, "%s: %s", field, err).At(field)
}
