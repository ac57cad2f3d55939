package job

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
)

// An interactive job is a job that waits, and a session with it that runs the user's command. The job ends with the command, and with its
// exit code. Both sides are scripts, so that nothing but sh has to be on the node, or in the job's image. They find each other by two files
// in the job's directory for temporary files: the PID of the session's script, and the exit code.

// holdScript is the job. It ends with the code of the command, or if no session is there for a minute.
const holdScript = `# ares run -i: wait for the session with the command, and end with it
s=${TMPDIR:-/tmp}/.ares-$ARES_JOB_ID-$ARES_ATTEMPT
n=0
while [ $n -lt 60 ]; do
	if [ -s "$s.code" ]; then
		read code <"$s.code"
		exit "$code"
	fi
	n=$((n + 1))
	if [ -s "$s.pid" ] && read pid <"$s.pid" && kill -0 "$pid" 2>/dev/null; then
		n=0
	fi
	sleep 1
done
echo "there was no session for 60 seconds: start another job with ares run -it" >&2
exit 125`

// joinScript runs the command in the session. Signals of the terminal are for the command, and a hangup ends both.
const joinScript = `s=${TMPDIR:-/tmp}/.ares-$ARES_JOB_ID-$ARES_ATTEMPT
echo $$ >"$s.pid" || exit 125
trap : INT QUIT TERM
"$@"
code=$?
echo $code >"$s.code"
exit $code`

const (
	// endPatience is how long ares waits for the end of an interactive job whose session has ended.
	endPatience = 15 * time.Second
	// joinPatience is how long ares tries to begin the session with a job that runs.
	joinPatience = 30 * time.Second
)

// checkInteractive returns the command of an interactive job, or why the job cannot be one.
func checkInteractive(spec *apipb.JobSpec) ([]string, error) {
	argv := append(append([]string(nil), spec.GetCommand()...), spec.GetArgs()...)
	switch {
	case len(argv) == 0:
		return nil, exit.Usagef("-i and -t need a command, also with an image: write it after --, such as: ares run -it -- bash")
	case spec.GetMembers() > 1:
		return nil, exit.Usagef("-i and -t work with one rank, but the job has %d: start it without them, and use ares shell", spec.GetMembers())
	}
	return argv, nil
}

// checkSession returns why the command line cannot start an interactive job, if it asks for one.
func (s *submission) checkSession(spec *apipb.JobSpec) error {
	if !s.session.isInteractive() {
		return nil
	}
	if _, err := checkInteractive(spec); err != nil {
		return err
	}
	return s.session.checkTerminal(s.app.In)
}

// interactive submits one job, runs its command in a session, and returns the command's exit code as an error.
func (s *submission) interactive(ctx context.Context, c *client.Client, spec *apipb.JobSpec) error {
	argv, err := checkInteractive(spec)
	if err != nil {
		return err
	}
	if err := s.resolveDependencies(ctx, c, []*apipb.JobSpec{spec}); err != nil {
		return err
	}
	spec.Command, spec.Args = append([]string{"sh", "-c", holdScript, "ares"}, argv...), nil
	if spec.Retry == nil {
		spec.Retry = &apipb.RetryPolicy{}
	}
	spec.Retry.MaxRetries = proto.Int32(0) // nobody would be there for the second time
	answer, err := c.Submit(ctx, spec)
	if err != nil {
		return s.located(0, err)
	}
	id := output.Clean(answer.GetJobId())
	s.warn("", answer.GetWarnings())
	output.Printf(s.app.Err, "%s %s\n", id, output.Clean(answer.GetStatus()))
	job, err := c.WaitUntil(ctx, id, func(j *apipb.Job) bool { return j.GetState() == string(ares.Running) || hasEnded(j) })
	switch {
	case err != nil:
		s.endInteractive(ctx, c, id)
		if ctx.Err() != nil {
			return &exit.Error{Code: exit.Interrupted}
		}
		return err
	case hasEnded(job):
		output.Printf(s.app.Err, "ares: %s %s\n", id, ending(job))
		return &exit.Error{Code: exitCodeOf(job)}
	}
	err = s.joinInteractive(ctx, c, id, append([]string{"sh", "-c", joinScript, "ares"}, argv...))
	s.endInteractive(ctx, c, id)
	return err
}

// joinInteractive runs the session. A job that runs may need another moment until it can have sessions.
func (s *submission) joinInteractive(ctx context.Context, c *client.Client, id string, argv []string) error {
	trying, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	for {
		err := s.app.runBeside(ctx, c, id, argv, s.session)
		if err == nil || !strings.Contains(err.Error(), "is still starting") || !pause.For(trying, 200*time.Millisecond) {
			return err
		}
	}
}

// endInteractive waits until a job has ended whose session is over. It cancels the job if it does not end, or would start again. A signal
// to ares does not keep it from that.
func (s *submission) endInteractive(ctx context.Context, c *client.Client, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	job, err := c.WaitUntil(ctx, id, func(j *apipb.Job) bool { return j.GetState() != string(ares.Running) })
	if err == nil && hasEnded(job) {
		return
	}
	cancelling, done := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer done()
	if _, err = c.Cancel(cancelling, id); err != nil {
		output.Printf(s.app.Err, "ares: %s was not cancelled (%v): it ends by itself a minute after its session\n", id, err)
	}
}

func hasEnded(j *apipb.Job) bool { return ares.Phase(j.GetState()).Final() }
