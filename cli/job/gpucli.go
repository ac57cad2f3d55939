package job

import (
	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
)

// GPUCommands returns the commands of the program under its name `gpu-cli`. They are the commands of "ares job", of which
// "get" is also called "status". A submission may have no command there.
func GPUCommands(app *command.App) []*cobra.Command {
	a := &commands{app}
	get := a.jobGetCommand()
	get.Use, get.Aliases, get.Example = "status JOB", []string{"get"}, "  gpu-cli status JOB"
	submit := a.submitCommandWith([]string{"sh", "-c", `echo "this job has no command; its GPUs are: $CUDA_VISIBLE_DEVICES"`})
	submit.Example = "  gpu-cli submit --name training-job --gpus 2 --priority 500 --tenant-id default"
	return []*cobra.Command{submit, get, a.jobListCommand(), a.jobCancelCommand(), a.jobLogsCommand(), a.jobWaitCommand(), a.jobEventsCommand(), a.jobExplainCommand(), a.jobRetryCommand()}
}
