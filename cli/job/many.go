package job

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// maxChanges is how many jobs one command changes at the same time. The server gives one caller at most half of its
// concurrent writes, so other commands of the same user still find room.
const maxChanges = 32

// A change is a command that changes jobs one by one: those that are named, or those that are selected.
type change struct {
	verb string // such as "cancel"
	done string // such as "cancelled"
	why  purpose
	// The states of the jobs that are selected by their properties; by default those of why.
	selects []string
	// The function `apply` changes one job. If the argument `only` is not empty, the job must be in one of these states.
	// The result is the server's answer and the word for what happened.
	apply func(ctx context.Context, c *client.Client, id string, only []string) (answer proto.Message, status string, err error)
}

// run returns the function of a cobra command.
func (ch *change) run(a *commands, s *selector, o *output.Flags) func(*cobra.Command, []string) error {
	if s.states = ch.selects; s.states == nil {
		s.states = ch.why.states
	}
	return func(cmd *cobra.Command, args []string) error {
		if err := s.check(ch.verb, args); err != nil {
			return err
		}
		return a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) > 0 {
				return ch.named(ctx, a, c, s, o, args)
			}
			return ch.selected(ctx, a, c, s, o)
		})(cmd, args)
	}
}

// The method `named` changes the jobs that the arguments name. It changes none if one of the arguments does not name
// exactly one job. Of several jobs, those that have already ended are reported, and the others are changed.
func (ch *change) named(ctx context.Context, a *commands, c *client.Client, s *selector, o *output.Flags, args []string) error {
	ids, err := a.resolveAll(ctx, c, args, ch.why)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if s.dryRun {
			output.Printf(a.Out, "%s\n", output.Clean(id))
			continue
		}
		answer, status, err := ch.apply(ctx, c, id, nil)
		if len(ids) > 1 && ares.CodeOf(err) == ares.Conflict {
			output.Printf(a.Err, "%s %s\n", output.Clean(id), output.Clean(err.Error()))
			continue
		}
		if err != nil {
			return err
		}
		if err := a.Print(o, answer, func(w io.Writer, _ proto.Message) {
			output.Printf(w, "%s %s\n", output.Clean(id), output.Clean(status))
		}); err != nil {
			return err
		}
	}
	return nil
}

// The method `selected` lists the selected jobs, asks the user, and changes exactly the jobs that were listed.
func (ch *change) selected(ctx context.Context, a *commands, c *client.Client, s *selector, o *output.Flags) error {
	list, err := s.find(ctx, c)
	if err != nil {
		return err
	}
	jobs := list.GetJobs()
	switch {
	case len(jobs) == 0:
		output.Printf(a.Err, "no job matches, so nothing is %s\n", ch.done)
		return nil
	case s.dryRun:
		return a.Print(o, list, func(w io.Writer, _ proto.Message) {
			a.WriteTable(w, a.jobTable(list, true))
			output.Printf(w, "%s would be %s; leave out --dry-run to do it\n", output.Count(int32(len(jobs)), "job"), ch.done)
		})
	case !s.yes:
		if ok, err := ch.confirm(ctx, a, jobs); !ok || err != nil {
			return err
		}
	}
	t := &tally{of: len(jobs)}
	ch.applyAll(ctx, c, s, jobs, t, func(answer proto.Message) error {
		if o.Format == "table" {
			return nil
		}
		return a.Print(o, answer, nil)
	})
	return t.report(a, ch, ctx.Err())
}

// confirm asks the user of a terminal whether to change the jobs. Any answer but yes changes nothing.
func (ch *change) confirm(ctx context.Context, a *commands, jobs []*apipb.Job) (bool, error) {
	what := describeJobs(jobs)
	in, ok := a.In.(*os.File)
	if !ok || !output.IsTerminal(in) {
		return false, exit.Usagef("would %s %s. Without a terminal, confirm with --yes, or list them with --dry-run", ch.verb, what)
	}
	output.Printf(a.Err, "%s %s? Type y or n: ", strings.ToUpper(ch.verb[:1])+ch.verb[1:], what)
	line := make(chan string, 1)
	go func() { // it ends with the program: a read from a terminal cannot be interrupted
		text, _ := bufio.NewReader(in).ReadString('\n')
		line <- text
	}()
	select {
	case <-ctx.Done():
		output.Printf(a.Err, "\nnothing is %s\n", ch.done)
		return false, &exit.Error{Code: exit.Interrupted}
	case text := <-line:
		if word := strings.ToLower(strings.TrimSpace(text)); word == "y" || word == "yes" {
			return true, nil
		}
		output.Printf(a.Err, "nothing is %s\n", ch.done)
		return false, &exit.Error{Code: exit.Failed}
	}
}

// applyAll changes jobs, several at a time. If the states of the selection were chosen by the user, a job that has left
// them in the meantime is not changed: a job that has started must not be cancelled as a waiting one.
func (ch *change) applyAll(ctx context.Context, c *client.Client, s *selector, jobs []*apipb.Job, t *tally, print func(proto.Message) error) {
	next := make(chan string)
	var workers sync.WaitGroup
	for range min(maxChanges, len(jobs)) {
		workers.Go(func() {
			for id := range next {
				answer, status, err := ch.apply(ctx, c, id, s.filter.GetState())
				for ares.CodeOf(err) == ares.Exhausted && ctx.Err() == nil { // the client has already waited as long as the server asked
					answer, status, err = ch.apply(ctx, c, id, s.filter.GetState())
				}
				t.add(id, answer, status, err, print)
			}
		})
	}
	for _, j := range jobs {
		select {
		case next <- j.GetJobId():
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
}

// A tally counts what became of the selected jobs.
type tally struct {
	of int

	mu      sync.Mutex
	changed int
	same    int // jobs for which there was nothing to change
	left    int // jobs that had ended, or had left the selected states
	failed  int
	first   error  // the first failure
	firstID string // its job
}

func (t *tally) add(id string, answer proto.Message, status string, err error, print func(proto.Message) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		if status == "unchanged" || status == "not_held" {
			t.same++
		} else {
			t.changed++
		}
		err = print(answer)
	}
	switch code := ares.CodeOf(err); {
	case err == nil:
	case code == ares.Conflict || code == ares.NotFound: // it was archived, or its phase has changed
		t.left++
	default:
		if t.failed++; t.first == nil {
			t.first, t.firstID = err, id
		}
	}
}

// The method `report` prints the counts, and returns the error that decides the exit code.
func (t *tally) report(a *commands, ch *change, interrupted error) error {
	text := fmt.Sprintf("%s %s", output.Count(int32(t.changed), "job"), ch.done)
	if t.same > 0 {
		text += fmt.Sprintf(", %d unchanged", t.same)
	}
	if t.left > 0 {
		text += fmt.Sprintf(", %d left as they were: they had ended or changed their state", t.left)
	}
	if t.failed > 0 {
		text += fmt.Sprintf(", %d not %s", t.failed, ch.done)
	}
	if skipped := t.of - t.changed - t.same - t.left - t.failed; skipped > 0 {
		text += fmt.Sprintf(", %d not reached: repeat the command", skipped)
	}
	output.Printf(a.Err, "%s\n", text)
	if t.first != nil && interrupted == nil {
		return fmt.Errorf("%s: %w", t.firstID, t.first)
	}
	return interrupted
}
