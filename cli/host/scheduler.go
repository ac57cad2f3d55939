package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// SchedulerCommand returns the root command of the program under its name `scheduler`. One source document starts the
// server with it, and another one submits the first job with it. So it asks whether a server answers.
func SchedulerCommand(app *command.App) *cobra.Command {
	a := &commands{app}
	var f serverFlags
	var kubeconfig, name string
	c := &cobra.Command{
		Use: "scheduler", Short: "Run a server, or submit a test job to a running one", Args: command.ExactArgs(),
		Example: "  scheduler --config config/scheduler-config.yaml",
		Long: `Run a server without a node agent, like "ares server". If no etcd is configured, the server uses
an embedded store.

Without flags of the server, "scheduler" first looks for a server. If a server answers at the
address of --server, at the address in the data directory, or at ` + command.DefaultServer + `, the command
submits a test job to it, with the request ID ` + testRequest + `. If none
answers, the command runs a server. But if you set --server or ARES_SERVER, it fails instead.

With --kubeconfig or --scheduler-name, "scheduler" schedules the pods of a Kubernetes cluster: it runs
the program ` + kubeScheduler + `, which is in the same directory.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kubeconfig != "" || name != "" {
				if f.given() {
					return exit.Usagef("--kubeconfig and --scheduler-name are for the scheduler of a Kubernetes cluster, which has no other flags here: leave them out to run a server, or run %s --help", kubeScheduler)
				}
				return execKubeScheduler(kubeconfig, name)
			}
			if !f.given() {
				found, err := a.namesServer(), error(nil)
				if !found {
					if found, err = a.answers(cmd.Context(), answerTime); err != nil {
						return err
					}
				}
				if found {
					return a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error { return a.submitTestJob(ctx, c) })(cmd, nil)
				}
				output.Printf(a.Out, "No server answers at %s, so this command becomes the server. Run it again in another\nterminal to submit a test job.\n", strings.Join(a.Addresses(), ", "))
			}
			cfg, err := a.serverConfig(&f)
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), cfg)
		},
	}
	f.add(c)
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "schedule the pods of the Kubernetes cluster in this file, with "+kubeScheduler)
	c.Flags().StringVar(&name, "scheduler-name", "", "schedule the pods with this schedulerName (default topology-aware-scheduler)")
	return c
}

// The method `given` reports whether the user set a flag of the server.
func (f *serverFlags) given() bool { return *f != serverFlags{} }

// namesServer reports whether the user named a server. Then no other server is started in its place.
func (a *commands) namesServer() bool { return len(a.Servers) > 0 || os.Getenv("ARES_SERVER") != "" }

// answerTime is how long the method `answers` waits for a server.
const answerTime = 5 * time.Second

// The method `answers` reports whether a server answers at the addresses that a client would use. A server that
// answers with an error counts, such as one that is not ready yet. Only a refused connection means that there is none. A
// server that does not answer in time is an error, because a second one must not be started beside it.
func (a *commands) answers(ctx context.Context, limit time.Duration) (bool, error) {
	if a.IsStopped() {
		return false, nil
	}
	c, err := a.ConnectTo(client.Options{Addresses: a.Addresses(), Attempts: 1})
	if err != nil {
		return false, err
	}
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = c.Ready(short)
	closed := c.Close()
	switch {
	case err == nil:
		return true, closed
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) || short.Err() != nil:
		return false, ares.Errorf(ares.Unavailable, "the server at %s did not answer within %s, so no other one is started: try again, stop that server, or run a server at another address with --http-addr and --grpc-addr", strings.Join(a.Addresses(), ", "), limit)
	case !strings.Contains(err.Error(), apipb.CannotConnect):
		return true, nil
	case strings.Contains(err.Error(), syscall.ECONNREFUSED.Error()):
		return false, nil
	}
	return false, err
}

// testRequest is the request ID of the test job. Repeating the command returns the same job.
const testRequest = "req-001"

// testJob runs for five seconds, and reports its progress every second.
func testJob() *apipb.JobSpec {
	return &apipb.JobSpec{
		RequestId: testRequest, Name: "test-job", GpuCount: 2, CpuCores: 1, MemoryMb: 256, Retry: &apipb.RetryPolicy{MaxRetries: new(int32(2))},
		Command: []string{"sh", "-c", `for i in 1 2 3 4 5; do echo "$((i * 20)) $i/5" >> "$ARES_PROGRESS_FILE"; echo "step $i of 5 on GPUs $CUDA_VISIBLE_DEVICES"; sleep 1; done`},
	}
}

// submitTestJob submits the test job and prints its placement.
func (a *commands) submitTestJob(ctx context.Context, c *client.Client) error {
	spec := testJob()
	output.Printf(a.Out, "Submitting job: %s (RequestID: %s)\n", spec.GetName(), spec.GetRequestId())
	answer, err := c.Submit(ctx, spec)
	if err != nil {
		return err
	}
	id := output.Clean(answer.GetJobId())
	for _, w := range answer.GetWarnings() {
		output.Printf(a.Err, "warning: %s\n", output.Clean(w))
	}
	if answer.GetStatus() == "duplicate" {
		output.Printf(a.Out, "Job already exists: %s (RequestID %s was accepted before; state %s)\n", id, spec.GetRequestId(), output.Clean(answer.GetState()))
		output.Printf(a.Err, "submit another job with: %s job submit --gpus 2 -- COMMAND\n", a.Invocation())
		return nil
	}
	output.Printf(a.Out, "Creating new job: %s\n", id)
	a.printPlacement(ctx, c, id)
	output.Printf(a.Out, "Job %s queued successfully\n", id)
	output.Printf(a.Err, "follow it with: %s job logs -f %s\n", a.Invocation(), id)
	return nil
}

// printPlacement waits briefly until the job is placed, and prints its devices and their score.
func (a *commands) printPlacement(ctx context.Context, c *client.Client, id string) {
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	job, err := c.WaitUntil(short, id, func(j *apipb.Job) bool { return len(j.GetAttempts()) > 0 || ares.Phase(j.GetState()).Final() })
	if err != nil || len(job.GetAttempts()) == 0 {
		why := cmp.Or(strings.Join(job.GetWaitingFor(), "; "), job.GetReason(), "no node has the GPUs now")
		output.Printf(a.Out, "No GPU placement for job %s yet: %s\n", id, output.Clean(why))
		return
	}
	last := job.GetAttempts()[len(job.GetAttempts())-1]
	for _, seat := range last.GetSeats() {
		about := fmt.Sprintf("score: %.1f", float64(last.GetScore()))
		if n, err := c.Node(ctx, seat.GetNode()); err == nil {
			about += fmt.Sprintf(", %d NVLink connections", nvlinkPairs(n, seat.GetGpus()))
		}
		output.Printf(a.Out, "GPU placement for job %s: %v (%s) on node %s\n", id, seat.GetGpus(), about, output.Clean(seat.GetNode()))
	}
}

// nvlinkPairs counts the pairs of devices that NVLink connects.
func nvlinkPairs(n *apipb.Node, gpus []int32) int {
	count := 0
	for i, a := range gpus {
		for _, b := range gpus[i+1:] {
			if rows := n.GetLinks(); int(a) < len(rows) && int(b) < len(rows[a].GetTo()) && strings.HasPrefix(rows[a].GetTo()[b], "NV") {
				count++
			}
		}
	}
	return count
}
